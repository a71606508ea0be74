from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.local import Local
from benchorch.interfaces.executor import Emit, Executor


@pytest.mark.parametrize(
    ("executor", "isolated"), [(Local(isolated=False), False), (Local(), True)]
)
def test_only_the_process_executor_asks_for_isolation(executor: Executor, isolated: bool) -> None:
    asked: list[bool] = []

    class Work:
        def in_rounds(
            self, trials: Sequence[Trial], *, isolated: bool, emit: Emit
        ) -> Iterator[TrialResult]:
            asked.append(isolated)
            for trial in trials:
                yield TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK)

    def ignore(event: Event) -> None:
        del event

    work: Any = Work()
    list(executor.run([Trial(trial_id="t", labels={}, spec={})], work, ignore))
    assert asked == [isolated]


def test_this_machine_can_be_declared_to_be_another_kind() -> None:
    executor = Local(kinds=["g5.xlarge"])
    assert executor.unreachable("g5.xlarge") is None
    assert "local" in str(executor.unreachable("local"))


@pytest.mark.parametrize("kinds", [[], [""]])
def test_an_executor_that_reaches_nothing_is_refused(kinds: list[str]) -> None:
    with pytest.raises(ValueError, match="at least one hardware kind, got"):
        Local(kinds=kinds)
