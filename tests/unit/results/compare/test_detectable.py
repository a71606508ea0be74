"""What a calibration says of limits, with a machine made up here."""

from __future__ import annotations

import pytest

from benchorch.domain.certificate import Certificate
from benchorch.journal import certificates
from benchorch.results.compare.detectable import (
    APART,
    BACK_TO_BACK,
    INTERLEAVED,
    false_verdicts,
    powers,
    smallest,
    summary,
    too_fine,
)
from support.calibrated_machines import machine


def test_interleaving_finds_what_other_designs_cannot() -> None:
    found = machine(process_sd=0.05)
    interleaved, back_to_back, apart = (
        smallest(found, design, "median", 8) for design in (INTERLEAVED, BACK_TO_BACK, APART)
    )
    assert interleaved is not None
    assert back_to_back is not None
    assert apart is not None
    assert interleaved < 0.01 < 0.03 < apart
    assert back_to_back > 0.03
    share = {
        (p.design, p.statistic, p.extra_ratio): p.found.slower for p in powers(found) if p.n == 8
    }
    assert share[INTERLEAVED, "median", 0.02] == 1.0
    assert share[BACK_TO_BACK, "median", 0.02] < 0.5
    assert share[BACK_TO_BACK, "floor", 0.02] == 1.0
    assert false_verdicts(found) < 0.2


def test_a_limit_below_what_medians_can_tell_is_said_with_what_could() -> None:
    found = machine(process_sd=0.05)
    reason = too_fine(found, 0.02, 8)
    assert "below what medians of two sessions can tell" in reason
    assert "the floor, latency_ms/p01" in reason
    assert "gate --against REV by the floor" in reason
    assert "by the median" not in reason


def test_a_limit_that_the_machine_can_tell_needs_no_word() -> None:
    assert too_fine(machine(process_sd=0.001), 0.02, 8) == ""


def test_where_nothing_can_tell_the_best_there_is_is_named() -> None:
    reason = too_fine(machine(process_sd=0.05, floor_sd=0.05), 0.001, 8)
    assert "Nothing here can" in reason


def test_a_calibration_is_kept_for_this_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert certificates.kept() is None
    found = machine(process_sd=0.01, rounds=3)
    path = certificates.keep(found)
    assert certificates.kept() == found
    path.write_text("{")
    assert certificates.kept() is None


def test_the_summary_names_designs_shares_and_the_day() -> None:
    text = summary(machine(process_sd=0.01))
    assert "interleaved" in text
    assert "apart" in text
    assert "2026-11-23" in text
    assert found_is_of_its_machine(machine(process_sd=0.01))


def found_is_of_its_machine(found: Certificate) -> bool:
    return found.is_of("here", "cpu") and not found.is_of("there", "cpu")


@pytest.mark.parametrize("rounds", [8])
def test_few_rounds_leave_out_what_they_cannot_show(rounds: int) -> None:
    found = machine(process_sd=0.01, rounds=rounds)
    assert smallest(found, APART, "median", 8) is None
    assert "apart" not in summary(found)
    assert {p.n for p in powers(found)} == {5, 8}
