"""Recall and precision of the dependencies in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.trace_lab.analysing import analysed
from support.trace_lab.comparing import Evidence, Ratio, evidence, total
from support.trace_lab.generator import Style, draw
from support.trace_lab.kineto import Recording
from support.trace_lab.seeds import all_of

DEVICE, THREADS = Style(graphs=True), Style(workers=2)


def gathered(style: Style, recording: Recording, place: Path, seeds: range) -> list[Evidence]:
    found = []
    for seed in seeds:
        run, one = analysed(draw(seed, style), place, recording)
        found.append(evidence(one.events, one.dag, run))
    return found


PROGRAMS = pytest.mark.parametrize("seeds", all_of(range(20), 8))


def recall(found: list[Evidence]) -> Mapping[str, Ratio]:
    return total([one.recall for one in found])


def precision(found: list[Evidence]) -> Mapping[str, Ratio]:
    return total([one.precision for one in found])


@PROGRAMS
def test_a_full_recording_shows_every_dependency_of_a_device(seeds: range, tmp_path: Path) -> None:
    found = gathered(DEVICE, Recording(), tmp_path, seeds)
    known = {why: ratio.value for why, ratio in recall(found).items()}
    assert {why: value for why, value in known.items() if value < 1 and why != "graph"} == {}
    assert known["graph"] >= 0.8  # a fork inside a launched graph shows only in its repetitions


@PROGRAMS
def test_what_is_recorded_or_meant_is_true(seeds: range, tmp_path: Path) -> None:
    found = gathered(DEVICE, Recording(), tmp_path, seeds)
    found += gathered(THREADS, Recording(), tmp_path, seeds)
    wrong = [text for one in found for text in one.wrong]
    ratios = precision(found)
    assert ratios["recorded"].value == 1, wrong
    assert ratios["semantic"].value == 1, wrong
    assert ratios.get("inferred", Ratio(hits=0, total=0)).value >= 0.9, wrong


@PROGRAMS
def test_recorded_waits_show_who_waited_for_whom(seeds: range, tmp_path: Path) -> None:
    found = gathered(Style(device=False, workers=1), Recording(), tmp_path, seeds)
    assert recall(found)["signal"].value >= 0.95
    assert recall(found)["signal, not waited for"].value >= 0.3  # most leave no trace at all


@PROGRAMS
def test_inference_without_recorded_waits_is_cautious(seeds: range, tmp_path: Path) -> None:
    found = gathered(Style(device=False, workers=1), Recording(waits=False), tmp_path, seeds)
    wrong = [text for one in found for text in one.wrong]
    for ratio in precision(found).values():
        assert ratio.value >= 0.9, wrong


@pytest.mark.parametrize("recording", [Recording(syncs=0.0), Recording(resolved=False)])
@PROGRAMS
def test_missing_rows_of_synchronisation_cost_recall_not_truth(
    seeds: range, recording: Recording, tmp_path: Path
) -> None:
    found = gathered(DEVICE, recording, tmp_path, seeds)
    known = recall(found)
    assert known["launch"].value == 1
    assert known["stream"].value == 1
    assert known["sync"].value >= 0.9
    wrong = [text for one in found for text in one.wrong]
    assert precision(found)["semantic"].value == 1, wrong
    assert precision(found).get("inferred", Ratio(hits=0, total=0)).value >= 0.9, wrong
