"""The command line as a user meets it: real processes, real models, a real SQLite tracker."""

import json
import os
import re
import subprocess
import sys

import pytest

from support.slices import one_in

FEW = (
    *("stopping=fixed", "stopping.calls=5", "stopping.window_s=0.05"),
    # Nothing here asks how steady the machine is: no second is spent on looking, none on repeats.
    *("protocol.canary_tolerance_ratio=null", "protocol.pair_window_s=0.05"),
    "profiler=none",  # what a profile leaves is looked at in test_profiles.py
)
FAST = (*FEW, "stopping.processes=2")
ONCE = (*FEW, "stopping.processes=1", "protocol.pairing=none")  # where no interval is looked at
INLINE = (*ONCE, "executor=inline")  # where no process of a trial is looked at
UNTRACKED = ("recorder=none",)


PROBE = """
import contextlib, io, json, sys
from benchorch.cli.main import run
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        run(words)
    heavy = ('torch', 'mlflow', 'ray', 'transformers', 'numpy', 'onnxruntime', 'scipy')
    print(*words, [name for name in heavy if name in sys.modules])
"""


def test_what_only_talks_loads_nothing_heavy(place):
    talking = ["--help", "--cfg job", "plan model=bert", "cache list", "conversions"]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps([words.split() for words in talking])],
        cwd=place.path,
        env=place.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{words} []" for words in talking]


def test_help_lists_commands_keys_and_options(place):
    assert re.search(r"^  plan +what would run", place.run().stdout, re.MULTILINE)
    assert re.search(r"^  hardware +local ", place.run("run", "--help").stdout, re.MULTILINE)
    assert re.search(r"^model=bert_tiny ", place.run("help", "model").stdout, re.MULTILINE)
    assert list(place.path.glob("runs")) == []


def test_cfg_job_prints_the_resolved_configuration(place):
    said = place.run("--cfg", "job", "model=mlp", "workload.batch_size=3").stdout
    assert "batch_size: 3" in said
    assert "benchorch.models.mlp.Mlp" in said


def test_a_plan_is_an_object_with_trials_and_skips(place):
    words = ("plan", "--json", "-m", "model=mlp,mlp", "conversion=eager,onnxruntime")
    plan = json.loads(place.run(*words).stdout)
    assert [trial["labels"]["conversion"] for trial in plan["trials"]] == ["eager", "onnxruntime"]
    assert len(plan["skips"]) == 2
    assert not (place.path / "runs").exists()


BAD_INPUT = [
    (("modle=bert",), "Did you mean 'model'?"),
    (("hardware=moon",), "hardware: there is no 'moon'"),
    (("model=mlp", "workload.batch_size=null"), "symbol 'batch_size' has no value"),
    (("model=mlp", "model.widths=[a]"), "model.widths: expected a list of a whole number"),
    (("model=mlp", "model.checkpoint=nowhere.safetensors"), "nowhere.safetensors"),
    (("model=factory", "model.factory=my_zoo:wroks"), "Did you mean 'works'?"),
    (("model=mlp", "rebuild=sometimes"), "rebuild: expected one of if_needed, always, never"),
    (("model=mlp", "store.root=/proc/no"), "store.root"),
    (("model=mlp", "model.inputs.input.shape=[batch_size,3]"), "model"),
    (("nowhere.yaml",), "there is no recipe 'nowhere.yaml'"),
    (("resume=nothing-like-it",), "resume: 'nothing-like-it' is neither"),
    (("model=mlp", "workload.batch_size=[]"), "workload.batch_size: is empty"),
    (("model=mlp", "a b"), "is not an override"),
    (("broken.yaml",), "while parsing a flow node"),
    (("circular.yaml",), "leads back to itself"),
    (("model=mlp", "hydra.run.dir=/proc/x"), "/proc/x"),
    (("model=mlp", "conversion=onnxruntime", "conversion.steps=3"), "expected named steps"),
    (("-m", "model=mlp", "workload.batch_size=range(3,1)"), "The sweep is empty"),
    (("-m", "model=mlp", "rebuild=always,never"), "rebuild: is one for the whole command"),
    (("model=mlp", "+limits.foo=1"), "limits.foo: unknown key"),
    (("model=mlp", "+foo=1"), "foo: unknown key"),
    (("model=mlp", "limits.build_timeout_s=inf"), "expected a finite number"),
    (("model=mlp", "~limits"), "limits: expected a mapping"),
    (("model=mlp", "objective=latency_ms/p5"), "is not a metric"),
    (("model=mlp", "hardware.conversions=[]"), "nothing to run"),
    (("plan", "--jsno", "model=mlp"), "--jsno: there is no such option"),
    (("resume=afile",), "resume: 'afile' is neither"),
]


@pytest.mark.parametrize(("words", "told"), one_in(3, BAD_INPUT))
def test_bad_input_is_refused_before_anything_runs(place, words, told):
    extra = ("+model.inputs={x:{shape:[batch_size,4],generator:normal}}",)
    words = words + extra if words[0] == "model=factory" else words
    (place.path / "broken.yaml").write_text("defaults: [\n")
    (place.path / "circular.yaml").write_text("defaults: [circular, _self_]\n")
    (place.path / "afile").touch()
    alone = words[0] in ("plan", "resume=afile", "resume=nothing-like-it")
    done = place.run(*words, *(() if alone else UNTRACKED), code=2)
    assert told in done.stderr
    assert "nothing was run" in done.stderr


def test_all_problems_are_told_at_once(place):
    done = place.run("model=mlp", "rebuil=x", "conversion=egaer", "workload.batch=1", code=2)
    assert "3 problems" in done.stderr


@pytest.fixture(scope="module")
def tracked(tmp_path_factory, make_place):
    """One run of two conversions with everything on, shared by the tests that look at it."""
    place = make_place(tmp_path_factory.mktemp("tracked"))
    words = ("model=mlp", "conversion=[eager,onnxruntime]", "control=false")
    return place, place.run(*words, *FAST, "hydra.run.dir=out")


def test_a_run_ends_with_a_table_a_conclusion_and_what_to_do_next(tracked):
    place, done = tracked
    assert "same model?" in done.stdout
    assert "mlp batch_size=1: there is no single fastest: " in done.stdout
    assert "undecided against the baseline: onnxruntime." in done.stdout
    assert "resume" not in done.stdout
    assert "MLflow    benchorch ui" in done.stdout
    assert "| onnxruntime |" in (place.path / "out" / "table.md").read_text()


def test_the_journal_has_one_line_a_trial_with_metrics(tracked):
    place, _ = tracked
    eager, onnx = place.results("out")
    assert [line["outcome"] for line in (eager, onnx)] == ["ok", "ok"]
    assert onnx["metrics"]["latency_ms/p50"] > 0
    assert onnx["metrics"]["speedup_ratio/p50"] > 0
    assert onnx["parity"]["passed"] is True
    assert onnx["build"]["steps"] == {"onnx": "miss"}
    assert onnx["processes"][0]["facts"]["provider"] == "CPUExecutionProvider"


def test_every_trial_has_its_files(tracked):
    place, _ = tracked
    for line in place.results("out"):
        folder = place.path / "out" / "trials" / line["trial_id"]
        names = {path.name for path in folder.iterdir()}
        assert {"config.yaml", "observations.jsonl", "environment.json", "parity.json"} <= names


def test_without_a_profiler_nothing_of_it_is_left(tracked):
    place, done = tracked
    for line in place.results("out"):
        assert line["profile"] is None
        assert not (place.path / "out" / "trials" / line["trial_id"] / "profile").exists()
    assert "limited by" not in done.stdout


def test_mlflow_has_a_parent_and_a_child_for_each_trial(tracked):
    place, _ = tracked
    from mlflow.tracking import MlflowClient  # noqa: TID251 - looks at what was recorded

    client = MlflowClient(f"sqlite:///{place.path}/mlflow.db")
    experiment = client.get_experiment_by_name("benchorch")
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(parents) == 1
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert all("latency_ms/p50" in run.data.metrics for run in children)
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_the_same_again_finds_its_build(tracked):
    place, _ = tracked
    words = ("model=mlp", "conversion=onnxruntime", "baseline=null", *INLINE, *UNTRACKED)
    place.run(*words, "hydra.run.dir=again")
    (onnx,) = place.results("again")
    assert onnx["build"]["cache"] == "hit"
    assert onnx["build"]["build_s"] == 0
    assert onnx["build"]["original_build_s"] > 0
    listed = place.run("cache", "list").stdout
    assert "mlp" in listed


def test_resume_by_mlflow_run_runs_nothing_that_is_done(tracked):
    place, _ = tracked
    run_id = json.loads((place.path / "out" / "tracking.json").read_text())["parent_run_id"]
    before = (place.path / "out" / "results.jsonl").read_text()
    assert "2 already there" in place.run(f"resume={run_id}").stdout
    assert (place.path / "out" / "results.jsonl").read_text() == before


def test_a_run_that_is_still_going_on_is_not_run_twice(tracked):
    import fcntl

    place, _ = tracked
    with (place.path / "out" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place.run("resume=out", code=2)
    assert "still going on" in done.stderr


@pytest.mark.parametrize("flags", [(), ("-m",)])
def test_a_new_run_is_refused_where_there_is_one(tracked, flags):
    place, _ = tracked
    typed = (place.path / "out" / ".hydra" / "overrides.yaml").read_text()
    key = "hydra.sweep.dir" if flags else "hydra.run.dir"
    done = place.run(*flags, "model=mlp", "conversion=eager", f"{key}=out", code=2)
    assert f"{key}: out holds a run already, which benchorch resume out continues." in done.stderr
    assert done.stderr.rstrip().endswith(f"{key}=out-2")
    assert (place.path / "out" / ".hydra" / "overrides.yaml").read_text() == typed


def test_a_recipes_own_directory_is_refused_where_it_holds_a_run(tracked):
    place, _ = tracked
    (place.path / "again.yaml").write_text(
        "defaults: [config, {override model: mlp}, _self_]\nhydra: {run: {dir: out}}\n"
    )
    assert "out holds a run already" in place.run("again.yaml", *UNTRACKED, code=2).stderr


def test_a_run_that_is_too_dear_leaves_no_directory(place):
    words = ("model=mlp", "conversion=eager", *UNTRACKED, "+pricing.usd_per_hour={local: 5000}")
    done = place.run(*words, "budget.max_usd=0.01", "hydra.run.dir=dear", code=2)
    assert "more than budget.max_usd=0.01" in done.stderr
    assert not (place.path / "dear").exists()


def test_a_sweep_is_one_plan_in_the_directory_that_was_named(place):
    words = ("-m", "model=mlp", "conversion=eager", "workload.batch_size=1,2", *INLINE, *UNTRACKED)
    place.run(*words, "hydra.sweep.dir=swept")
    plan = json.loads((place.path / "swept" / "plan.json").read_text())
    assert len(plan["trials"]) == 2
    assert len(place.results("swept")) == 2


@pytest.mark.slow
def test_the_optuna_sweeper_minimises_latency_in_one_plan(place):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="the sweep extra is absent")
    words = (
        "-m",
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=3",
        "hydra.sweeper.n_jobs=1",
        "hydra.sweeper.direction=minimize",
        "model=mlp",
        "conversion=eager",
        "workload.batch_size=choice(1,64)",
    )
    place.run(*words, *ONCE, *UNTRACKED, "hydra.sweep.dir=tuned")
    found = (place.path / "tuned" / "optimization_results.yaml").read_text()
    assert "best_value" in found
    plan = json.loads((place.path / "tuned" / "plan.json").read_text())
    assert 1 <= len(plan["trials"]) <= 2


@pytest.mark.slow
def test_one_changed_weight_in_the_middle_of_a_checkpoint_is_a_miss(place):
    import torch
    from safetensors.torch import load_file, save_file

    from benchorch.models.mlp import Mlp

    path = place.path / "weights.safetensors"
    widths = [256, 512, 8]
    inputs = {"input": {"shape": ["batch_size", 256], "generator": "normal"}}
    save_file(Mlp(widths=widths, inputs=inputs).load(0).state_dict(), path)
    words = (
        "model=mlp",
        f"model.widths={widths}".replace(" ", ""),
        f"model.checkpoint={path}",
        "conversion=onnxruntime",
        "baseline=null",
        *ONCE,
        *UNTRACKED,
    )
    states = []
    for name in ("first", "same", "edited"):
        if name == "edited":
            weights = load_file(path)
            key = next(k for k, v in weights.items() if v.shape == torch.Size([512, 256]))
            weights[key][256, 128] += 1e-3
            save_file(weights, path)
        place.run(*words, f"hydra.run.dir={name}")
        states.append(place.results(name)[0]["build"]["cache"])
    assert states == ["miss", "hit", "miss"]


@pytest.mark.slow
def test_rebuild_never_takes_what_is_there_and_always_builds_anew(place):
    words = ("model=factory", "model.factory=my_zoo:works", "conversion=onnxruntime")
    shape = ("model.inputs={x:{shape:[batch_size,4],generator:normal}}", "baseline=null")
    words = (*words, *shape, *ONCE, *UNTRACKED, f"store.root={place.path}/own")
    refused = place.run(*words, "rebuild=never", "hydra.run.dir=a", code=1)
    assert "not_built" in refused.stdout
    place.run(*words, "hydra.run.dir=b")
    place.run(*words, "rebuild=never", "hydra.run.dir=c")
    place.run(*words, "rebuild=always", "hydra.run.dir=d")
    source = place.path / "my_zoo.py"
    source.write_text(source.read_text().replace("def works(width=8)", "def works(width=9)"))
    place.run(*words, "rebuild=never", "hydra.run.dir=e", code=1)
    states = [place.results(name)[0]["build"]["cache"] for name in "bcd"]
    assert states == ["miss", "hit", "miss"]
    assert place.results("e")[0]["build"]["cache"] == "stale"
    assert place.results("e")[0]["parity"]["passed"] is False


def test_a_tracker_that_cannot_be_reached_costs_nothing_but_a_sentence(place):
    words = ("model=mlp", "conversion=eager", *INLINE, "recorder.uri=http://127.0.0.1:9")
    done = place.run(*words, "hydra.run.dir=out")
    assert "python -m benchorch record" in done.stdout
    assert len(place.results("out")) == 1
    place.run("record", "out", "--uri", f"sqlite:///{place.path}/later.db")
    assert (place.path / "later.db").exists()


def test_a_piped_reader_that_leaves_gives_no_traceback(place):
    talking = subprocess.Popen(
        place.command("--help"),
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    talking.stdout.close()
    assert b"Traceback" not in talking.stderr.read()
    talking.wait()


def test_a_disk_that_fills_up_ends_the_trial_with_a_typed_failure(place):
    disk = place.path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if os.geteuid() != 0 or mounted.returncode != 0:
        pytest.skip("a small disk needs the right to mount one")
    try:
        words = ("model=mlp", "conversion=export", "baseline=null", *ONCE, *UNTRACKED)
        place.run(*words, f"store.root={disk}/store", "hydra.run.dir=out", code=1)
        (line,) = place.results("out")
        assert line["failure"]["kind"] == "disk_full"
        assert "failed" in place.run("cache", "list", f"store.root={disk}/store").stdout
    finally:
        subprocess.run(["umount", str(disk)], check=True)
