"""What follows from due, started and taken."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from benchorch.domain.measurement import Load
from benchorch.stats.queueing import (
    LoadPhase,
    completions_ns,
    disagreement_ratio,
    lateness_ns,
    overloaded,
    replay,
    steady,
)
from support.load_runs import queue, schedule

MS = 1_000_000


def by_hand(load: Load | None = None) -> LoadPhase:
    """Due at 0, 1, 2 and 20 ms; the first is started 0.5 ms late, each takes 3 ms."""
    started = np.array([0.5, 3.5, 6.5, 20.0]) * MS
    whole = queue(
        np.array([0, 1, 2, 20]) * MS, started.astype(np.int64), np.full(4, 3 * MS, dtype=np.int64)
    )
    return whole if load is None else LoadPhase.of(*_series(whole), load)


def _series(stretch: LoadPhase) -> tuple[object, object, object]:
    return stretch.due_ns, stretch.started_ns, stretch.duration_ns


def test_a_response_counts_from_when_it_was_due() -> None:
    assert (by_hand().response_ns / MS).tolist() == [3.5, 5.5, 7.5, 3.0]
    assert (by_hand().queueing_ns / MS).tolist() == [0.5, 2.5, 4.5, 0.0]


def test_lateness_is_what_neither_the_schedule_nor_the_queue_explains() -> None:
    assert (lateness_ns(by_hand()) / MS).tolist() == [0.5, 0.0, 0.0, 0.0]


def test_lateness_with_two_servers_counts_from_when_either_was_free() -> None:
    two = Load(rate_per_s=1.0, first=0, end=3, seed=0, arrivals="poisson", servers=2)
    stretch = LoadPhase.of([0, 0, 1 * MS], [0, 0, 6 * MS], [5 * MS, 9 * MS, MS], two)
    assert (lateness_ns(stretch) / MS).tolist() == [0, 0, 1]
    assert disagreement_ratio(stretch) == 0.0


def test_a_batch_has_one_lateness_and_one_completion() -> None:
    batched = Load(rate_per_s=1.0, first=0, end=4, seed=0, arrivals="poisson", max_batch=3)
    stretch = LoadPhase.of(
        [0, MS, MS, 2 * MS], [0, 4 * MS, 4 * MS, 4 * MS], [4 * MS, *[MS] * 3], batched
    )
    assert lateness_ns(stretch).tolist() == [0, 0]
    assert (replay(stretch) / MS).tolist() == [4, 4, 4, 3]


def test_the_first_tenth_of_the_time_does_not_count() -> None:
    due = np.arange(0, 1000, dtype=np.int64) * MS
    settled = queue(due, due, np.full(1000, MS)).settled()
    assert settled.due_ns[0] == 100 * MS
    assert settled.due_ns.size == 900


@pytest.mark.parametrize("servers", [1, 3])
def test_completions_never_depend_on_who_comes_later(servers: int) -> None:
    due = schedule(0.8, 500, 1, servers=servers)
    spent = np.full(500, MS, dtype=np.int64)
    whole = completions_ns(due, spent, servers)
    np.testing.assert_array_equal(completions_ns(due[:300], spent[:300], servers), whole[:300])


@pytest.mark.parametrize("count", [1, 2])
def test_very_short_stretches_say_what_they_can(count: int) -> None:
    stretch = by_hand()
    short = queue(stretch.due_ns[:count], stretch.started_ns[:count], stretch.duration_ns[:count])
    assert disagreement_ratio(short) == 0.0
    assert overloaded(short) is False
    assert steady(short) is None
    assert (short.offered_per_s() is None) is (count == 1)


def test_what_was_given_up_was_overloaded() -> None:
    load = Load(rate_per_s=1.0, first=0, end=4, seed=0, arrivals="poisson", unserved=1)
    assert overloaded(by_hand(load))


def test_a_tiny_slope_of_constant_arrivals_is_no_overload() -> None:
    due = np.arange(10_000, dtype=np.int64) * MS
    waits = np.linspace(0, 1000, 10_000).astype(np.int64)  # a microsecond more at the end
    assert not overloaded(queue(due, due + waits, np.full(10_000, MS // 2)))


def test_a_server_that_stops_near_the_end_falls_short() -> None:
    due = np.arange(2000, dtype=np.int64) * MS
    spent = np.full(2000, MS // 2, dtype=np.int64)
    spent[1950] = 200 * MS
    started = completions_ns(due, spent, 1) - spent
    assert overloaded(queue(due, started, spent))


@pytest.mark.parametrize(("servers", "max_batch"), [(1, 1), (1, 4), (2, 1)])
@pytest.mark.parametrize("late_at_end", [1, 5])
def test_a_generator_that_wakes_later_and_later_overloads_no_idle_queue(
    servers: int, max_batch: int, late_at_end: int
) -> None:
    due = schedule(0.05, 1000, 1)
    load = Load(rate_per_s=50, first=0, end=1000, seed=1, arrivals="poisson",
                servers=servers, max_batch=max_batch)  # fmt: skip
    late = np.linspace(0, 5 * MS, 1000).astype(np.int64)
    late[-late_at_end:] = 400 * MS
    spent = np.full(1000, MS // 10, dtype=np.int64)
    free, started = [0] * servers, []
    for due_ns, late_ns in zip(due.tolist(), late.tolist(), strict=True):
        first = heapq.heappop(free)
        started.append(due_ns + late_ns if first <= due_ns else first)
        heapq.heappush(free, started[-1] + MS // 10)
    assert not overloaded(LoadPhase.of(due, started, spent, load))


def test_a_generator_that_holds_up_waiting_queries_overloads_them() -> None:
    due = schedule(0.95, 20_000, 1)
    spent = np.full(due.size, MS)
    started = completions_ns(due, spent + MS // 10, 1) - spent
    assert overloaded(queue(due, started, spent))
    assert not overloaded(queue(due, completions_ns(due, spent, 1) - spent, spent))


def test_service_that_is_still_getting_faster_has_not_settled() -> None:
    due = np.arange(2000, dtype=np.int64) * 10 * MS
    noise = np.random.default_rng(1).normal(0, 5000, 2000).astype(np.int64)
    level = np.full(2000, MS) + noise
    warming = level + np.where(np.arange(2000) < 800, MS // 2, 0)
    assert steady(queue(due, due, level)) is True
    assert steady(queue(due, due, warming)) is False
