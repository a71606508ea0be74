"""What a run shows of a trial."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import BuildRecord, Failure, Outcome, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.domain.verdict import OutputParity, Verdict
from benchorch.recorders import run_fields
from benchorch.recorders.run_fields import MAX_METRICS, MAX_PARAMS, MAX_TAGS, flatten, of_trial

TRIAL = Trial(
    trial_id="00000000000000aa",
    labels={"model": "bert", "conversion": "inductor", "workload.batch_size": "8"},
    spec={
        "model": {"_target_": "benchorch.models.transformers.Transformer", "layers": 12},
        "conversion": {"steps": [{"_target_": "benchorch.conversions.cast.Cast"}]},
        "workload": {"batch_size": 8, "dynamic": []},
    },
)
RESULT = TrialResult(trial_id=TRIAL.trial_id, labels=TRIAL.labels, outcome=Outcome.OK)
NOTHING = Summary(metrics={}, speedup=None, steady=True)


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(
        value=value, low=low, high=high, level_ratio=0.95, n=5, unit="ms", method="median"
    )


def output(name: str, *, l2: float, cosine: float, agreement: float | None) -> OutputParity:
    return OutputParity(
        name=name,
        max_abs=l2 * 10,
        relative_l2_ratio=l2,
        cosine_ratio=cosine,
        argmax_agreement_ratio=agreement,
    )


def test_labels_and_the_flattened_spec_are_params() -> None:
    assert of_trial("p", TRIAL, RESULT, NOTHING).params == {
        "model": "bert",
        "conversion": "inductor",
        "workload.batch_size": "8",
        "model._target_": "models.transformers.Transformer",
        "model.layers": "12",
        "conversion.steps.0._target_": "conversions.cast.Cast",
        "workload.dynamic": "[]",
    }


def test_an_estimate_is_a_value_with_the_ends_of_its_interval() -> None:
    metrics = {"latency_ms/p50": estimate(2.0, 1.5, 2.5), "load_s/p50": estimate(1.0)}
    summary = Summary(metrics=metrics, speedup=None, steady=True)
    assert of_trial("p", TRIAL, RESULT, summary).metrics == {
        "latency_ms/p50": 2.0,
        "latency_ms/p50/low": 1.5,
        "latency_ms/p50/high": 2.5,
        "load_s/p50": 1.0,
    }


def test_the_speedup_is_a_metric_and_its_verdict_a_tag() -> None:
    speedup = Comparison(ratio=estimate(1.7, 1.6, 1.8), verdict="faster")
    fields = of_trial("p", TRIAL, RESULT, dataclasses.replace(NOTHING, speedup=speedup))
    assert fields.metrics["speedup_ratio/p50"] == 1.7
    assert fields.metrics["speedup_ratio/p50/high"] == 1.8
    assert fields.tags["speedup"] == "faster"


def test_parity_is_shown_by_its_worst_output() -> None:
    outputs = (
        output("0", l2=1e-3, cosine=0.9, agreement=None),
        output("1", l2=1e-5, cosine=0.99, agreement=0.5),
    )
    verdict = Verdict(
        passed=False, reasons=("0 is off", "1 is off"), outputs=outputs, tolerance_ratio=1e-4
    )
    fields = of_trial("p", TRIAL, dataclasses.replace(RESULT, parity=verdict), NOTHING)
    assert fields.metrics == {
        "parity_relative_l2_ratio/max": 1e-3,
        "parity_abs_difference/max": 1e-2,
        "parity_cosine_ratio/min": 0.9,
        "parity_argmax_agreement_ratio/min": 0.5,
    }
    assert fields.tags["verdict"] == "failed"
    assert fields.tags["verdict.reasons"] == "0 is off\n1 is off"


def test_what_is_not_a_number_is_no_metric() -> None:
    metrics = {"latency_ms/p50": estimate(math.nan, -math.inf, 1.0)}
    summary = Summary(metrics=metrics, speedup=None, steady=True)
    assert of_trial("p", TRIAL, RESULT, summary).metrics == {"latency_ms/p50/high": 1.0}


def test_a_failure_is_told_by_class_stage_and_message_but_not_by_its_traceback() -> None:
    failure = Failure(
        stage="build", kind="oom", message="asked for 9 GiB", remedy="less", detail="Traceback"
    )
    result = dataclasses.replace(RESULT, outcome=Outcome.FAILED, failure=failure)
    tags = of_trial("p", TRIAL, result, NOTHING).facts
    assert tags["failure.kind"] == "oom"
    assert tags["failure.stage"] == "build"
    assert tags["failure.message"] == "asked for 9 GiB"
    assert tags["failure.remedy"] == "less"
    assert "Traceback" not in str(tags)


def test_what_was_built_and_where_it_ran_are_facts() -> None:
    build = BuildRecord(
        key="k" * 64,
        cache="hit",
        build_s=0,
        original_build_s=9,
        artifact_bytes=1,
        model_digest="d" * 64,
        steps={"Cast": "hit"},
    )
    environment: dict[str, Json] = {"host": "node-1", "packages": {"torch": "2.13.0"}}
    result = dataclasses.replace(RESULT, build=build, environment=environment)
    tags = of_trial("p", TRIAL, result, NOTHING).facts
    assert tags["build.key"] == "k" * 64
    assert tags["build.cache"] == "hit"
    assert tags["build.steps.Cast"] == "hit"
    assert tags["model_digest"] == "d" * 64
    assert tags["environment.host"] == "node-1"
    assert tags["environment.packages.torch"] == "2.13.0"


@pytest.mark.parametrize(
    ("outcome", "kind", "status"),
    [
        (Outcome.OK, None, "FINISHED"),
        (Outcome.SKIPPED, None, "FINISHED"),
        (Outcome.FAILED, "oom", "FAILED"),
        (Outcome.TIMEOUT, "timeout", "FAILED"),
        (Outcome.FAILED, "interrupted", "KILLED"),
    ],
)
def test_an_outcome_has_its_status(outcome: Outcome, kind: str | None, status: str) -> None:
    failure = None if kind is None else Failure(stage="measure", kind=kind, message="")
    result = dataclasses.replace(RESULT, outcome=outcome, failure=failure)
    assert of_trial("p", TRIAL, result, NOTHING).status == status


def test_times_are_milliseconds_and_absent_where_unknown() -> None:
    result = dataclasses.replace(RESULT, started_at="1970-01-01T00:00:02+00:00")
    fields = of_trial("p", TRIAL, result, NOTHING)
    assert (fields.start_ms, fields.end_ms) == (2000, None)


def test_a_run_is_named_by_its_labels() -> None:
    assert run_fields.run_name(TRIAL) == "bert inductor batch_size=8"
    labels = {"model": "mlp", "hardware": "local", "hardware_kind": "local", "axes": ""}
    assert run_fields.run_name(dataclasses.replace(TRIAL, labels=labels)) == "mlp local"


def test_what_is_unknown_of_a_host_is_no_fact() -> None:
    result = dataclasses.replace(RESULT, environment={"governor": None, "variables": {}, "n": 0})
    tags = of_trial("p", TRIAL, result, NOTHING).facts
    assert [key for key in tags if key.startswith("environment")] == ["environment.n"]


def test_a_plan_counts_its_trials_and_skips() -> None:
    skips = (Skip(labels={}, reason="no GPU"),)
    plan = Plan(plan_id="p1", name="n", trials=(TRIAL,), skips=skips, session={})
    assert run_fields.of_plan(plan) == {
        "role": "plan",
        "plan_id": "p1",
        "trials": "1",
        "skips": "1",
    }


def test_labels_never_fall_to_the_limit_and_a_fact_says_what_did() -> None:
    spec: dict[str, Json] = {f"key{i}": i for i in range(500)}
    trial = dataclasses.replace(TRIAL, spec={**spec, "key0": "x" * 5000})
    fields = of_trial("p", trial, RESULT, NOTHING)
    assert len(fields.params) == MAX_PARAMS
    assert fields.params["conversion"] == "inductor"
    assert fields.params["key0"].endswith("…")
    left_out = 500 + len(TRIAL.labels) - MAX_PARAMS
    assert fields.facts["params_left_out"].startswith(f"{left_out} left out, 1 shortened")


def test_a_trial_has_few_tags_and_every_fact() -> None:
    environment: dict[str, Json] = {f"fact{i}": i for i in range(500)}
    environment |= {"host": "node-1", "packages": {"torch": "2.13.0"}}
    failure = Failure(stage="build", kind="oom", message="asked for 9 GiB")
    verdict = Verdict(passed=False, reasons=("off",), outputs=(), tolerance_ratio=1e-4)
    result = dataclasses.replace(
        RESULT, environment=environment, failure=failure, parity=verdict, baseline_id="b"
    )
    summary = dataclasses.replace(NOTHING, warnings=("Few processes.",))
    fields = of_trial("p", TRIAL, result, summary)
    assert 8 < len(fields.tags) <= MAX_TAGS
    assert fields.tags["outcome"] == "ok"
    assert fields.tags["environment.host"] == "node-1"
    assert fields.facts["environment.fact499"] == "499"
    assert fields.facts["environment.packages.torch"] == "2.13.0"
    assert fields.tags.items() <= fields.facts.items()


def test_the_parent_run_has_the_winner_and_its_figures(tmp_path: Path) -> None:
    assert run_fields.of_winner(tmp_path) == ({}, {})
    found = {"conversion": "export", "hardware": "local", "verdict": "faster", "conclusion": []}
    metrics = {"latency_ms/p50": 1.5, "speedup_ratio/p50": 2.0}
    (tmp_path / "winner.json").write_text(json.dumps({**found, "metrics": metrics}))
    tags = {"conversion": "export", "hardware": "local", "speedup": "faster"}
    assert run_fields.of_winner(tmp_path) == (tags, metrics)
    (tmp_path / "winner.json").write_text('{"conclusion": ["two cases"]}')
    assert run_fields.of_winner(tmp_path) == ({}, {})


def test_metrics_stay_within_one_batch() -> None:
    metrics = {f"a_ms/p{i}": estimate(1.0, 0.5, 2.0) for i in range(1000)}
    summary = Summary(metrics=metrics, speedup=None, steady=True)
    fields = of_trial("p", TRIAL, RESULT, summary)
    assert len(fields.metrics) == MAX_METRICS
    assert MAX_METRICS + MAX_PARAMS + MAX_TAGS <= 1000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_configuration_becomes_params_that_a_tracker_accepts(value: Json) -> None:
    trial = dataclasses.replace(TRIAL, spec={"a": value})
    params = of_trial("p", trial, RESULT, NOTHING).params
    assert all(0 < len(key) <= run_fields.MAX_KEY_LENGTH for key in params)
    assert all(len(text) <= run_fields.MAX_PARAM_LENGTH for text in params.values())


def test_a_list_of_plain_values_is_one_leaf_and_a_list_of_nodes_is_numbered() -> None:
    value: Json = {"a": [1, 2], "b": [{"c": None}, {"c": True}], "d": {}}
    assert dict(flatten(value)) == {"a": "[1, 2]", "b.0.c": "null", "b.1.c": "true", "d": "{}"}


def test_what_limits_a_trial_is_metrics_and_facts() -> None:
    bottleneck = BottleneckVerdict(
        limit="launch-bound",
        sentence="It waits for launches.",
        advice="Try CUDA graphs.",
        largest="aten::mm",
        largest_gain_ratio=0.25,
        critical_path_ns=4_000_000,
        classes_ns={"cpu_framework": 3_000_000, "gpu_compute": 1_000_000},
    )
    profile = ProfileRecord(
        profiler="torch",
        unprofiled_ns=(100,),
        profiled_ns=(110,),
        bottleneck=bottleneck,
        notes=("one", "two"),
    )
    found = of_trial("p", TRIAL, dataclasses.replace(RESULT, profile=profile), NOTHING)
    assert found.metrics == {
        "profile_dilation_ratio": pytest.approx(1.1),
        "critical_path_ms": 4.0,
        "largest_gain_ratio": 0.25,
        "critical_path_ratio/cpu_framework": 0.75,
        "critical_path_ratio/gpu_compute": 0.25,
    }
    assert found.tags["bottleneck.limit"] == "launch-bound"
    assert found.facts["bottleneck.largest"] == "aten::mm"
    assert found.facts["profile.notes"] == "one\ntwo"
    assert "profile.unavailable" not in found.facts


def test_a_profile_that_is_missing_says_why_in_a_fact() -> None:
    profile = ProfileRecord(unavailable="not profiled: oom")
    found = of_trial("p", TRIAL, dataclasses.replace(RESULT, profile=profile), NOTHING)
    assert found.metrics == {}
    assert found.facts["profile.unavailable"] == "not profiled: oom"


def test_a_run_names_its_built_artifact_and_how_it_is_served() -> None:
    built = BuildRecord(
        key="ab12" * 16,
        cache="miss",
        build_s=1.0,
        original_build_s=1.0,
        artifact_bytes=3 * 2**20,
        model_digest="d",
    )
    fields = of_trial("p", TRIAL, dataclasses.replace(RESULT, build=built), NOTHING)
    note = fields.tags[run_fields.NOTE]
    assert f"benchorch cache show {'ab12' * 16}" in note
    assert f"benchorch export p:{TRIAL.trial_id} --output FOLDER" in note
    assert run_fields.NOTE not in of_trial("p", TRIAL, RESULT, NOTHING).tags
