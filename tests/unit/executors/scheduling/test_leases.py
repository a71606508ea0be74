"""The lease book alone: what it promises whatever happens to the holders."""

import dataclasses

import pytest

from benchorch.domain.result import BuildRecord, Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.leases import MAX_EXCUSES, LeaseBook, TrialLease
from benchorch.executors.scheduling.queue import Forecast

BUILT = BuildRecord(
    key="k", cache="miss", build_s=1, original_build_s=1, artifact_bytes=1, model_digest="d"
)


def trial(name: str, kind: str = "a") -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec={})


def ok(lease: TrialLease) -> TrialResult:
    return TrialResult(trial_id=lease.trial.trial_id, labels=lease.trial.labels, outcome=Outcome.OK)


def take(book: LeaseBook, agent: str, kind: str = "a") -> TrialLease:
    lease = book.lease(agent, kind)
    assert lease is not None
    return lease


def test_trials_are_leased_in_the_order_in_which_they_were_declared() -> None:
    book = LeaseBook([trial("1"), trial("2"), trial("3")], max_attempts=3)
    assert [take(book, "x").trial.trial_id for _ in range(3)] == ["1", "2", "3"]
    assert book.lease("x", "a") is None


def order(book: LeaseBook, count: int, *, done: bool = False) -> list[str]:
    """The next trials; each is finished before the next is taken where `done`."""
    taken = []
    for _ in range(count):
        lease = take(book, "x")
        taken.append(lease.trial.trial_id)
        if done:
            book.finish(lease, dataclasses.replace(ok(lease), build=BUILT))
    return taken


def test_trials_of_known_length_go_first_the_longest_before_all() -> None:
    expected = {"2": Forecast(measure_s=5), "3": Forecast(measure_s=60)}
    book = LeaseBook([trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected)
    assert order(book, 3) == ["3", "2", "1"]


def test_what_must_be_built_first_counts_until_it_is_there() -> None:
    expected = {
        "1": Forecast(measure_s=20, builds={}),
        "2": Forecast(measure_s=5, builds={"export": 40.0}),
        "3": Forecast(measure_s=6, builds={"export": 40.0}),
    }
    book = LeaseBook([trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected)
    assert order(book, 3, done=True) == ["3", "1", "2"]


def sharing() -> LeaseBook:
    """Two trials of one slow artifact, and a short one of another."""
    expected = {
        "1": Forecast(measure_s=9, builds={"a": 100.0}),
        "2": Forecast(measure_s=8, builds={"a": 100.0}),
        "3": Forecast(measure_s=1, builds={"b": 1.0}),
    }
    return LeaseBook([trial("1"), trial("2"), trial("3")], max_attempts=3, forecasts=expected)


def test_nobody_is_sent_to_wait_for_a_build_while_there_is_something_else() -> None:
    assert order(sharing(), 3) == ["1", "3", "2"]


def test_who_says_that_it_measures_has_built_what_others_may_now_use() -> None:
    book = sharing()
    take(book, "x")
    book.built("1")
    assert order(book, 2) == ["2", "3"]


@pytest.mark.parametrize("how", ["lost", "faulted", "failed"])
def test_a_build_that_nobody_finished_is_begun_by_the_next(how: str) -> None:
    book = sharing()
    lease = take(book, "y")
    if how == "lost":
        book.lose("y", "gone")
    elif how == "faulted":
        book.fault(lease, "no")
    else:
        book.finish(lease, ok(lease))  # it ended before anything was built
    following = {"lost": "1", "faulted": "1", "failed": "2"}[how]
    assert take(book, "x").trial.trial_id == following
    assert take(book, "x").trial.trial_id == "3"


def test_a_trial_is_only_leased_to_its_own_kind() -> None:
    book = LeaseBook([trial("1", "a")], max_attempts=3)
    assert book.lease("x", "b") is None
    assert book.waiting() == {"a": 1}


def test_a_result_carries_the_attempt_that_gave_it() -> None:
    book = LeaseBook([trial("1")], max_attempts=3)
    take(book, "x")
    book.lose("x", "gone")
    second = take(book, "y")
    result = book.finish(second, ok(second))
    assert result is not None
    assert (result.attempt, result.outcome) == (2, Outcome.OK)
    assert book.done()


def test_a_lost_agent_uses_up_an_attempt_of_the_trial_it_worked_on_and_of_no_other() -> None:
    book = LeaseBook([trial("1"), trial("2"), trial("3")], max_attempts=3)
    for _ in range(3):
        take(book, "x")
    loss = book.lose("x", "gone")
    assert [(t.trial_id, attempt) for t, attempt in loss.retried] == [("1", 2)]
    again = [take(book, "y") for _ in range(3)]
    assert [(lease.trial.trial_id, lease.attempt) for lease in again] == [
        ("1", 2),
        ("2", 1),
        ("3", 1),
    ]


def test_a_trial_that_loses_every_node_is_reported_with_the_last_reason() -> None:
    book = LeaseBook([trial("1")], max_attempts=2)
    take(book, "x")
    book.lose("x", "first")
    take(book, "y")
    (result,) = book.lose("y", "the node burnt down").results
    assert result.failure is not None
    assert (result.outcome, result.failure.stage) == (Outcome.FAILED, "schedule")
    assert result.failure.kind == "node_lost"
    assert "2 of 2" in result.failure.message
    assert "the node burnt down" in result.failure.message
    assert book.done()


def test_an_excused_loss_uses_up_no_attempt_but_not_for_ever() -> None:
    book = LeaseBook([trial("1")], max_attempts=1)
    for number in range(MAX_EXCUSES):
        assert take(book, str(number)).attempt == 1
        assert book.lose(str(number), "called back", excused=True).results == ()
    take(book, "x")
    (result,) = book.lose("x", "called back", excused=True).results
    assert result.failure is not None
    assert result.failure.kind == "node_lost"


def test_the_late_result_of_a_lost_agent_is_dropped() -> None:
    book = LeaseBook([trial("1")], max_attempts=3)
    zombie = take(book, "x")
    book.lose("x", "partition")
    retry = take(book, "y")
    assert book.finish(zombie, ok(zombie)) is None
    assert book.finish(retry, ok(retry)) is not None
    assert book.finish(retry, ok(retry)) is None


def test_a_kind_nobody_serves_is_given_up_with_the_reason_and_the_remedy() -> None:
    book = LeaseBook([trial("1", "a"), trial("2", "b")], max_attempts=3)
    (result,) = book.give_up("b", "no node of kind 'b'", "ray start ...")
    assert result.failure is not None
    assert (result.trial_id, result.failure.kind) == ("2", "no_node")
    assert result.failure.remedy == "ray start ..."
    assert book.kinds() == {"a"}


def test_a_trial_whose_node_was_lost_says_so_when_no_other_comes() -> None:
    book = LeaseBook([trial("1")], max_attempts=3)
    take(book, "x")
    book.lose("x", "gone")
    (result,) = book.give_up("a", "no node of kind 'a'", "")
    assert result.failure is not None
    assert result.failure.kind == "node_lost"


def test_work_that_raises_every_time_is_reported_as_the_agents_failure() -> None:
    book = LeaseBook([trial("1")], max_attempts=2)
    book.fault(take(book, "x"), "TypeError: no")
    (result,) = book.fault(take(book, "x"), "TypeError: no").results
    assert result.failure is not None
    assert result.failure.kind == "agent_failed"
