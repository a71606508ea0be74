"""What becomes of a process that the run's budget ends."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.result import Failure
from benchorch.trial.stages import StageFailed
from benchorch.trial.supervisor import OutOfTime, TrialRun

LATE = Failure(stage="measure", kind="timeout", message="late", remedy="raise its limit")


def run_of(valid: Sequence[str], *, out_of_time: bool) -> Any:
    def run(*_: object, **__: object) -> None:
        raise StageFailed(LATE)

    stages = SimpleNamespace(run=run, is_out_of_time=out_of_time)
    return SimpleNamespace(
        _stages=stages, _repetitions=SimpleNamespace(valid=valid), _noted=lambda reply: reply
    )


@pytest.mark.parametrize(
    ("out_of_time", "remedy"), [(True, "a larger budget.minutes"), (False, "raise its limit")]
)
def test_a_first_process_that_the_budget_ended_names_the_budget(
    out_of_time: bool, remedy: str
) -> None:
    request: Any = SimpleNamespace(template="")
    with pytest.raises(StageFailed) as failed:
        TrialRun._measure(run_of([], out_of_time=out_of_time), request)
    assert failed.value.failure.remedy == remedy


def test_a_further_process_that_the_budget_ended_costs_nothing_but_itself() -> None:
    request: Any = SimpleNamespace(template="")
    with pytest.raises(OutOfTime):
        TrialRun._measure(run_of(["one"], out_of_time=True), request)
