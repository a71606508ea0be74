"""The order in which trials of one kind begin, and what their builds cost together."""

from __future__ import annotations

from collections.abc import Mapping

from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.queue import Forecast, QueuedTrial, ReadyQueue


def filled(*forecasts: tuple[float, Mapping[str, float]]) -> ReadyQueue:
    queue = ReadyQueue()
    for position, (measure_s, builds) in enumerate(forecasts):
        trial = Trial(trial_id=f"t{position}", labels={}, spec={})
        forecast = Forecast(measure_s=measure_s, builds=builds)
        queue.push(QueuedTrial(trial=trial, attempt=1, forecast=forecast, position=position))
    return queue


def order(queue: ReadyQueue) -> list[str]:
    popped = []
    while (queued := queue.pop()) is not None:
        popped.append(queued.trial.trial_id)
        queue.mark_built(queued.forecast.builds)
    return popped


def test_the_longest_chain_begins_first_and_ties_go_by_declaration() -> None:
    assert order(filled((1, {}), (5, {}), (5, {}), (2, {"a": 9}))) == ["t3", "t1", "t2", "t0"]


def test_a_trial_whose_artifact_is_being_built_waits_behind_the_ready() -> None:
    queue = filled((9, {"a": 5}), (8, {"a": 5}), (1, {}))
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    assert (first.trial.trial_id, second.trial.trial_id) == ("t0", "t2")
    assert len(queue) == 1
    queue.mark_built(["a"])
    assert order(queue) == ["t1"]
    assert len(queue) == 0


def test_a_shared_build_is_expected_once_and_a_built_one_not_at_all() -> None:
    queue = filled((1, {"a": 5}), (2, {"a": 5}), (3, {"b": 7}))
    assert queue.expected_s() == 1 + 2 + 3 + 5 + 7
    assert queue.missing_s({"a": 5, "b": 7}) == 12
    queue.mark_built(["a"])
    assert queue.expected_s() == 1 + 2 + 3 + 7
    assert queue.missing_s({"a": 5, "b": 7}) == 7


def test_a_cleared_queue_is_empty_in_the_order_of_declaration() -> None:
    queue = filled((1, {}), (5, {"a": 2}), (3, {}))
    assert [one.trial.trial_id for one in queue.clear()] == ["t0", "t1", "t2"]
    assert len(queue) == 0
    assert queue.pop() is None
    queue.push(
        QueuedTrial(
            trial=Trial(trial_id="new", labels={}, spec={}),
            attempt=1,
            forecast=Forecast(),
            position=9,
        )
    )
    assert len(queue) == 1
    assert order(queue) == ["new"]


def popped(queue: ReadyQueue) -> str:
    queued = queue.pop()
    return queued.trial.trial_id if queued else ""


def test_a_trial_that_shares_one_of_several_artifacts_waits_for_it_too() -> None:
    queue = filled((9, {"a": 5}), (8, {"a": 5, "b": 1}), (1, {}))
    assert [popped(queue), popped(queue)] == ["t0", "t2"]
    assert popped(queue) == "t1", "nothing else is left, so it begins and waits for the artifact"


def test_what_a_lost_agent_was_building_no_longer_keeps_others_waiting() -> None:
    queue = filled((9, {"a": 5}), (8, {"a": 5, "b": 1}), (1, {}))
    assert popped(queue) == "t0"
    queue.release(["a"])
    assert popped(queue) == "t1"


def test_an_artifact_that_another_agent_still_builds_is_waited_for() -> None:
    queue = filled((9, {"a": 5}), (9, {"a": 5}), (8, {"a": 5, "b": 1}), (1, {}), (1, {}))
    assert [popped(queue), popped(queue)] == ["t0", "t3"]
    assert [popped(queue), popped(queue)] == ["t4", "t1"]
    queue.release(["a"])  # of t0; t1 builds it as well
    queue.push(
        QueuedTrial(
            trial=Trial(trial_id="new", labels={}, spec={}),
            attempt=1,
            forecast=Forecast(measure_s=0, builds={}),
            position=9,
        )
    )
    assert [popped(queue), popped(queue)] == ["new", "t2"]


def test_what_was_built_meanwhile_is_not_released() -> None:
    queue = filled((9, {"a": 5}), (8, {"a": 5, "b": 1}))
    assert popped(queue) == "t0"
    queue.mark_built(["a"])
    queue.release(["a"])
    assert popped(queue) == "t1"
