"""Every executor that runs where it stands keeps the promises of the interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from benchorch.config.components import make
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.interfaces.executor import Emit, Executor

FOLDER = Path(__file__).resolve().parents[2] / "conf" / "executor"
# The promises of these need a cluster or an account and are tested beside it.
ELSEWHERE = {"ray", "ec2", "fleet_local", "stack"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ELSEWHERE)


class Worked:
    """A node's work that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.active = 0
        self.most_active = 0

    def __call__(self, trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        self.asked.append((trial.trial_id, attempt))
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        emit(Event(trial_id=trial.trial_id, stage="measure"))
        self.active -= 1
        return TrialResult(trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK)

    def in_rounds(
        self, trials: Sequence[Trial], *, isolated: bool, emit: Emit
    ) -> Iterator[TrialResult]:
        for trial in trials:
            yield self(trial, attempt=1, isolated=isolated, emit=emit)


@pytest.fixture(params=NAMES)
def executor(request: pytest.FixtureRequest) -> Executor:
    node = yaml.safe_load((FOLDER / f"{request.param}.yaml").read_text())
    return make(node, Executor, "executor")


@pytest.fixture
def trials() -> list[Trial]:
    spec = {"hardware": {"kind": "local"}}
    return [Trial(trial_id=f"t{i}", labels={"model": f"m{i}"}, spec=spec) for i in range(5)]


def ignore(event: Event) -> None:
    del event


def test_each_trial_gives_exactly_one_result(executor: Executor, trials: list[Trial]) -> None:
    results = list(executor.run(trials, Worked(), ignore))
    assert sorted(result.trial_id for result in results) == [trial.trial_id for trial in trials]


def test_groups_hold_each_result_once(executor: Executor, trials: list[Trial]) -> None:
    groups = list(executor.run_grouped(trials, Worked(), ignore))
    names = sorted(result.trial_id for results in groups for result in results)
    assert names == [trial.trial_id for trial in trials]
    assert all(groups)


def test_closing_groups_early_starts_nothing_more(executor: Executor, trials: list[Trial]) -> None:
    work = Worked()
    groups = executor.run_grouped(trials, work, ignore)
    next(groups)
    groups.close()  # type: ignore[attr-defined]
    assert len(work.asked) == 1
    assert list(groups) == []


def test_trials_run_one_at_a_time_in_the_order_given(
    executor: Executor, trials: list[Trial]
) -> None:
    work = Worked()
    list(executor.run(trials[::-1], work, ignore))
    assert work.asked == [(trial.trial_id, 1) for trial in trials[::-1]]
    assert work.most_active == 1


def test_a_result_comes_before_the_next_trial_starts(
    executor: Executor, trials: list[Trial]
) -> None:
    work = Worked()
    results = iter(executor.run(trials, work, ignore))
    assert next(results).trial_id == "t0"
    assert len(work.asked) == 1


def test_closing_early_starts_nothing_more(executor: Executor, trials: list[Trial]) -> None:
    work = Worked()
    results = executor.run(trials, work, ignore)
    next(results)
    assert isinstance(results, Iterator)
    results.close()  # type: ignore[attr-defined]
    assert len(work.asked) == 1
    assert list(results) == []


def test_events_reach_whoever_waits(executor: Executor, trials: list[Trial]) -> None:
    heard: list[Event] = []
    list(executor.run(trials, Worked(), heard.append))
    assert [event.trial_id for event in heard] == [trial.trial_id for trial in trials]


def test_no_trials_give_no_results(executor: Executor) -> None:
    assert list(executor.run([], Worked(), ignore)) == []


@pytest.mark.parametrize("kind", ["local", "local_gpu"])
def test_this_machine_is_reachable(executor: Executor, kind: str) -> None:
    assert executor.unreachable(kind) is None


def test_an_unreachable_machine_is_named_with_the_way_to_it(executor: Executor) -> None:
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "executor=ray" in reason or "executor.address" in reason


def test_an_interrupt_goes_through_to_the_caller(executor: Executor, trials: list[Trial]) -> None:
    class Interrupted(Worked):
        def __call__(
            self, trial: Trial, *, attempt: int, isolated: bool, emit: Emit
        ) -> TrialResult:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(executor.run(trials, Interrupted(), ignore))
