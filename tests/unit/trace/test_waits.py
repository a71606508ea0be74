"""Waits of threads, loops, processes and ranks: what a change does is known by construction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benchorch.trace.analysis import analyze
from benchorch.trace.events import Category, Events
from benchorch.trace.ranks import merged
from benchorch.trace.readers.open import read_events
from benchorch.trace.whatif.predict import Prediction, predict
from benchorch.trace.whatif.reading import parse
from support.handmade_traces import Made, note, op, trace

US, MS = 1_000, 1_000_000
FUTURES = "concurrent/futures"
STEPS = 8


def frame(name: str, start_ns: float, end_ns: float, lane: str = "main") -> Made:
    return op(name, round(start_ns), round(end_ns), category=Category.PYTHON, lane=lane)


def steps(period_ns: int, step: Iterator[Made] | object) -> Events:
    made = []
    for number in range(STEPS):
        at = number * period_ns
        made += [note(f"ProfilerStep#{number}", at, at + period_ns), *step(at)]  # type: ignore[operator]
    return trace(made)


def asked(events: Events, **change: object) -> Prediction:
    return predict(analyze(events), parse({"changes": [change]}).changes)


def polling(at: int) -> Iterable[Made]:
    """Sleeps of a millisecond, until another thread has worked for 9.5."""
    poll = [
        frame("<built-in function sleep>", at + k * MS + 10 * US, at + (k + 1) * MS)
        for k in range(10)
    ]
    return [
        frame("a.py(1): poll", at, at + 10 * MS),
        *poll,
        frame("a.py(9): own", at + 10 * MS, at + 14 * MS),
        frame("a.py(5): background", at + 50 * US, at + 9_500 * US, "worker"),
    ]


def test_a_function_that_polls_waits_for_what_another_thread_finishes() -> None:
    events = steps(14 * MS, polling)
    faster = asked(events, name="*: background", speedup=2)
    assert faster.predicted_ns == pytest.approx(9.25 * MS, rel=0.05)
    slower = asked(events, name="*: own", speedup=0.5)
    assert slower.predicted_ns == pytest.approx(18 * MS, rel=0.05)


def sleeping(at: int) -> Iterable[Made]:
    """A coroutine sleeps for 6 ms in an event loop, which waits for the timer; 2 ms of its own."""
    wake = at + 6_100 * US
    return [
        frame("asyncio/base_events.py(593): run_forever", at, at + 8 * MS),
        frame("a.py(3): use", at + 20 * US, at + 80 * US),
        frame("asyncio/tasks.py(649): sleep", at + 30 * US, at + 70 * US),
        frame("asyncio/base_events.py(716): call_later", at + 40 * US, at + 60 * US),
        frame("<built-in method poll of select.epoll object at 0x7f>", at + 100 * US, wake),
        frame("asyncio/futures.py(311): _set_result_unless_cancelled", wake + 10, wake + 20 * US),
        frame("a.py(7): use", wake + 30 * US, at + 8 * MS),
        frame("asyncio/tasks.py(655): sleep", wake + 40 * US, wake + 60 * US),
    ]


def test_an_event_loop_waits_for_the_timer_of_what_it_resumes() -> None:
    found = asked(steps(8 * MS, sleeping), name="asyncio/tasks.py*: sleep", speedup=2)
    assert found.predicted_ns == pytest.approx(5 * MS, rel=0.05)
    assert found.low_ns <= 5 * MS <= found.high_ns


EPOLL = "<built-in method poll of select.epoll object at 0x7f>"
SELECTOR = "asyncio/selector_events.py"


def handing_over(at: int) -> Iterable[Made]:
    """An event loop waits 6 ms for a thread's task, 3 ms of it for a timer; then 2 ms of own."""
    fired, done = at + 3_100 * US, at + 6_100 * US
    run = f"{FUTURES}/thread.py(53): run"
    return [
        frame("asyncio/base_events.py(593): run_forever", at, at + 6_200 * US),
        frame(f"{FUTURES}/thread.py(161): submit", at + 10 * US, at + 15 * US),
        frame("a.py(3): ask", at + 20 * US, at + 80 * US),
        frame("asyncio/tasks.py(649): sleep", at + 30 * US, at + 70 * US),
        frame("asyncio/base_events.py(716): call_later", at + 40 * US, at + 60 * US),
        frame(EPOLL, at + 100 * US, fired),
        frame("asyncio/futures.py(311): _set_result_unless_cancelled", fired, fired + 20 * US),
        frame("a.py(7): ask", fired + 30 * US, fired + 80 * US),
        frame("asyncio/tasks.py(655): sleep", fired + 40 * US, fired + 60 * US),
        frame(EPOLL, fired + 100 * US, done),
        frame(f"{SELECTOR}(116): _read_from_self", done + 10 * US, done + 20 * US),
        frame("a.py(9): own", at + 6_200 * US, at + 8_200 * US),
        frame(run, at + 100 * US, done - 30 * US, "worker"),
        frame("a.py(5): digest", at + 110 * US, done - 80 * US, "worker"),
        frame(f"{SELECTOR}(128): _write_to_self", done - 60 * US, done - 40 * US, "worker"),
    ]


@pytest.mark.parametrize(
    ("name", "speedup", "period_ms"),
    [
        ("*: digest", 1.25, 7.0),  # the loop waits for the task until 4.9 ms
        ("*: digest", 4, 5.3),  # for the timer, which is later then
        ("*: digest", 0.5, 14.2),
        ("asyncio/tasks.py*: sleep", 4, 8.2),
        ("asyncio/tasks.py*: sleep", 0.25, 14.5),
    ],
)
def test_an_event_loop_waits_for_the_thread_or_the_timer_whichever_is_later(
    name: str, speedup: float, period_ms: float
) -> None:
    found = asked(steps(8_200 * US, handing_over), name=name, speedup=speedup)
    assert found.predicted_ns == pytest.approx(period_ms * MS, rel=0.03)


def flushing(at: int) -> Iterable[Made]:
    """Main needs a lock that another thread holds for 8 ms; each has another name for it."""
    done = at + 8_200 * US
    return [
        frame("a.py(1): step", at, done + 200 * US),
        frame("<built-in method __exit__ of _thread.lock object at 0x7f01>", done, done + US),
        frame("a.py(9): own", done + 200 * US, at + 10 * MS),
        frame("a.py(5): background", at + 50 * US, done, "flusher"),
        frame("<built-in function sleep>", at + 100 * US, at + 8_100 * US, "flusher"),
        frame(
            "<built-in method __exit__ of _thread.lock object at 0x7f02>",
            *(at + 8_150 * US, at + 8_160 * US),
            "flusher",
        ),
    ]


def test_a_lock_is_waited_for_whatever_name_the_profiler_has_for_it_on_each_thread() -> None:
    events = steps(10 * MS, flushing)
    assert analyze(events).verdict.limit == "sleep and lock"
    faster = asked(events, name="<built-in function sleep>", speedup=2)
    assert faster.predicted_ns == pytest.approx(6 * MS, rel=0.05)


def reading(at: int) -> Iterable[Made]:
    """Main hands something to a process and waits; a thread reads its result 20 ms later."""
    lock = "<built-in method acquire of _thread.lock object at 0x7f>"
    return [
        frame("a.py(1): tail", at, at + 5 * MS),
        frame(lock, at + 5 * MS, at + 25 * MS),
        frame("multiprocessing/connection.py(933): wait", at - 100 * US, at + 24_900 * US, "reads"),
        frame(
            "<built-in method poll of select.poll object at 0x7f>", at, at + 24_800 * US, "reads"
        ),
    ]


def test_a_process_outside_takes_as_long_from_when_it_was_given_work() -> None:
    slower = asked(steps(25 * MS, reading), name="*: tail", speedup=0.25)
    assert slower.predicted_ns == pytest.approx(40 * MS, rel=0.05)


def gathering(compute_ns: int, stacks: bool = True, woken_ns: int = 100 * US) -> Events:
    """A rank computes, then gathers; the waiting lies between two operators inside of the range."""

    def step(at: int) -> Iterable[Made]:
        begun = at + compute_ns
        wait = "<built-in method wait of pybind11_builtins object>"
        return [
            op("aten::mm", at, begun - 50 * US),
            op("c10d::allgather_", begun - 40 * US, begun - 20 * US),
            *([frame(wait, begun, at + 11 * MS)] if stacks else []),
            note("gloo:all_gather", begun, at + 11 * MS - woken_ns, lane="gloo"),
            op("aten::empty", begun + 5 * US, begun + 9 * US, lane="gloo"),
            op("aten::select", at + 10_200 * US, at + 10_250 * US, lane="gloo"),
        ]

    return steps(11 * MS, step)


@pytest.mark.parametrize(("stacks", "woken_ns"), [(True, 100 * US), (False, 700 * US)])
def test_a_collective_waits_for_the_last_rank_wherever_in_its_range(
    stacks: bool, woken_ns: int
) -> None:
    events = merged([gathering(one, stacks, woken_ns) for one in (4 * MS, 10 * MS)])
    faster = asked(events, op="aten::mm", rank=1, speedup=2)
    assert faster.predicted_ns == pytest.approx(6 * MS, rel=0.06)
    assert asked(events, op="aten::mm", rank=0, speedup=2).predicted_ns == pytest.approx(11 * MS)


def sending(at: int) -> Iterable[Made]:
    sent = at + 16 * MS
    return [
        frame("a.py(1): first", at, sent),
        op("c10d::send", sent, sent + 50 * US),
        note("gloo:send", sent + 60 * US, sent + 90 * US),
    ]


def receiving(at: int) -> Iterable[Made]:
    return [
        frame("a.py(2): second", at, at + 6 * MS),
        op("c10d::recv_", at + 6 * MS, at + 6_050 * US),
        note("gloo:recv", at + 6_060 * US, at + 16_100 * US),
    ]


def test_what_is_received_has_been_sent_before() -> None:
    events = merged([steps(17 * MS, sending), steps(17 * MS, receiving)])
    assert asked(events, name="*: first", speedup=2).predicted_ns == pytest.approx(9 * MS, rel=0.1)
    assert asked(events, name="*: second", speedup=2).predicted_ns == pytest.approx(17 * MS)


def test_what_other_ranks_do_may_go_on_when_their_traces_are_missing() -> None:
    found = asked(gathering(4 * MS), op="aten::mm", speedup=2)
    assert found.low_ns <= 9 * MS
    assert found.high_ns >= 11 * MS


def test_a_range_that_python_opens_is_around_what_comes_next(tmp_path: Path) -> None:
    def row(category: str, name: str, start: float, length: float) -> dict[str, object]:
        return {
            **{"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1},
            **{"ts": start, "dur": length},
        }

    rows = [
        row("python_function", "a.py(1): step", 0, 1000),
        row("python_function", "torch/autograd/profiler.py(918): __enter__", 10, 50),
        row("python_function", "<built-in method _record_function_enter_new of x>", 20, 30),
        row("user_annotation", "load", 40, 900),
        row("python_function", "a.py(5): read", 70, 800),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    events = read_events(path)
    (load,) = [at for at, code in enumerate(events.name) if events.names[code] == "load"]
    assert (events.start_ns[load], events.end_ns[load]) == (60 * US, 940 * US)
    assert asked(events, name="load", speedup=2).predicted_ns < 700 * US


LOCKED = "<built-in method acquire of _thread.lock object at 0x7f>"


def pooled(at: int) -> Iterable[Made]:
    """A long task and a short one, whose results the caller takes in that order."""
    done = at + 8 * MS
    return [
        frame(f"{FUTURES}/thread.py(161): submit", at + 10 * US, at + 20 * US),
        frame(f"{FUTURES}/thread.py(161): submit", at + 30 * US, at + 40 * US),
        frame(f"{FUTURES}/_base.py(428): result", at + 50 * US, done + 20 * US),
        frame(LOCKED, at + 60 * US, done + 10 * US),
        frame(f"{FUTURES}/_base.py(428): result", done + 30 * US, done + 40 * US),
        frame("a.py(9): own", done + 50 * US, at + 10 * MS),
        frame(f"{FUTURES}/thread.py(53): run", at + 60 * US, done, "first"),
        frame("a.py(5): long", at + 70 * US, done - 10 * US, "first"),
        frame(f"{FUTURES}/thread.py(53): run", at + 70 * US, at + 3 * MS, "second"),
        frame("a.py(7): short", at + 80 * US, at + 3 * MS - 10 * US, "second"),
    ]


def test_whoever_has_all_results_of_a_pool_waited_for_every_task() -> None:
    found = asked(steps(10 * MS, pooled), name="*: short", speedup=0.25)
    assert found.predicted_ns == pytest.approx(13.7 * MS, rel=0.02)
    assert asked(steps(10 * MS, pooled), name="*: short", speedup=2).predicted_ns == 10 * MS


def filling(at: int) -> Iterable[Made]:
    """Another thread makes in 3 ms what a step takes from a queue, which is full by then."""
    room, made = at + 8 * MS, at + 11 * MS
    return [
        frame("a.py(9): own", at, room),
        frame("queue.py(154): get", room, room + 50 * US),
        frame("a.py(9): own", room + 60 * US, at + 10 * MS),
        frame("a.py(5): make", room + 100 * US, made, "maker"),
        frame("queue.py(122): put", made + 10 * US, made + 7_090 * US, "maker"),
        frame(LOCKED, made + 20 * US, made + 7_080 * US, "maker"),
    ]


def test_no_period_is_shorter_than_what_fills_a_queue_needs_for_it() -> None:
    found = asked(steps(10 * MS, filling), name="*: make", speedup=0.2)
    assert found.predicted_ns == pytest.approx(14.6 * MS, rel=0.01)
    assert found.low_ns <= 10 * MS  # what was made before may last for so few steps
    kept = asked(steps(10 * MS, filling), name="*: make", speedup=0.5)
    assert kept.predicted_ns == pytest.approx(10 * MS, rel=0.04)


def test_a_function_of_numpy_in_c_lasts_until_its_callers_next_call(tmp_path: Path) -> None:
    rows = []
    for number in range(STEPS):
        at = 1_000 + number * 10_000
        for name, start, end, category in (
            (f"ProfilerStep#{number}", 0, 10_000, "user_annotation"),
            ("a.py(1): step", 0, 9_990, "python_function"),
            ("numpy/_core/multiarray.py(748): dot", 10, 11, "python_function"),
            ("a.py(9): own", 6_000, 9_000, "python_function"),
        ):
            row = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
            rows.append({**row, "ts": at + start, "dur": end - start})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    analysis = analyze(path)
    assert analysis.verdict.limit == "outside"
    assert analysis.tables["python"][0].name.endswith("multiarray.py(748): dot")
    found = predict(analysis, parse({"changes": [{"name": "*: dot", "speedup": 2}]}).changes)
    assert found.predicted_ns == pytest.approx(7 * MS, rel=0.02)
