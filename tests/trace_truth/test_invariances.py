"""Invariances of an analysis: what it may not depend on, and how it scales."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.graph.scope import Thresholds
from support.graph_checks import replay as replayed
from support.trace_lab.analysing import Analysed, analysed
from support.trace_lab.generator import MARKER, Style, draw
from support.trace_lab.kineto import Recording
from support.trace_lab.program import Kind, Program, Range, Step, Sync, Thread, Work
from support.trace_lab.seeds import each_of

STYLES = {
    "device": Style(),
    "graphs": Style(graphs=True, jitter=0.3),
    "host": Style(device=False, workers=2),
    "both": Style(workers=1, daemon=True),
}
SEEDS = each_of(range(6), 3)


def segments(found: Analysed) -> list[tuple[str, int, str, str]]:
    """The path in words: owner, duration, class, how well known."""
    path = found.path
    return [
        (
            found.events.names[found.events.name[owner]] if owner >= 0 else "",
            int(ns),
            CLASSES[label].value,
            Tier(int(tier)).name,
        )
        for owner, ns, label, tier in zip(
            path.owner, path.duration_ns, path.label, path.tier, strict=True
        )
    ]


def classes(found: Analysed) -> Counter[str]:
    times: Counter[str] = Counter()
    for _, ns, label, _ in segments(found):
        times[label] += ns
    return times


@pytest.mark.parametrize(
    "recording",
    [
        Recording(shift_ns=86_400_000_000_000),
        Recording(numbers={"main": 31, "worker 0": 7, "worker 1": 99_999, "watchdog": 5}),
        Recording(numbers={"main": 99, "worker 0": 8, "worker 1": 3}, strings=True),
        Recording(shuffle=1),
        Recording(shuffle=2, shift_ns=77, flows=False),
    ],
    ids=["shifted", "renamed", "renamed as strings", "shuffled", "all of it"],
)
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", SEEDS)
def test_neither_the_clock_nor_names_of_lanes_nor_the_order_of_rows_matter(
    seed: int, style: Style, recording: Recording, tmp_path: Path
) -> None:
    program = draw(seed, style)
    (_, plain), (_, other) = analysed(program, tmp_path), analysed(program, tmp_path, recording)
    assert segments(other) == segments(plain)
    assert sorted(other.dag.weight_ns) == sorted(plain.dag.weight_ns)


@pytest.mark.parametrize("scale", [3, 10])
@pytest.mark.parametrize("style", [Style(), Style(graphs=True), Style(device=False)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slower_clock_gives_the_same_path_so_many_times_as_long(
    seed: int, style: Style, scale: int, tmp_path: Path
) -> None:
    program = draw(seed, style)
    _, plain = analysed(program, tmp_path)
    thresholds = Thresholds()
    longer = replace(
        thresholds,
        idle_ns=thresholds.idle_ns * scale,
        wake_ns=thresholds.wake_ns * scale,
        stalled_ns=thresholds.stalled_ns * scale,
    )
    _, slower = analysed(program, tmp_path, Recording(scale=scale), longer)
    assert segments(slower) == [
        (name, ns * scale, label, tier) for name, ns, label, tier in segments(plain)
    ]


def repeated(program: Program, times: int) -> Program:
    """The marked range with its steps so many times, the device idle in between."""
    before, marked, after = program.threads[0].steps
    assert isinstance(marked, Range)
    body = (*marked.body, Sync()) * times
    steps = (before, Range(name=MARKER, kind=Kind.ANNOTATION, body=body), after)
    return Program(threads=(Thread(name="main", steps=steps),), marker=MARKER)


@pytest.mark.parametrize("style", [Style(), Style(device=False)], ids=["device", "host"])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_one_after_another_have_the_classes_of_one(
    seed: int, style: Style, tmp_path: Path
) -> None:
    program = draw(seed, style)
    _, one = analysed(repeated(program, 1), tmp_path)
    _, four = analysed(repeated(program, 4), tmp_path)
    assert four.dag.makespan_ns == 4 * one.dag.makespan_ns
    expected = classes(one)
    assert {label: ns / 4 for label, ns in classes(four).items()} == pytest.approx(
        dict(expected), rel=0.01, abs=0.001 * one.dag.makespan_ns
    )


def rewritten(steps: tuple[Step, ...], wrapped: bool) -> tuple[Step, ...]:
    """Every leaf in two halves, or inside an annotation."""
    result: list[Step] = []
    for step in steps:
        if not isinstance(step, Range):
            result.append(step)
        elif any(isinstance(inner, Range) for inner in step.body):
            body = rewritten(step.body, wrapped)
            result.append(Range(name=step.name, kind=step.kind, body=body))
        elif wrapped:
            result.append(Range(name="my part", kind=Kind.ANNOTATION, body=(step,)))
        else:
            ns = sum(inner.ns for inner in step.body if isinstance(inner, Work))
            halves = (ns // 2, ns - ns // 2)
            result += [Range(name=step.name, body=(Work(ns=half),)) for half in halves]
    return tuple(result)


@pytest.mark.parametrize("wrapped", [False, True], ids=["split", "wrapped"])
@pytest.mark.parametrize("seed", SEEDS)
def test_splitting_an_operator_or_wrapping_it_changes_no_class(
    seed: int, wrapped: bool, tmp_path: Path
) -> None:
    program = draw(seed, Style(device=False))
    thread = Thread(name="main", steps=rewritten(program.threads[0].steps, wrapped))
    _, other = analysed(Program(threads=(thread,), marker=MARKER), tmp_path)
    _, plain = analysed(program, tmp_path)
    assert other.dag.makespan_ns == plain.dag.makespan_ns
    assert classes(other) == classes(plain)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_makespan_lies_between_those_of_host_and_device_alone_and_their_sum(
    seed: int, style: Style, tmp_path: Path
) -> None:
    _, found = analysed(draw(seed, style), tmp_path)
    dag = found.dag

    def without(chosen: np.ndarray) -> int:
        times_ns = replayed(dag, np.where(chosen, 0, dag.weight_ns))
        return int(times_ns[-1] - times_ns[0])

    host_ns = without(dag.kind == EdgeKind.WORK)
    device_ns = without(dag.kind == EdgeKind.CHAIN)
    assert max(host_ns, device_ns) <= dag.makespan_ns <= host_ns + device_ns


def test_a_program_of_one_thread_is_all_host(tmp_path: Path) -> None:
    _, found = analysed(draw(0, Style(device=False)), tmp_path)
    assert not set(classes(found)) & {Class.GPU_COMPUTE.value, Class.LAUNCH_LATENCY.value}
