"""Which trials of two runs are the same thing, and which of their fields must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchorch.domain.trial import Trial
from benchorch.results.compare.compatibility import (
    FACTORS,
    definition_of,
    differences,
    excused_by,
    factor_of,
)
from benchorch.results.compare.load_run import evidence_of
from benchorch.results.compare.matching import match
from benchorch.results.compare.stored_run import StoredTrial
from support.synthetic_runs import result, trial


def stored(of: Trial, **fields: Any) -> StoredTrial:
    found = result(of, processes=1, **fields)
    return StoredTrial(
        plan_id="p",
        trial=of,
        result=replace(found, processes=()),
        evidence=evidence_of(found),
    )


def paired(a: list[StoredTrial], b: list[StoredTrial], *across: str) -> list[tuple[str, str]]:
    matches, _ = match(a, b, excused_by(across))
    return [(one.a.trial.trial_id, one.b.trial.trial_id) for one in matches]


def test_trials_are_matched_by_what_they_are_and_not_by_their_identity() -> None:
    before = [stored(trial("eager")), stored(trial("onnx"))]
    after = [stored(trial(name, stopping={"processes": 40})) for name in ("onnx", "eager")]
    assert not {s.trial.trial_id for s in before} & {s.trial.trial_id for s in after}
    matches, alone = match(before, after, ())
    assert [(one.name, one.b.trial.labels["conversion"]) for one in matches] == [
        ("eager", "eager"),
        ("onnx", "onnx"),
    ]
    assert alone == ()


def test_whoever_stands_alone_is_listed_with_the_reason() -> None:
    matches, alone = match(
        [stored(trial("eager")), stored(trial("gone"))],
        [stored(trial("eager")), stored(trial("new"))],
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
    matches, alone = match([stored(trial())], [stored(other)], ())
    assert matches == ()
    assert len(alone) == 2


def test_a_factor_lets_its_label_differ() -> None:
    here, there = trial(), trial(labels={"hardware": "c7i"}, hardware={"kind": "c7i"})
    assert paired([stored(here)], [stored(there)], "hardware")
    assert not paired([stored(here)], [stored(there)], "packages")


def sweep(*threads: int, axes: bool = True) -> list[StoredTrial]:
    return [
        stored(trial(axes=f"hardware.threads={n}" if axes else "", hardware={"threads": n}))
        for n in threads
    ]


def test_a_swept_key_tells_trials_apart() -> None:
    before, after = sweep(1, 2), sweep(2, 4)
    assert paired(before, after) == [(before[1].trial.trial_id, after[0].trial.trial_id)]


def test_a_key_that_only_one_run_sweeps_is_found_by_its_content() -> None:
    before, after = sweep(1, 2), sweep(2, axes=False)
    assert paired(before, after) == [(before[1].trial.trial_id, after[0].trial.trial_id)]


def test_where_several_fit_none_is_chosen() -> None:
    before = [stored(trial(axes=f"stopping.processes={n}", stopping={"processes": n}))
              for n in (5, 6)]  # fmt: skip
    after = [stored(trial(stopping={"processes": 7}))]
    matches, alone = match(before, after, ())
    assert matches == ()
    assert all("RUN::CONVERSION" in one.reason for one in alone)
    assert len(alone) == 3


def test_a_swept_factor_does_not_tell_apart() -> None:
    before, after = sweep(1), sweep(4)
    assert not paired(before, after)
    assert paired(before, after, "threads")


def test_a_run_matches_itself_trial_by_trial() -> None:
    trials = [stored(trial(name)) for name in ("eager", "onnx", "fast")]
    assert paired(trials, list(trials)) == [(s.trial.trial_id,) * 2 for s in trials]


DECISIVE: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "model": ({"model": {"widths": [9, 4]}}, "model.widths", "model"),
    "workload": ({"workload": {"dtype": "float16"}}, "workload.dtype", "workload"),
    "steps": ({"conversion": {"steps": {"x": {"a": 1}}}}, "conversion.steps.x.a", "conversion"),
    "scenario": ({"scenario": {"streams": 2}}, "scenario.streams", "scenario"),
    "asked threads": ({"hardware": {"threads": 4}}, "hardware.threads", "threads"),
    "kind": ({"hardware": {"kind": "c7i"}}, "hardware.kind", "hardware"),
    "pinning": ({"protocol": {"pin": False}}, "protocol.pin", "protocol"),
    "cold caches": ({"protocol": {"cold_caches": True}}, "protocol.cold_caches", "protocol"),
}
SURROUNDINGS: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "cpu": ({"cpu_model": "Other"}, "environment.cpu_model", "hardware"),
    "cores": ({"cpu_physical_count": 4}, "environment.cpu_physical_count", "hardware"),
    "torch": ({"packages": {"torch": "2.14"}}, "environment.packages.torch", "packages"),
    "python": ({"python": "3.12.0"}, "environment.python", "packages"),
    "kernel": ({"kernel": "6.2"}, "environment.kernel", "system"),
    "node": ({"host": "node-2"}, "environment.host", "host"),
}


@pytest.mark.parametrize("case", DECISIVE)
def test_what_changes_the_measurement_must_agree(case: str) -> None:
    nodes, field, factor = DECISIVE[case]
    found = differences(stored(trial()), stored(trial(**nodes)))
    assert (field, factor) in [(one.field, one.factor) for one in found]


@pytest.mark.parametrize("case", SURROUNDINGS)
def test_where_it_was_measured_must_agree(case: str) -> None:
    environment, field, factor = SURROUNDINGS[case]
    (found,) = differences(stored(trial()), stored(trial(), environment=environment))
    assert (found.field, found.factor) == (field, factor)
    assert str(found.b) in str(found)
    assert str(found.a) in str(found)


def test_threads_that_really_ran_must_agree() -> None:
    (found,) = differences(stored(trial()), stored(trial(), threads=4))
    assert (found.field, found.factor, found.a, found.b) == ("ran.threads", "threads", 2, 4)


@pytest.mark.parametrize(
    "nodes",
    [
        {"stopping": {"processes": 40}},
        {"conversion": {"description": "in other words"}},
        {"hardware": {"conversions": ["onnx"]}},
        {"protocol": {"delta_ratio": 0.02}},
    ],
)
def test_how_much_is_measured_and_how_it_is_called_may_differ(nodes: dict[str, Any]) -> None:
    assert differences(stored(trial()), stored(trial(**nodes))) == ()
    assert definition_of(trial().spec) == definition_of(trial(**nodes).spec)


def test_what_one_side_does_not_know_is_no_difference() -> None:
    known = stored(trial(), environment={"cpu_governor": "performance"})
    assert differences(stored(trial()), known) == ()


def test_what_changes_with_every_look_is_no_difference() -> None:
    assert differences(stored(trial()), stored(trial(), environment={"load_average": [9]})) == ()


def test_other_facts_are_told_and_decide_nothing() -> None:
    (found,) = differences(
        stored(trial(), environment={"git_commit": "abc"}),
        stored(trial(), environment={"git_commit": "def"}),
    )
    assert (found.factor, str(found)) == ("", "environment.git_commit: abc in A, def in B")


def test_machines_differ_with_all_that_is_theirs() -> None:
    assert excused_by(["hardware"]) == {"hardware", "host", "system", "threads"}
    assert excused_by([]) == frozenset()


def test_every_field_belongs_to_a_known_factor_or_none() -> None:
    fields = [*definition_of(trial().spec), "environment.host", "ran.dtype", "device.power_cap_w"]
    assert {factor_of(field) for field in fields} <= {*FACTORS, None}


def test_a_live_module_is_the_same_in_whatever_runs_directory_it_was_put() -> None:
    def run(directory: str, digest: str = "d") -> Trial:
        inputs = {"file": f"{directory}/model/0123456789abcdef.safetensors"}
        model = {"program": f"{directory}/model", "digest": digest, "inputs": inputs}
        return trial(model=model)

    assert differences(stored(run("/a")), stored(run("/b"))) == ()
    (found,) = differences(stored(run("/a")), stored(run("/b", digest="e")))
    assert (found.field, found.factor) == ("model.digest", "model")


def test_inputs_of_other_content_or_of_a_users_own_name_are_others() -> None:
    def reads(file: str) -> Trial:
        return trial(model={"inputs": {"file": file}})

    for a, b in (("/a/x.npz", "/b/x.npz"), (f"/a/{'0' * 16}.npz", f"/a/{'1' * 16}.npz")):
        assert differences(stored(reads(a)), stored(reads(b)))
