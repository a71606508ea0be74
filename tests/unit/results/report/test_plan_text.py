"""A plan in words."""

from __future__ import annotations

from benchorch.domain.trial import Plan
from benchorch.results.report.plan_text import plan_text
from support.synthetic_runs import trial


def test_a_plan_is_printed_in_aligned_columns() -> None:
    trials = (trial("eager"), trial("other", axes="workload.dtype=float64"))
    lines = plan_text(Plan(plan_id="p", name="n", trials=trials, skips=(), session={})).splitlines()
    assert lines[-1] == "2 trials, 0 skips"
    assert lines[1].index("eager") == lines[2].index("other")
    assert lines[2].split()[-1] == "workload.dtype=float64"
