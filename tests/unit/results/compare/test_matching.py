"""Matching of the trials of two runs."""

from __future__ import annotations

import pytest

from benchorch.results.compare.compatibility import excused_by
from benchorch.results.compare.matching import match
from benchorch.results.compare.stored_run import StoredTrial
from support.synthetic_runs import brief, trial


def paired(a: list[StoredTrial], b: list[StoredTrial], *across: str) -> list[tuple[str, str]]:
    matches, _ = match(a, b, excused_by(across))
    return [(one.a.trial.trial_id, one.b.trial.trial_id) for one in matches]


def test_trials_are_matched_by_what_they_are_and_not_by_their_identity() -> None:
    before = [brief(trial("eager")), brief(trial("onnx"))]
    after = [brief(trial(name, stopping={"processes": 40})) for name in ("onnx", "eager")]
    assert not {s.trial.trial_id for s in before} & {s.trial.trial_id for s in after}
    matches, alone = match(before, after, ())
    assert [(one.name, one.b.trial.labels["conversion"]) for one in matches] == [
        ("eager", "eager"),
        ("onnx", "onnx"),
    ]
    assert alone == ()


def test_trials_without_a_counterpart_are_listed_with_the_reason() -> None:
    matches, alone = match(
        [brief(trial("eager")), brief(trial("gone"))],
        [brief(trial("eager")), brief(trial("new"))],
        (),
    )
    assert len(matches) == 1
    told = [(one.side, one.name, one.reason) for one in alone]
    assert told == [
        ("A", "gone", "B has no such trial."),
        ("B", "new", "A has no such trial."),
    ]


@pytest.mark.parametrize("label", ["model", "hardware", "workload", "scenario"])
def test_another_label_is_another_trial(label: str) -> None:
    other = trial(labels={label: "other"}, model={"widths": [9]})
    matches, alone = match([brief(trial())], [brief(other)], ())
    assert matches == ()
    assert len(alone) == 2


def test_a_factor_lets_its_label_differ() -> None:
    here, there = trial(), trial(labels={"hardware": "c7i"}, hardware={"kind": "c7i"})
    assert paired([brief(here)], [brief(there)], "hardware")
    assert not paired([brief(here)], [brief(there)], "packages")


def test_lists_of_a_sweep_are_compared_whole_and_however_they_are_spelled() -> None:
    def of(*texts: str, seed: int) -> list[StoredTrial]:
        return [brief(trial(axes=f"model.widths={one}", workload={"seed": seed})) for one in texts]

    assert not paired(of("[256, 8, 8]", seed=1), of("[256, 16, 8]", seed=2))
    assert paired(of("[256, 8, 8]", seed=1), of("[256,8,8]", seed=2))


def sweep(*threads: int, axes: bool = True) -> list[StoredTrial]:
    return [
        brief(trial(axes=f"hardware.threads={n}" if axes else "", hardware={"threads": n}))
        for n in threads
    ]


def test_a_swept_key_tells_trials_apart() -> None:
    before, after = sweep(1, 2), sweep(2, 4)
    assert paired(before, after) == [(before[1].trial.trial_id, after[0].trial.trial_id)]


def test_a_key_that_only_one_run_sweeps_is_found_by_its_content() -> None:
    before, after = sweep(1, 2), sweep(2, axes=False)
    assert paired(before, after) == [(before[1].trial.trial_id, after[0].trial.trial_id)]


def test_an_ambiguous_match_is_no_match() -> None:
    before = [brief(trial(axes=f"stopping.processes={n}", stopping={"processes": n}))
              for n in (5, 6)]  # fmt: skip
    after = [brief(trial(stopping={"processes": 7}))]
    matches, alone = match(before, after, ())
    assert matches == ()
    assert all("RUN::CONVERSION" in one.reason for one in alone)
    assert len(alone) == 3


def test_a_swept_factor_does_not_tell_apart() -> None:
    before, after = sweep(1), sweep(4)
    assert not paired(before, after)
    assert paired(before, after, "threads")


def test_a_run_matches_itself_trial_by_trial() -> None:
    trials = [brief(trial(name)) for name in ("eager", "onnx", "fast")]
    assert paired(trials, list(trials)) == [(s.trial.trial_id,) * 2 for s in trials]
