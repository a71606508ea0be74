import json
from collections.abc import Mapping

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import open_trial
from benchorch.errors import ConfigError
from benchorch.executors.node_packages import bundled_packages
from benchorch.files import file_digest
from benchorch.frameworks.tensorrt_libraries import LINKED_WITH
from benchorch.host.packages import install_command
from benchorch.interfaces.executor import Executor
from benchorch.run.expand import plan


class Everywhere(Executor):
    """Reaches every kind but the named ones; never runs anything."""

    def __init__(self, *, but=()):
        self._but = but

    def unreachable(self, hardware_kind):
        return f"{hardware_kind} is out of reach." if hardware_kind in self._but else None

    def is_remote(self):
        return True

    def run(self, trials, work, emit):
        raise AssertionError("planning runs nothing")


@pytest.fixture(scope="module")
def composer():
    return Composer(config_loader())


def planned(composer, *jobs, executor=None, baseline="eager", **control):
    cells = [cell for job in jobs for cell in composer.cells(job)]
    eager = composer.cells([f"conversion={baseline}"])[0].config["conversion"] if baseline else {}
    return plan(
        cells,
        executor=executor or Everywhere(),
        plan_id="p",
        name="n",
        session={},
        baseline=(baseline, eager) if baseline else None,
        **control,
    )


def conversions(trials):
    return [trial.labels["conversion"] for trial in trials]


class Here(Everywhere):
    """Every machine is this one."""

    def is_remote(self):
        return False


def test_hardware_that_this_machine_is_not_is_a_skip_with_what_to_type(composer, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    words = ["model=mlp", "hardware=local_gpu", "conversion=eager"]
    found, _ = planned(composer, words, executor=Here())
    (skip,) = found.skips
    assert "a CUDA device is needed; CUDA_VISIBLE_DEVICES hides all of them" in skip.reason
    assert "hardware=local measures" in skip.remedy
    kept, _ = planned(composer, words, executor=Here(), keep_unreachable=True)
    assert conversions(kept.trials) == ["eager"], "a plan prices what is not here"
    assert planned(composer, words)[0].trials, "another machine may have a GPU"


class Rehearsal(Everywhere):
    """Plays every machine on this one."""

    def is_simulated(self):
        return True


@pytest.mark.parametrize(
    ("machine", "reason"),
    [("x86_64", "r6g.large is an aarch64 machine"), ("aarch64", "r6i.large is an x86_64 machine")],
)
def test_a_machine_that_cannot_be_played_here_is_a_skip(composer, monkeypatch, machine, reason):
    monkeypatch.setattr("platform.machine", lambda: machine)
    jobs = [["model=mlp", "conversion=eager", f"hardware={name}"] for name in ("r6g", "r6i")]
    found, _ = planned(composer, *jobs, executor=Rehearsal())
    (skip,) = found.skips
    assert "cannot be simulated on this machine" in skip.reason
    assert reason in skip.reason
    assert len(found.trials) == 1
    assert len(planned(composer, *jobs)[0].trials) == 2


def test_without_a_gpu_none_is_played(composer, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    found, _ = planned(composer, ["model=mlp", "hardware=g5"], executor=Rehearsal())
    assert found.trials == ()
    assert "a CUDA device is needed" in found.skips[0].reason


def test_a_single_conversion_brings_the_baseline_it_is_compared_with(composer):
    found, asked = planned(composer, ["model=mlp", "conversion=onnxruntime"])
    eager, onnx = found.trials
    assert conversions(found.trials) == ["eager", "onnxruntime"]
    assert (eager.baseline_id, onnx.baseline_id) == (None, eager.trial_id)
    assert asked == (onnx.trial_id,)


def test_a_baseline_that_was_asked_for_is_not_doubled(composer):
    found, _ = planned(
        composer, ["model=mlp", "conversion=eager"], ["model=mlp", "conversion=onnxruntime"]
    )
    assert conversions(found.trials) == ["eager", "onnxruntime"]
    assert found.skips == ()


def test_each_batch_size_has_its_own_baseline(composer):
    words = ["model=mlp", "conversion=onnxruntime", "workload.batch_size=[1,8]"]
    found, _ = planned(composer, words)
    baselines = {t.labels["workload"]: t.trial_id for t in found.trials if t.baseline_id is None}
    compared = {t.labels["workload"]: t.baseline_id for t in found.trials if t.baseline_id}
    assert len(baselines) == 2
    assert compared == baselines


def test_no_baseline_is_added_where_none_is_wanted(composer):
    found, _ = planned(composer, ["model=mlp", "conversion=onnxruntime"], baseline=None)
    assert conversions(found.trials) == ["onnxruntime"]


def test_a_baseline_that_cannot_run_is_one_skip_for_all_that_it_is_compared_with(
    composer, monkeypatch
):
    _lacks(monkeypatch, "onnxruntime")
    words = ["model=mlp", "conversion=[eager,torchscript]"]
    found, _ = planned(composer, composer.lifted(words), baseline="onnxruntime")
    assert conversions(found.trials) == ["eager", "torchscript"]
    (skip,) = found.skips
    assert (skip.labels["conversion"], skip.requested) == ("onnxruntime", True)
    assert "needs onnxruntime" in skip.reason
    words = ["model=mlp", "conversion=[onnxruntime,eager]"]
    found, _ = planned(composer, composer.lifted(words), baseline="onnxruntime")
    assert len(found.skips) == 1, "it was requested, too"


def test_a_default_baseline_that_cannot_run_is_a_skip_that_nobody_requested(composer, monkeypatch):
    from benchorch.run import expand as module

    assert composer.session([])["baseline"] == module.DEFAULT_BASELINE
    monkeypatch.setattr(module, "DEFAULT_BASELINE", "onnxruntime")
    _lacks(monkeypatch, "onnxruntime")
    found, _ = planned(composer, ["model=mlp", "conversion=eager"], baseline="onnxruntime")
    (skip,) = found.skips
    assert (skip.labels["conversion"], skip.requested) == ("onnxruntime", False)


def test_a_baseline_that_nothing_is_compared_with_is_no_skip(composer, monkeypatch):
    _lacks(monkeypatch, "onnxruntime")
    words = ["model=mlp", "conversion=onnxruntime"]
    found, _ = planned(composer, words, baseline="onnxruntime_cuda")
    assert [skip.labels["conversion"] for skip in found.skips] == ["onnxruntime"]


def test_two_cells_of_the_same_content_are_one_trial_and_a_skip_that_names_it(composer):
    job = ["model=mlp", "conversion=eager"]
    found, asked = planned(composer, job, job)
    (trial,) = found.trials
    (skip,) = found.skips
    assert asked == (trial.trial_id, trial.trial_id)
    assert trial.trial_id in skip.reason


def test_a_symbol_that_no_input_uses_makes_no_new_trial(composer):
    found, _ = planned(composer, ["model=mlp", "conversion=eager", "workload.seq_len=[1,2]"])
    assert len(found.trials) == 1
    assert len(found.skips) == 1


def test_identity_is_the_content_and_not_its_name_or_its_order(composer):
    first, _ = planned(composer, ["model=mlp", "conversion=eager", "workload.seed=1"])
    again, _ = planned(composer, ["workload.seed=1", "conversion=eager", "model=mlp"])
    other, _ = planned(composer, ["model=mlp", "conversion=eager", "workload.seed=2"])
    assert first.trials[0].trial_id == again.trials[0].trial_id
    assert first.trials[0].trial_id != other.trials[0].trial_id


def test_hardware_out_of_reach_is_a_skip_with_the_reason(composer):
    found, asked = planned(
        composer, ["model=mlp", "conversion=eager"], executor=Everywhere(but=("local",))
    )
    assert found.trials == ()
    assert asked == ("",)
    assert found.skips[0].reason == "local is out of reach."


def test_a_missing_package_is_a_skip_that_says_what_to_install(composer, monkeypatch):
    _lacks(monkeypatch, "onnxruntime")
    found, _ = planned(composer, ["model=mlp", "conversion=onnxruntime"])
    (skip,) = found.skips
    assert "needs onnxruntime" in skip.reason
    assert skip.remedy == install_command(["onnxruntime"])


def _lacks(monkeypatch, package):
    from benchorch.run import expand as module

    monkeypatch.setattr(module, "is_installed", lambda name: not name.startswith(package))


class NodesWith(Everywhere):
    """Whose nodes have these packages, whatever this machine has."""

    def __init__(self, *packages: str, **versions: str) -> None:
        super().__init__()
        named = {name.replace("_", "-"): version for name, version in versions.items()}
        self.installed = dict.fromkeys(packages, "") | named

    def packages(self, hardware_kind: str) -> Mapping[str, str]:
        return self.installed


def test_what_the_node_has_decides_and_not_what_the_planner_has(composer):
    words = ["model=mlp", "hardware=g5", "conversion=tensorrt"]
    gpu = NodesWith("torch", "transformers", "onnx", "onnxscript", "tensorrt")
    found, _ = planned(composer, words, executor=gpu)
    assert {trial.labels["conversion"] for trial in found.trials} == {"eager", "tensorrt"}
    found, _ = planned(composer, words, executor=NodesWith("torch", "onnx", "onnxscript"))
    assert "tensorrt" not in {trial.labels["conversion"] for trial in found.trials}
    assert found.skips[0].reason == "needs tensorrt; nodes of g5.xlarge lack it."


def test_a_gpu_nodes_onnxruntime_is_the_one_for_gpus(composer):
    words = ["model=mlp", "hardware=g5", "conversion=onnxruntime"]
    gpu = NodesWith("torch", "transformers", "onnx", "onnxscript", "onnxruntime-gpu")
    found, _ = planned(composer, words, executor=gpu)
    assert (conversions(found.trials), found.skips) == (["eager", "onnxruntime"], ())
    found, _ = planned(composer, words, executor=NodesWith("torch", "onnx", "onnxscript"))
    assert "needs onnxruntime" in found.skips[0].reason


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (
            "11.0.0.114",
            "onnxruntime-gpu 1.31.1 loads TensorRT 10; the lock of these nodes has 11",
        ),
        ("10.13.0", None),
    ],
)
def test_a_provider_is_planned_only_with_the_release_it_was_linked_with(composer, release, reason):
    words = ["model=mlp", "hardware=g5", "conversion=onnxruntime_tensorrt"]
    has = ("torch", "transformers", "onnx", "onnxscript")
    nodes = NodesWith(*has, onnxruntime_gpu="1.31.1", tensorrt_cu13_libs=release)
    found, _ = planned(composer, words, executor=nodes)
    assert ("onnxruntime_tensorrt" in conversions(found.trials)) is (reason is None)
    assert [skip.reason.startswith(reason) for skip in found.skips] == [True] * bool(reason)


def test_the_release_that_the_locks_provider_needs_is_recorded():
    packages = bundled_packages("g5.xlarge")
    assert packages is not None
    assert packages["onnxruntime-gpu"] in LINKED_WITH


@pytest.mark.parametrize("family", ["inf2", "trn1"])
def test_an_accelerator_without_a_conversion_is_a_skip_and_not_a_trial_on_its_cpu(composer, family):
    found, _ = planned(composer, ["model=mlp", f"hardware={family}"])
    assert found.trials == ()
    assert all("AWS Neuron" in skip.reason for skip in found.skips)
    assert found.skips


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["workload.batch_size=-1"], "workload.batch_size: expected a positive whole number"),
        (["workload.batch_size=1.5"], "workload.batch_size: expected a positive whole number"),
        (["workload.dtype=int3"], "workload.dtype: expected one of"),
        (["workload.seed=-1"], "workload.seed: expected a whole number of at least 0"),
        (["workload.dynamic=[nothing]"], "workload.dynamic: 'nothing' is not a symbol"),
        (["workload.dynamic=[[]]"], "workload.dynamic: [] is not a symbol"),
        (["workload.batch_size=null"], "batch_size"),
        (["+model.depth=3"], "model.depth: unknown option"),
        (["conversion.tolerance_ratio=-1"], "conversion.tolerance_ratio"),
        (["+stopping.wndow=1"], "stopping.wndow: unknown option"),
        (["conversion.runtime._target_=os.system"], "not one of benchorch's own components"),
        (["+protocol.piin=false"], "protocol.piin: unknown option. Did you mean 'pin'?"),
        (["protocol.pairing=some"], "pairing: one of auto, alternated, adjacent, none"),
        (["protocol.pin=3"], "protocol.pin: expected true or false, got 3"),
        (["parity.inputs=0"], "inputs: expected a positive whole number; got inputs=0"),
        (["limits.build_timeout_s=-5"], "limits.build_timeout_s: expected a number above 0"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(composer, words, problem):
    with pytest.raises(ConfigError) as caught:
        planned(composer, ["model=mlp", "conversion=eager", *words])
    assert problem in "\n".join(caught.value.problems)


def test_all_mistakes_are_found_in_one_go(composer):
    words = ["workload.batch_size=-1", "+model.depth=3", "conversion.tolerance_ratio=-1"]
    with pytest.raises(ConfigError) as caught:
        planned(composer, ["model=mlp", "conversion=eager", *words])
    assert len(caught.value.problems) == 3


def test_a_plan_holds_no_password(composer, monkeypatch):
    from benchorch.domain.codec import encode
    from benchorch.run.planner import plan_jobs

    monkeypatch.setenv("BENCHORCH_TRACKING_URI", "")  # put back afterwards
    words = ["model=mlp", "conversion=eager", "recorder.uri=http://ann:hunter22@host:5000"]
    planned = plan_jobs(composer, [words], "p").plan
    assert planned.session["tracking"]["uri"] == "http://host:5000"
    assert "hunter22" not in str(encode(planned))


def test_a_chain_whose_links_do_not_join_is_refused(composer):
    job = ["model=mlp", "conversion=eager", "conversion.runtime._target_=" + ONNX]
    with pytest.raises(ConfigError, match="expects an ONNX model; the model gives a torch module"):
        planned(composer, job)


ONNX = "benchorch.runtimes.onnxruntime.OnnxRuntime"


def test_a_scenario_keeps_its_trials_ids_under_its_former_name(composer):
    words = ["model=mlp", "conversion=eager", "scenario=throughput_latency"]
    former = "scenario._target_=benchorch.scenarios.curve.ThroughputLatency"
    now, before = (planned(composer, job)[0].trials for job in (words, [*words, former]))
    assert [trial.trial_id for trial in now] == [trial.trial_id for trial in before]
    assert open_trial(before[0].spec).scenario == open_trial(now[0].spec).scenario


def controls(plan):
    return [trial.labels["conversion"] for trial in plan.trials if trial.is_control]


def jobs_of(*names):
    return [["model=mlp", f"conversion={name}"] for name in names]


def test_the_baseline_of_two_others_meets_a_copy_of_itself(composer):
    found, _ = planned(composer, *jobs_of("eager", "torchscript", "export"))
    assert controls(found) == ["eager"]
    assert [trial.candidates for trial in found.trials if trial.baseline_id] == [2, 2]


def test_that_of_one_other_does_on_request_only(composer):
    jobs = jobs_of("eager", "torchscript")
    assert controls(planned(composer, *jobs)[0]) == []
    assert controls(planned(composer, *jobs, control=True)[0]) == ["eager"]


def test_without_a_control_trials_keep_their_ids(composer):
    jobs = jobs_of("eager", "torchscript", "export")
    without, _ = planned(composer, *jobs, control=False)
    assert controls(without) == []
    assert [t.trial_id for t in without.trials] == [
        t.trial_id for t in planned(composer, *jobs)[0].trials
    ]


@pytest.fixture
def of_scripts(tmp_path):
    """A composer of two models that scripts call; the second one's file is gone."""
    (tmp_path / "model").mkdir()
    for name in ("one", "two"):
        graph = tmp_path / f"{name}.onnx"
        graph.write_bytes(name.encode())
        node = {
            "_target_": "benchorch.models.script.ScriptModel",
            "script": str(graph),
            "digest": file_digest(graph),
            "call": "c",
            "inputs": {"x": {"shape": ["batch_size", 4], "generator": "normal"}},
            "labels": {"script": f"{name}.onnx", "model": f"{name}.onnx:net"},
        }
        (tmp_path / "model" / f"{name}.yaml").write_text(json.dumps(node))
    graph.unlink()
    return Composer(config_loader([tmp_path]))


def test_a_model_of_a_script_that_cannot_be_planned_leaves_the_others(of_scripts):
    jobs = [[f"model={name}", "conversion=onnxruntime"] for name in ("one", "two")]
    found, requested = planned(of_scripts, *jobs)
    assert {trial.labels["model"] for trial in found.trials} == {"one.onnx:net"}
    assert requested == (found.trials[-1].trial_id, "")
    assert [skip.labels["conversion"] for skip in found.skips] == ["eager", "onnxruntime"]
    for skip in found.skips:
        assert skip.requested, "the run has not done what it was asked for"
        assert skip.labels["model"] == "two.onnx:net"
        assert "model.script: there is no script" in skip.reason


def test_what_is_wrong_with_all_models_of_scripts_refuses_the_plan(of_scripts):
    with pytest.raises(ConfigError, match="there is no script"):
        planned(of_scripts, ["model=two", "conversion=onnxruntime"])
    jobs = [[f"model={n}", "conversion=onnxruntime", "workload.seed=-1"] for n in ("one", "two")]
    with pytest.raises(ConfigError, match=r"workload\.seed") as caught:
        planned(of_scripts, *jobs)
    assert len(caught.value.problems) == 1


def test_a_model_that_was_named_refuses_the_plan(of_scripts):
    jobs = [["model=one", "conversion=onnxruntime"], ["model=mlp", "model.widths=[3]"]]
    with pytest.raises(ConfigError, match="widths must be at least two"):
        planned(of_scripts, *jobs)
