"""The server scenario: what it offers, keeps and refuses."""

from __future__ import annotations

import gc
import time

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware.cpu import CpuClock
from benchorch.interfaces.hardware import Counts
from benchorch.scenarios.server import Server
from benchorch.stats.queueing import disagreement_ratio
from support.clocks import Costs, VirtualClock
from support.load_runs import QuickClock, constant, only, run, varying

MS = 1_000_000


def test_a_named_rate_is_offered_for_as_long_as_was_asked() -> None:
    observed = run(Server(rate_per_s=100, duration_s=20, arrivals="constant", seed=1))
    (load,) = observed.loads
    assert (load.rate_per_s, load.purpose, load.arrivals) == (100, "offered", "constant")
    assert load.end == len(observed.durations_ns) == len(observed.scheduled_ns) == 2000
    assert observed.scheduled_ns[0] == observed.started_ns[0] == 0
    assert observed.scheduled_ns[-1] == 1999 * 10 * MS


def test_without_a_rate_it_is_a_share_of_the_capacity_measured_first() -> None:
    observed = run(Server(utilisation_ratio=0.5, duration_s=2, seed=1))
    *capacity, offered = observed.loads
    assert {load.purpose for load in capacity} == {"capacity"}
    assert all(load.rate_per_s == 0 and load.arrivals == "closed" for load in capacity)
    assert offered.rate_per_s == pytest.approx(500)
    assert offered.utilisation_ratio == 0.5


def test_capacity_grows_with_the_batch() -> None:
    clock = VirtualClock(read_ns=0, turn_ns=0)
    call = constant(clock)
    observed = run(Server(max_batch=4, duration_s=2, capacity_s=0.5, seed=1), call, clock)
    # On a virtual clock the calls of a batch follow each other: no gain, and four at once.
    assert observed.loads[-1].rate_per_s == pytest.approx(700, rel=0.01)
    assert observed.loads[0].end == 40


def test_disturbed_calls_do_not_prolong_the_search_for_the_capacity() -> None:
    clock = QuickClock()
    costs = (MS if n % 4 else 40 * MS for n in range(10**6))
    observed = run(Server(duration_s=1, capacity_s=2, seed=1), varying(clock, costs), clock)
    _, capacity, _ = observed.loads
    spent_ns = sum(observed.durations_ns[capacity.first : capacity.end])
    assert 4e9 <= spent_ns < 4.1e9
    assert capacity.unserved == 0
    assert observed.loads[-1].rate_per_s == pytest.approx(0.7 * 4000 / 43, rel=0.03)


def test_a_slow_model_is_offered_more_time_but_not_without_end() -> None:
    observed = run(Server(rate_per_s=5, duration_s=60, seed=1))
    assert observed.loads[0].end == 662
    observed = run(Server(rate_per_s=0.5, duration_s=60, seed=1))
    assert observed.loads[0].end == 150


def test_a_rate_is_offered_once_at_least() -> None:
    observed = run(Server(rate_per_s=0.01, duration_s=0.001, min_queries=0, seed=1))
    assert len(observed.durations_ns) == 1


def test_a_seed_is_drawn_and_recorded_unless_it_is_named() -> None:
    named = [run(Server(rate_per_s=100, duration_s=1, seed=5)) for _ in range(2)]
    drawn = [run(Server(rate_per_s=100, duration_s=1)) for _ in range(2)]
    assert named[0] == named[1]
    assert drawn[0].loads[0].seed != drawn[1].loads[0].seed
    again = run(Server(rate_per_s=100, duration_s=1, seed=drawn[0].loads[0].seed))
    assert again == drawn[0]


def test_the_schedule_does_not_depend_on_the_model() -> None:
    clock = QuickClock()
    scenario = Server(rate_per_s=100, duration_s=5, seed=3)
    slow = run(scenario, constant(clock, 9.9), clock)
    assert slow.scheduled_ns == run(scenario).scheduled_ns


def test_what_happens_while_serving_is_noted() -> None:
    clock, made = VirtualClock(), 0

    def call() -> None:
        nonlocal made
        clock.spend(MS)
        clock.happens(collections=made % 10 == 3, preemptions=made % 10 == 4)
        made += 1

    observed = run(Server(rate_per_s=200, duration_s=1, min_queries=30, seed=1), call, clock)
    count = len(observed.durations_ns)
    assert observed.events["collection"] == tuple(range(3, count, 10))
    assert [i for i, flag in enumerate(observed.preempted) if flag] == list(range(4, count, 10))
    assert len(observed.cpu_ns) == count
    assert only(observed).due_ns.size == count


def test_garbage_is_collected_as_in_service() -> None:
    was_enabled, clock, seen = gc.isenabled(), QuickClock(), set[bool]()

    def call() -> None:
        seen.add(gc.isenabled())
        clock.true_ns += MS

    run(Server(rate_per_s=200, duration_s=1, seed=1), call, clock)
    assert seen == {was_enabled}


def test_counts_are_not_attributed_to_the_wait_before_a_query() -> None:
    class Busy(VirtualClock):
        def wait_until(self, due_ns: int) -> None:
            VirtualClock.wait_until(self, due_ns)
            self.tally = Counts(preemptions=self.tally.preemptions + 1)

    clock = Busy()
    scenario = Server(rate_per_s=10, duration_s=2, min_queries=0, seed=1)
    observed = run(scenario, Costs(clock, MS), clock)
    assert not any(observed.preempted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_per_s": 0}, "rate_per_s: above 0, or null; got rate_per_s=0"),
        ({"rate_per_s": float("inf")}, "rate_per_s"),
        ({"utilisation_ratio": 3.0}, "utilisation_ratio: above 0, at most 2"),
        ({"servers": 0}, "servers: at least 1"),
        ({"servers": 1001}, "at most 1000"),
        ({"max_batch": 0}, "max_batch"),
        ({"duration_s": -1.0}, "duration_s"),
        ({"min_queries": -1}, "min_queries"),
        ({"target_ms": 0.0}, "target_ms: above 0"),
        ({"quantile_ratio": 1.0}, "quantile_ratio: between 0 and 1"),
        ({"capacity_s": 0.0}, "capacity_s"),
        ({"seed": -1}, "seed"),
        ({"arrivals": "bursty", "cv": 0.5}, "cv"),
    ],
)
def test_an_option_out_of_its_bounds_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Server(**options)  # type: ignore[arg-type]


def test_live_servers_side_by_side_add_up_whoever_comes_first() -> None:
    clock = CpuClock()
    calls = [lambda: time.sleep(0.2) for _ in range(3)]  # long beside a busy machine's delays
    scenario = Server(rate_per_s=10, duration_s=2, min_queries=0, servers=3, seed=1)
    observed = run(scenario, clock=clock, calls=calls)
    assert disagreement_ratio(only(observed)) == 0.0
    assert only(observed).due_ns.size == 20
    assert observed.cpu_ns == ()
    # Two of three are busy on average: one server alone would be left far behind.
    assert observed.loads[-1].unserved == 0


def test_cold_caches_are_refused() -> None:
    clock = QuickClock()
    with pytest.raises(MeasureError, match="Caches cannot be flushed") as caught:
        Server().run(
            [constant(clock)],
            clock=clock,
            calibration=clock.calibrate(),
            stopping=None,  # type: ignore[arg-type]
            items_per_call=1,
            cold_caches=True,
        )
    assert "cold_caches=false" in caught.value.remedy
