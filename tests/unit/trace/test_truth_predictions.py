"""What is predicted of a changed program, against the changed program."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from trace_lab.analysing import analysed
from trace_lab.generator import Style, draw
from trace_lab.kineto import Recording
from trace_lab.predicting import asked_ns, predicted_ns
from trace_lab.program import Program, changed, device_names, operator_names
from trace_lab.simulator import simulate

STYLES = {
    "device": Style(),
    "graphs": Style(graphs=True),
    "one worker": Style(device=False, workers=1),
    "both": Style(workers=1),
}


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


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_full_recording_predicts_what_a_changed_program_takes(
    style: Style, tmp_path: Path
) -> None:
    found = errors(style, Recording(), tmp_path, range(25))
    assert worst(found) <= 0.02, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.001


def test_two_workers_are_predicted_nearly_as_well(tmp_path: Path) -> None:
    found = errors(Style(device=False, workers=2), Recording(), tmp_path, range(25))
    assert worst(found) <= 0.1, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.01


def test_scattered_latencies_cost_little(tmp_path: Path) -> None:
    found = errors(Style(jitter=0.5), Recording(), tmp_path, range(25))
    assert worst(found) <= 0.05, sorted(found)


@pytest.mark.parametrize("recording", [Recording(syncs=0.0), Recording(resolved=False)])
def test_missing_rows_of_synchronisation_cost_little(recording: Recording, tmp_path: Path) -> None:
    found = errors(Style(), recording, tmp_path, range(25))
    assert worst(found) <= 0.25, sorted(found)
    assert statistics.median(map(abs, found)) <= 0.02


def test_without_recorded_waits_predictions_are_rougher_but_bounded(tmp_path: Path) -> None:
    style = Style(device=False, workers=1)
    found = errors(style, Recording(waits=False), tmp_path, range(25))
    assert worst(found) <= 0.5, sorted(found)
    with_waits = errors(style, Recording(), tmp_path, range(25))
    assert statistics.mean(map(abs, with_waits)) <= statistics.mean(map(abs, found))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", range(5))
def test_a_what_if_by_name_says_the_same_as_its_weights(
    seed: int, style: Style, tmp_path: Path
) -> None:
    program = draw(seed, style)
    _, said = analysed(program, tmp_path)
    factors = change(program, seed)
    by_weights = predicted_ns(said.events, said.dag, factors, children=False)
    assert asked_ns(said, factors, alone=True) == pytest.approx(by_weights, abs=100)


@pytest.mark.parametrize("seed", range(5))
def test_an_operator_with_all_it_calls_is_predicted(seed: int, tmp_path: Path) -> None:
    program = draw(seed, Style(device=False))
    _, said = analysed(program, tmp_path)
    for name in operator_names(program)[:10]:
        true_ns = simulate(changed(program, {name: 0.5})).makespan_ns
        assert asked_ns(said, {name: 0.5}, alone=False) == pytest.approx(true_ns, abs=10)
