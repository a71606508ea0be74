"""One queue, served first come, first served."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware.cpu import CpuClock
from benchorch.interfaces.hardware import Timing
from benchorch.scenarios.virtual_queue import QueryQueue, ServedQueries, serve
from support.load_runs import QuickClock, constant

MS = 1_000_000
NEVER = 2**62


def line(*due_ms: float, until_ns: int = NEVER) -> QueryQueue:
    return QueryQueue([round(time * MS) for time in due_ms], until_ns)


def started_ms(served: ServedQueries) -> list[float]:
    return [start / MS for start in served.started_ns]


def test_a_query_starts_when_it_is_due_and_the_one_before_is_done() -> None:
    clock = QuickClock()
    served = serve(line(1, 2, 2.5, 9), [constant(clock, 3)], clock, servers=1, max_batch=1)
    assert started_ms(served) == [1, 4, 7, 10]
    assert list(served.places) == [0, 1, 2, 3]


def test_a_batch_takes_who_waits_and_nobody_who_is_not_there_yet() -> None:
    clock = QuickClock()
    served = serve(line(1, 1, 1, 1, 2, 30), [constant(clock, 1)], clock, servers=1, max_batch=3)
    # The fourth came too late for the first batch; 2 was due while that was served.
    assert started_ms(served) == [1, 1, 1, 4, 4, 30]
    assert list(served.durations_ns) == [3 * MS] * 3 + [2 * MS] * 2 + [MS]


def test_what_is_served_too_late_is_the_last_of_its_line() -> None:
    clock = QuickClock()
    late = line(*range(100), until_ns=10 * MS)
    served = serve(late, [constant(clock, 4)], clock, servers=1, max_batch=1)
    assert list(served.places) == [0, 1, 2]


def test_calls_take_turns_over_the_queries() -> None:
    clock, seen = QuickClock(), list[str]()

    def bound(name: str):  # type: ignore[no-untyped-def]
        def call() -> None:
            seen.append(name)
            clock.true_ns += MS

        return call

    serve(line(*range(7)), [bound("a"), bound("b"), bound("c")], clock, servers=1, max_batch=1)
    assert "".join(seen) == "abcabca"


def test_several_servers_serve_at_the_same_time() -> None:
    clock = CpuClock()
    now = clock.now_ns()
    inside, most = 0, 0
    lock, known = threading.Lock(), threading.local()
    met = threading.Barrier(2)

    def call() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if not vars(known):
            known.has_begun = True
            met.wait(300)  # neither goes on before the other serves
        time.sleep(0.001)
        with lock:
            inside -= 1

    served = serve(QueryQueue([now] * 40, NEVER), [call, call], clock, servers=2, max_batch=1)
    assert most == 2
    assert list(served.places) == list(range(40))


def test_two_servers_never_make_the_same_call() -> None:
    clock, users = CpuClock(), dict[int, set[int]]()

    def bound(number: int):  # type: ignore[no-untyped-def]
        def call() -> None:
            users.setdefault(number, set()).add(threading.get_ident())
            time.sleep(0.001)

        return call

    calls = [bound(number) for number in range(5)]
    serve(QueryQueue([0] * 60, NEVER), calls, clock, servers=2, max_batch=1)
    assert all(len(threads) == 1 for threads in users.values())


@pytest.mark.parametrize("servers", [1, 3])
def test_the_models_own_error_ends_every_server(servers: int) -> None:
    clock, made = CpuClock(), itertools.count(1)
    working = {threading.current_thread()}

    def call() -> None:
        working.add(threading.current_thread())
        if next(made) == 20:
            raise ArithmeticError("the model's own")
        time.sleep(0.001)

    with pytest.raises(ArithmeticError, match="own"):
        serve(
            QueryQueue([0] * 100_000, NEVER), [call] * servers, clock, servers=servers, max_batch=1
        )
    assert next(made) < 100_000, "the others went on"
    assert [one for one in working if one.is_alive()] == [threading.current_thread()]


@pytest.mark.parametrize("wall", [0, -5, 2**62])
def test_a_duration_that_cannot_be_is_an_instrument_fault(wall: int) -> None:
    class Wrong(QuickClock):
        def time_block(self, call, repeats, *, at_once=False):  # type: ignore[no-untyped-def]
            return Timing(wall)

    with pytest.raises(MeasureError, match="clock") as caught:
        serve(line(1, 2), [lambda: None], Wrong(), servers=1, max_batch=1)
    assert caught.value.kind == "instrument_fault"


def test_a_clock_that_steps_back_between_queries_is_an_instrument_fault() -> None:
    clock = QuickClock()

    def call() -> None:
        clock.true_ns += MS

    class Stepping(QuickClock):
        def time_block(self, call, repeats, *, at_once=False):  # type: ignore[no-untyped-def]
            self.true_ns -= 5 * MS
            return Timing(MS)

    with pytest.raises(MeasureError, match="before the one before it"):
        serve(line(9, 9, 9), [call], Stepping(), servers=1, max_batch=1)
