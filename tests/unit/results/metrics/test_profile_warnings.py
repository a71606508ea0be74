"""What is doubted of a profile."""

from __future__ import annotations

import pytest

from benchorch.domain.profile import ProfileRecord
from benchorch.results.metrics.profile_warnings import profile_doubts


def test_nothing_is_doubted_where_no_profile_was_asked_for_or_it_is_sound() -> None:
    assert profile_doubts(None) == ()
    assert profile_doubts(ProfileRecord(unprofiled_ns=(100,), profiled_ns=(114,))) == ()


@pytest.mark.parametrize("profiled_ns", [(116,), (90, 116, 300)])
def test_a_profiler_that_slows_its_calls_by_more_than_15_percent_is_doubted(
    profiled_ns: tuple[int, ...],
) -> None:
    (doubt,) = profile_doubts(ProfileRecord(unprofiled_ns=(100,), profiled_ns=profiled_ns))
    assert "more than 15 %" in doubt


def test_a_profile_that_is_missing_says_so() -> None:
    assert profile_doubts(ProfileRecord(unavailable="not profiled: oom")) == (
        "What limits it is not known: not profiled: oom",
    )
