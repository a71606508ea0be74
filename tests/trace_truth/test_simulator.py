"""The simulator, on programs that can be worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from support.trace_lab import kineto, onnx_session
from support.trace_lab.generator import Style, draw
from support.trace_lab.hand_cases import CASES, Case
from support.trace_lab.program import Await, Program, Thread, changed, device_names, operator_names
from support.trace_lab.seeds import each_of
from support.trace_lab.simulator import NOBODY, Run, shares, simulate

STYLES = {
    "device": Style(graphs=True),
    "host": Style(device=False, workers=2),
    "both": Style(workers=1, daemon=True, jitter=0.3, marked=False),
}


def named(run: Run) -> Counter[str]:
    """Nanoseconds of the true path by name, without what belongs to no interval."""
    times: Counter[str] = Counter()
    for owner, ns in shares(run).items():
        if owner != NOBODY and ns:
            times[run.intervals[owner].name] += ns
    return times


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hand_cases_come_out_as_worked_out(case: Case) -> None:
    run = simulate(case.program)
    assert run.makespan_ns == case.makespan_ns
    found = named(run)
    assert {name: found[name] for name in case.path_ns} == case.path_ns


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", each_of(range(10), 5))
def test_every_point_comes_when_the_latest_of_its_causes_allows(seed: int, style: Style) -> None:
    run = simulate(draw(seed, style))
    for time_ns, causes in zip(run.times_ns, run.causes, strict=True):
        reached = [run.times_ns[cause.point] + cause.ns for cause in causes]
        assert time_ns == max(reached, default=0)
    assert sum(cause.ns for cause in run.critical_path()) == run.makespan_ns


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_program_runs_twice_alike_and_unchanged_when_nothing_is_changed(style: Style) -> None:
    program = draw(3, style)
    assert changed(program, dict.fromkeys(operator_names(program), 1.0)) == program
    assert simulate(program) == simulate(draw(3, style))


def test_slower_work_never_makes_a_program_faster() -> None:
    program = draw(5, Style(workers=1))
    factors = dict.fromkeys([*device_names(program), *operator_names(program)], 1.5)
    slower = simulate(changed(program, factors)).makespan_ns
    assert simulate(program).makespan_ns < slower <= 1.5 * simulate(program).makespan_ns + 1_000


def test_a_flag_that_no_thread_signals_is_an_error() -> None:
    lonely = Program(threads=(Thread(name="main", steps=(Await(flag="never"),)),))
    with pytest.raises(ValueError, match="nobody ever signals never"):
        simulate(lonely)


def test_a_file_has_a_row_for_every_interval_and_every_synchronisation(tmp_path: Path) -> None:
    run = simulate(draw(1, Style(workers=1, graphs=True)))
    written = json.loads(kineto.write(run, tmp_path / "trace.json").read_text())
    names = kineto.names(written["traceEvents"])
    syncs = [one for one in run.intervals if "sync" in one.facts]
    assert len(names) == len(run.intervals) + len(syncs)
    dropped = kineto.document(run, kineto.Recording(syncs=0.0, waits=False))
    waits = [one for one in run.intervals if one.name.startswith("wait:")]
    assert len(kineto.names(dropped["traceEvents"])) == len(run.intervals) - len(waits)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_greedy_schedule_stays_within_grahams_bounds(threads: int) -> None:
    """I15."""
    for seed in range(20):
        graph = onnx_session.draw(seed)
        work_ns, chain_ns = onnx_session.lower_bounds(graph)
        session = onnx_session.execute(graph, threads, dispatch_ns=0)
        span_ns = max(one.end_ns for one in session.placed) - session.placed[0].start_ns
        assert max(chain_ns, work_ns / threads) <= span_ns
        assert span_ns <= work_ns / threads + (1 - 1 / threads) * chain_ns
