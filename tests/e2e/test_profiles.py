"""What a trial's profile leaves: files, a column, and what MLflow has of it."""

import gzip
import json
from collections import Counter

import pytest

from benchorch.domain.profile import VOID

FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
    *("protocol.canary_tolerance_ratio=null", "protocol.pairing=none", "hardware.threads=1"),
)
PROFILED = ("profiler.wait=3", "profiler.warmup=1", "profiler.active=3")


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, make_place):
    place = make_place(tmp_path_factory.mktemp("profiled"), tmp_path_factory.mktemp("store"))
    words = ("model=mlp", "conversion=[eager,onnxruntime]", *FAST, *PROFILED, "executor=inline")
    # By name: the faster one depends on the machine.
    return place, place.run(*words, "profile=[eager,onnxruntime]", "hydra.run.dir=out")


def folders(place):
    return {
        line["labels"]["conversion"]: (place.path / "out" / "trials" / line["trial_id"], line)
        for line in place.results("out")
    }


def test_each_trial_is_profiled_and_explained(profiled):
    place, _ = profiled
    found = folders(place)
    assert {name: line["profile"]["profiler"] for name, (_, line) in found.items()} == {
        "eager": "torch",
        "onnxruntime": "onnxruntime",
    }
    for folder, line in found.values():
        profile = line["profile"]
        assert profile["unavailable"] == ""
        assert len(profile["profiled_ns"]) == 3
        assert json.loads(gzip.decompress((folder / profile["trace"]).read_bytes()))
        assert profile["bottleneck"]["limit"]
        path_ns = profile["bottleneck"]["critical_path_ns"]
        assert sum(profile["bottleneck"]["classes_ns"].values()) == path_ns > 0
        assert (folder / "critical_path" / "index.json").exists()


def test_onnx_runtime_s_trial_has_the_graph_that_ran(profiled):
    place, _ = profiled
    folder, _ = folders(place)["onnxruntime"]
    told = json.loads((folder / "profile" / "operators.json").read_text())
    assert told["source"] == "onnx"
    assert any(node["op"] in ("Gemm", "FusedGemm") for node in told["nodes"])


def test_the_table_has_a_column_of_what_limits_each(profiled):
    place, done = profiled
    assert "limited by" in done.stdout
    table = (place.path / "out" / "table.md").read_text()
    limits = {line["profile"]["bottleneck"]["limit"] for _, line in folders(place).values()}
    # Beside other work, a profile may make calls too long to tell anything.
    assert all(("unknown" if limit == VOID else limit) in table for limit in limits)


@pytest.mark.slow
def test_the_profile_of_a_generation_has_whole_calls(place):
    sizes = ("workload.prompt_tokens=4", "workload.new_tokens=5", "executor=inline")
    words = ("model=llama_tiny", "scenario=generate", "conversion=onnxruntime", *sizes)
    place.run(*words, *FAST, "profiler=auto", *PROFILED, "recorder=none", "hydra.run.dir=out")
    folder, line = folders(place)["onnxruntime"]
    events = json.loads(gzip.decompress((folder / line["profile"]["trace"]).read_bytes()))
    found = Counter(event["name"] for event in events)
    assert (found["benchorch:call"], found["model_run"]) == (3, 3 * 5)
    summary = json.loads((folder / "critical_path" / "summary.json").read_text())
    assert (summary["steps"]["name"], summary["steps"]["count"]) == ("benchorch:call*", 3)


def test_mlflow_has_the_trace_the_analysis_and_its_numbers(profiled):
    place, _ = profiled
    from mlflow.tracking import MlflowClient  # noqa: TID251 - looks at what was recorded

    client = MlflowClient(f"sqlite:///{place.path}/mlflow.db")
    experiment = client.get_experiment_by_name("benchorch")
    runs = client.search_runs([experiment.experiment_id], "tags.role = 'trial'")
    assert len(runs) == 2
    for run in runs:
        kept = {item.path for item in client.list_artifacts(run.info.run_id, "profile")}
        assert "profile/trace.json.gz" in kept
        drawn = {item.path for item in client.list_artifacts(run.info.run_id, "critical_path")}
        assert "critical_path/index.json" in drawn
        assert {"critical_path_ms", "profile_dilation_ratio"} <= set(run.data.metrics)
        assert run.data.tags["bottleneck.limit"]


def test_a_profiler_that_cannot_work_here_costs_the_profile_alone(place):
    words = (
        "model=mlp",
        "conversion=eager",
        *FAST,
        "profiler=nsys",
        "recorder=none",
        "executor=inline",
    )
    done = place.run(*words, "hydra.run.dir=out")
    (_, line) = folders(place)["eager"]
    assert line["outcome"] == "ok"
    assert "Nsight Systems records GPUs" in line["profile"]["unavailable"]
    assert "unknown" in done.stdout
    assert "Nsight Systems records GPUs" in (place.path / "out" / "table.md").read_text()


def test_a_profiler_is_one_for_the_whole_command(place):
    done = place.run("-m", "model=mlp", "profiler=none,torch", *FAST, code=2)
    assert "profiler: is one for the whole command; it cannot be swept." in done.stderr
