"""Warnings about a profile; `test_summary` has those about a trial."""

from __future__ import annotations

import pytest

from benchorch.domain.profile import ProfileRecord
from benchorch.results.metrics.warnings import profile_warnings


def test_a_sound_profile_or_none_has_no_warning() -> None:
    assert list(profile_warnings(None)) == []
    assert list(profile_warnings(ProfileRecord(unprofiled_ns=(100,), profiled_ns=(114,)))) == []


@pytest.mark.parametrize("profiled_ns", [(116,), (90, 116, 300)])
def test_a_profiler_that_slows_its_calls_by_more_than_15_percent_is_a_warning(
    profiled_ns: tuple[int, ...],
) -> None:
    (warning,) = profile_warnings(ProfileRecord(unprofiled_ns=(100,), profiled_ns=profiled_ns))
    assert "more than 15 %" in warning


def test_a_missing_profile_has_its_reason() -> None:
    assert list(profile_warnings(ProfileRecord(unavailable="not profiled: oom"))) == [
        "What limits it is not known: not profiled: oom"
    ]


def test_a_profile_that_is_not_of_the_program_shows_no_limit() -> None:
    (warning,) = profile_warnings(ProfileRecord(unprofiled_ns=(100,), profiled_ns=(301,)))
    assert warning.startswith("What limits it is not known")
