"""What a side of a duel does with orders for several trials, with trials that only count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.run.duel import side
from benchorch.run.duel.messages import EndedTrial, Order, ProcessLevel


class Run:
    """A trial whose third process fails if it is named ``broken``."""

    stop_reason = ""

    def __init__(self, trial: str, session: object, **_: object) -> None:
        self.trial, self.failure = trial, None if trial != "unbuilt" else "it was not built"
        self.cpus: list[tuple[int, ...]] = []
        self.in_store = False
        self.repetitions = SimpleNamespace(records=[])

    @contextlib.contextmanager
    def using_store(self) -> Iterator[None]:
        self.in_store = True
        yield
        self.in_store = False

    def start(self) -> None:
        assert self.in_store

    def repeat(self, cpus: tuple[int, ...]) -> None:
        self.cpus.append(cpus)
        self.repetitions.records.append(len(self.cpus))
        if self.trial == "broken" and len(self.cpus) == 3:
            self.failure = "it broke"

    def end(self, *, profile: bool) -> None:
        assert not profile

    def result(self) -> Any:
        return SimpleNamespace(processes=self.cpus, failure=self.failure, run=self)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The trials whose results were kept, in that order."""
    found: list[Run] = []
    monkeypatch.setattr(side, "TrialRun", Run)
    monkeypatch.setattr(side, "_trouble", lambda result: result.failure or "")
    monkeypatch.setattr(
        side, "level_of", lambda count: ProcessLevel(median=count, floor=None, cpus=(1,))
    )
    monkeypatch.setattr(
        side.run_directory, "append_result", lambda _, result, __: found.append(result.run)
    )
    return found


def answers(*orders: Order) -> list[object]:
    trials: Any = {name: name for name in ("a", "b", "broken", "unbuilt")}
    session: Any = SimpleNamespace(directory="d")
    with side._Runs(trials, session) as runs:
        messages = [runs.answer(order) for order in orders]
    return [message.process.median if message.process else message.ended for message in messages]


def test_trials_take_turns_and_each_ends_by_itself(kept: list[Run]) -> None:
    found = answers(
        Order(trial_id="a"),
        Order(trial_id="b"),
        Order(trial_id="a", cpus=(1,)),
        Order(trial_id="a", stop="converged"),
        Order(trial_id="b", cpus=(2,)),
    )
    assert found == [1, 1, 2, EndedTrial(trial_id="a"), 2]
    assert [run.cpus for run in kept] == [[(), (1,)], [(), (2,)]]
    assert [run.stop_reason for run in kept] == ["converged", side.GONE]
    assert not any(run.in_store for run in kept)


def test_a_trial_that_fails_ends_and_the_others_go_on(kept: list[Run]) -> None:
    first = [Order(trial_id="broken"), Order(trial_id="a")] * 2
    found = answers(*first, Order(trial_id="broken"), Order(trial_id="a"))
    assert found == [1, 1, 2, 2, EndedTrial(trial_id="broken", trouble="it broke"), 3]
    assert [run.trial for run in kept] == ["broken", "a"]


def test_a_trial_that_is_not_built_runs_no_process(kept: list[Run]) -> None:
    assert answers(Order(trial_id="unbuilt")) == [
        EndedTrial(trial_id="unbuilt", trouble="it was not built")
    ]
    assert [run.cpus for run in kept] == [[]]
