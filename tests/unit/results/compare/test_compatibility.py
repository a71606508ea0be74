"""Fields that must agree before two trials are compared."""

from __future__ import annotations

from collections.abc import Mapping
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
from support.synthetic_runs import brief, trial

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
ENVIRONMENT: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "cpu": ({"cpu_model": "Other"}, "environment.cpu_model", "hardware"),
    "cores": ({"cpu_physical_count": 4}, "environment.cpu_physical_count", "hardware"),
    "torch": ({"packages": {"torch": "2.14"}}, "environment.packages.torch", "packages"),
    "python": ({"python": "3.12.0"}, "environment.python", "packages"),
    "kernel": ({"kernel": "6.2"}, "environment.kernel", "system"),
    "node": ({"host": "node-2"}, "environment.host", "host"),
}


@pytest.mark.parametrize("case", DECISIVE)
def test_fields_of_the_definition_must_agree(case: str) -> None:
    nodes, field, factor = DECISIVE[case]
    found = differences(brief(trial()), brief(trial(**nodes)))
    assert (field, factor) in [(one.field, one.factor) for one in found]


@pytest.mark.parametrize("case", ENVIRONMENT)
def test_fields_of_the_environment_must_agree(case: str) -> None:
    environment, field, factor = ENVIRONMENT[case]
    (found,) = differences(brief(trial()), brief(trial(), environment=environment))
    assert (found.field, found.factor) == (field, factor)
    assert str(found.b) in str(found)
    assert str(found.a) in str(found)


def test_threads_that_really_ran_must_agree() -> None:
    (found,) = differences(brief(trial()), brief(trial(), threads=4))
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
def test_stopping_and_descriptions_may_differ(nodes: dict[str, Any]) -> None:
    assert differences(brief(trial()), brief(trial(**nodes))) == ()
    assert definition_of(trial().spec) == definition_of(trial(**nodes).spec)


def test_a_fact_unknown_on_one_side_is_no_difference() -> None:
    known = brief(trial(), environment={"cpu_governor": "performance"})
    assert differences(brief(trial()), known) == ()


def test_changing_facts_are_no_difference() -> None:
    assert differences(brief(trial()), brief(trial(), environment={"load_average": [9]})) == ()


def test_other_facts_are_reported_and_decide_nothing() -> None:
    (found,) = differences(
        brief(trial(), environment={"git_commit": "abc"}),
        brief(trial(), environment={"git_commit": "def"}),
    )
    assert (found.factor, str(found)) == ("", "environment.git_commit: abc in A, def in B")


def test_a_factor_implies_those_that_differ_with_it() -> None:
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

    assert differences(brief(run("/a")), brief(run("/b"))) == ()
    (found,) = differences(brief(run("/a")), brief(run("/b", digest="e")))
    assert (found.field, found.factor) == ("model.digest", "model")


def test_inputs_of_other_content_or_of_a_users_own_name_are_others() -> None:
    def reads(file: str) -> Trial:
        return trial(model={"inputs": {"file": file}})

    for a, b in (("/a/x.npz", "/b/x.npz"), (f"/a/{'0' * 16}.npz", f"/a/{'1' * 16}.npz")):
        assert differences(brief(reads(a)), brief(reads(b)))


def test_further_inputs_that_are_named_by_their_content_are_the_same_wherever_they_lie() -> None:
    found = [
        definition_of(
            {"model": {"inputs": {"further": [f"/{place}/511c2b127672d898.safetensors"]}}}
        )
        for place in ("one", "other")
    ]
    assert found[0] == found[1]
