"""Task assignments alone: their guarantees whatever happens to the agents."""

import dataclasses

import pytest

from benchorch.domain.result import BuildRecord, Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.assignments import (
    MAX_UNCOUNTED,
    TaskAssignment,
    TaskAssignments,
)
from benchorch.executors.scheduling.queue import Forecast

BUILT = BuildRecord(
    key="k", cache="miss", build_s=1, original_build_s=1, artifact_bytes=1, model_digest="d"
)


def trial(name: str, kind: str = "a") -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec={})


def ok(assignment: TaskAssignment) -> TrialResult:
    return TrialResult(
        trial_id=assignment.trial.trial_id, labels=assignment.trial.labels, outcome=Outcome.OK
    )


def assign(assignments: TaskAssignments, agent: str, kind: str = "a") -> TaskAssignment:
    assignment = assignments.assign(agent, kind)
    assert assignment is not None
    return assignment


def test_trials_are_assigned_in_the_order_in_which_they_were_declared() -> None:
    assignments = TaskAssignments([trial("1"), trial("2"), trial("3")], max_attempts=3)
    assert [assign(assignments, "x").trial.trial_id for _ in range(3)] == ["1", "2", "3"]
    assert assignments.assign("x", "a") is None


def order(assignments: TaskAssignments, count: int, *, done: bool = False) -> list[str]:
    """The next trials; each is finished before the next is taken where `done`."""
    taken = []
    for _ in range(count):
        assignment = assign(assignments, "x")
        taken.append(assignment.trial.trial_id)
        if done:
            assignments.finish(assignment, dataclasses.replace(ok(assignment), build=BUILT))
    return taken


def test_trials_of_known_length_go_first_the_longest_before_all() -> None:
    expected = {"2": Forecast(measure_s=5), "3": Forecast(measure_s=60)}
    assignments = TaskAssignments(
        [trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected
    )
    assert order(assignments, 3) == ["3", "2", "1"]


def test_what_must_be_built_first_counts_until_it_is_there() -> None:
    expected = {
        "1": Forecast(measure_s=20, builds={}),
        "2": Forecast(measure_s=5, builds={"export": 40.0}),
        "3": Forecast(measure_s=6, builds={"export": 40.0}),
    }
    assignments = TaskAssignments(
        [trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected
    )
    assert order(assignments, 3, done=True) == ["3", "1", "2"]


def sharing() -> TaskAssignments:
    """Two trials of one slow artifact, and a short one of another."""
    expected = {
        "1": Forecast(measure_s=9, builds={"a": 100.0}),
        "2": Forecast(measure_s=8, builds={"a": 100.0}),
        "3": Forecast(measure_s=1, builds={"b": 1.0}),
    }
    return TaskAssignments([trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected)


def test_no_trial_that_waits_for_a_build_goes_before_another_that_does_not() -> None:
    assert order(sharing(), 3) == ["1", "3", "2"]


def test_a_trial_that_measures_has_built_the_artifacts_it_shares() -> None:
    assignments = sharing()
    assign(assignments, "x")
    assignments.mark_built("1")
    assert order(assignments, 2) == ["2", "3"]


@pytest.mark.parametrize("how", ["lost", "faulted", "failed"])
def test_an_unfinished_build_is_begun_again_by_the_next_trial(how: str) -> None:
    assignments = sharing()
    assignment = assign(assignments, "y")
    if how == "lost":
        assignments.lose("y", "gone")
    elif how == "faulted":
        assignments.fault(assignment, "no")
    else:
        assignments.finish(assignment, ok(assignment))  # it ended before anything was built
    following = {"lost": "1", "faulted": "1", "failed": "2"}[how]
    assert assign(assignments, "x").trial.trial_id == following
    assert assign(assignments, "x").trial.trial_id == "3"


def test_a_trial_is_only_assigned_to_its_own_kind() -> None:
    assignments = TaskAssignments([trial("1", "a")], max_attempts=3)
    assert assignments.assign("x", "b") is None
    assert assignments.queued() == {"a": 1}


def test_a_result_carries_the_attempt_that_gave_it() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=3)
    assign(assignments, "x")
    assignments.lose("x", "gone")
    second = assign(assignments, "y")
    result = assignments.finish(second, ok(second))
    assert result is not None
    assert (result.attempt, result.outcome) == (2, Outcome.OK)
    assert assignments.done()


def test_a_lost_agent_uses_up_an_attempt_of_the_trial_it_worked_on_and_of_no_other() -> None:
    assignments = TaskAssignments([trial("1"), trial("2"), trial("3")], max_attempts=3)
    for _ in range(3):
        assign(assignments, "x")
    loss = assignments.lose("x", "gone")
    assert [(t.trial_id, attempt) for t, attempt in loss.retried] == [("1", 2)]
    again = [assign(assignments, "y") for _ in range(3)]
    assert [(assignment.trial.trial_id, assignment.attempt) for assignment in again] == [
        ("1", 2),
        ("2", 1),
        ("3", 1),
    ]


def test_a_trial_that_loses_every_node_is_reported_with_the_last_reason() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=2)
    assign(assignments, "x")
    assignments.lose("x", "first")
    assign(assignments, "y")
    (result,) = assignments.lose("y", "the node burnt down").results
    assert result.failure is not None
    assert (result.outcome, result.failure.stage) == (Outcome.FAILED, "schedule")
    assert result.failure.kind == "node_lost"
    assert "2 of 2" in result.failure.message
    assert "the node burnt down" in result.failure.message
    assert assignments.done()


def test_an_announced_loss_uses_up_no_attempt_but_not_for_ever() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=1)
    for number in range(MAX_UNCOUNTED):
        assert assign(assignments, str(number)).attempt == 1
        assert assignments.lose(str(number), "interrupted", uncounted=True).results == ()
    assign(assignments, "x")
    (result,) = assignments.lose("x", "interrupted", uncounted=True).results
    assert result.failure is not None
    assert result.failure.kind == "node_lost"


def test_the_late_result_of_a_lost_agent_is_dropped() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=3)
    zombie = assign(assignments, "x")
    assignments.lose("x", "partition")
    retry = assign(assignments, "y")
    assert assignments.finish(zombie, ok(zombie)) is None
    assert assignments.finish(retry, ok(retry)) is not None
    assert assignments.finish(retry, ok(retry)) is None


def test_a_kind_without_agents_is_given_up_with_the_reason_and_the_remedy() -> None:
    assignments = TaskAssignments([trial("1", "a"), trial("2", "b")], max_attempts=3)
    (result,) = assignments.give_up("b", "no node of kind 'b'", "ray start ...")
    assert result.failure is not None
    assert (result.trial_id, result.failure.kind) == ("2", "no_node")
    assert result.failure.remedy == "ray start ..."
    assert assignments.queued() == {"a": 1}


def test_a_trial_whose_node_was_lost_says_so_when_no_other_comes() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=3)
    assign(assignments, "x")
    assignments.lose("x", "gone")
    (result,) = assignments.give_up("a", "no node of kind 'a'", "")
    assert result.failure is not None
    assert result.failure.kind == "node_lost"


def test_work_that_raises_every_time_is_reported_as_the_agents_failure() -> None:
    assignments = TaskAssignments([trial("1")], max_attempts=2)
    assignments.fault(assign(assignments, "x"), "TypeError: no")
    (result,) = assignments.fault(assign(assignments, "x"), "TypeError: no").results
    assert result.failure is not None
    assert result.failure.kind == "agent_failed"
