"""What is predicted of a changed program, against the changed program."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from support.trace_lab.analysing import analysed
from support.trace_lab.generator import Style, draw
from support.trace_lab.kineto import Recording
from support.trace_lab.predicting import asked_ns, predicted_ns
from support.trace_lab.program import (
    Await,
    Kind,
    Program,
    Range,
    Signal,
    Thread,
    Work,
    changed,
    device_names,
    operator_names,
)
from support.trace_lab.seeds import all_of, each_of
from support.trace_lab.simulator import simulate

STYLES = {
    "device": Style(),
    "graphs": Style(graphs=True),
    "one worker": Style(device=False, workers=1),
    "both": Style(workers=1),
}


PROGRAMS = pytest.mark.parametrize("seeds", all_of(range(25), 8))


def change(program: Program, seed: int) -> dict[str, float]:
    """A third of all operators and kernels, or of one kind, so many times as fast or slow."""
    rng = random.Random(seed)
    names = [
        *(operator_names(program) if seed % 3 != 1 else ()),
        *(device_names(program) if seed % 3 != 2 else ()),
    ]
    chosen = rng.sample(names, max(1, len(names) // 3)) if names else []
    return dict.fromkeys(chosen, rng.choice((0.0, 0.25, 0.5, 0.8, 1.25, 2.0, 3.0)))


def errors(style: Style, recording: Recording, place: Path, seeds: range) -> list[float]:
    """Of every program and change: predicted over true makespan, less one."""
    found = []
    for seed in seeds:
        program = draw(seed, style)
        _, said = analysed(program, place, recording)
        for number in range(4):
            factors = change(program, 10 * seed + number)
            true_ns = simulate(changed(program, factors, children=False)).makespan_ns
            predicted = predicted_ns(said.events, said.dag, factors, children=False)
            found.append(predicted / true_ns - 1)
    return found


def worst(found: list[float]) -> float:
    return max(abs(error) for error in found)


@PROGRAMS
def test_a_full_recording_of_streams_predicts_what_a_changed_program_takes(
    seeds: range, tmp_path: Path
) -> None:
    found = errors(STYLES["device"], Recording(), tmp_path, seeds)
    assert worst(found) <= 0.02, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.001


@pytest.mark.parametrize("name", ["graphs", "one worker", "both"])
@PROGRAMS
def test_predictions_miss_what_was_never_waited_for(
    seeds: range, name: str, tmp_path: Path
) -> None:
    """A flag that is up already, the faster way into a join of a launched graph: no trace shows
    whom they would have waited for, so a change that makes them wait is predicted too low."""
    found = errors(STYLES[name], Recording(), tmp_path, seeds)
    assert statistics.median(map(abs, found)) <= 0.001
    assert sum(abs(error) <= 0.02 for error in found) >= 0.9 * len(found), sorted(found)
    assert worst(found) <= 0.15, sorted(found)


def pipeline(produce_ns: int, consume_ns: int, items: int = 4) -> Program:
    """One thread makes items, the other one uses them as they come."""
    numbers = range(items)
    made = [
        step
        for number in numbers
        for step in (
            Range(name=f"produce {number}", body=(Work(ns=produce_ns),)),
            Signal(flag=f"item {number}"),
            Work(ns=3_000),
        )
    ]
    used = [
        step
        for number in numbers
        for step in (
            Await(flag=f"item {number}", what="queue.get"),
            Range(name=f"consume {number}", body=(Work(ns=consume_ns),)),
        )
    ]
    end = (Await(flag="all used", what="join"),)
    main = Range(name="benchorch:call", kind=Kind.ANNOTATION, body=(*made, *end))
    worker = Thread(name="worker", steps=(*used, Signal(flag="all used")))
    return Program(threads=(Thread(name="main", steps=(main,)), worker), marker=main.name)


@pytest.mark.parametrize(("produce_ns", "consume_ns"), [(400_000, 900_000), (900_000, 400_000)])
def test_items_that_were_found_ready_are_waited_for_once_they_come_later(
    produce_ns: int, consume_ns: int, tmp_path: Path
) -> None:
    program = pipeline(produce_ns, consume_ns)
    _, said = analysed(program, tmp_path)
    for factors in (
        {f"produce {number}": 3.0 for number in range(4)},
        {f"consume {number}": 0.25 for number in range(4)},
        {"produce 2": 4.0},
    ):
        true_ns = simulate(changed(program, factors)).makespan_ns
        assert asked_ns(said.events, factors, alone=True) == pytest.approx(true_ns, rel=0.02)


@PROGRAMS
def test_two_workers_are_predicted_nearly_as_well(seeds: range, tmp_path: Path) -> None:
    found = errors(Style(device=False, workers=2), Recording(), tmp_path, seeds)
    assert worst(found) <= 0.1, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.01


@PROGRAMS
def test_scattered_latencies_cost_little(seeds: range, tmp_path: Path) -> None:
    found = errors(Style(jitter=0.5), Recording(), tmp_path, seeds)
    assert worst(found) <= 0.05, sorted(found)


@pytest.mark.parametrize("recording", [Recording(syncs=0.0), Recording(resolved=False)])
@PROGRAMS
def test_missing_rows_of_synchronisation_cost_little(
    seeds: range, recording: Recording, tmp_path: Path
) -> None:
    found = errors(Style(), recording, tmp_path, seeds)
    assert worst(found) <= 0.25, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.02


@PROGRAMS
def test_without_recorded_waits_predictions_are_rougher_but_bounded(
    seeds: range, tmp_path: Path
) -> None:
    style = Style(device=False, workers=1)
    found = errors(style, Recording(waits=False), tmp_path, seeds)
    assert worst(found) <= 0.5, sorted(found)
    with_waits = errors(style, Recording(), tmp_path, seeds)
    assert statistics.mean(map(abs, with_waits)) <= statistics.mean(map(abs, found))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", each_of(range(5), 3))
def test_a_what_if_by_name_gives_the_same_as_its_weights(
    seed: int, style: Style, tmp_path: Path
) -> None:
    program = draw(seed, style)
    _, said = analysed(program, tmp_path)
    factors = change(program, seed)
    by_weights = predicted_ns(said.events, said.dag, factors, children=False)
    assert asked_ns(said.events, factors, alone=True) == pytest.approx(by_weights, abs=100)


@pytest.mark.parametrize("seed", each_of(range(5), 3))
def test_an_operator_with_all_it_calls_is_predicted(seed: int, tmp_path: Path) -> None:
    program = draw(seed, Style(device=False))
    _, said = analysed(program, tmp_path)
    for name in operator_names(program)[:10]:
        true_ns = simulate(changed(program, {name: 0.5})).makespan_ns
        assert asked_ns(said.events, {name: 0.5}, alone=False) == pytest.approx(true_ns, abs=10)
