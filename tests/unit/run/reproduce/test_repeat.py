"""What a bundle's files are to its trials here, what hinders a repetition, and trust."""

from dataclasses import replace

import pytest

from benchorch.cli import main
from benchorch.config.composer import Composer, config_loader
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.journal.run_directory import read_plan
from benchorch.models import trust
from benchorch.run.planner import plan_jobs
from benchorch.run.reproduce.bundle import member, write_bundle
from benchorch.run.reproduce.opened import open_bundle
from benchorch.run.reproduce.repeat import (
    obstacles,
    refuse_unknown,
    refuse_untrusted,
    renamed,
    repetition,
    unpacked_names,
)
from support.synthetic_runs import brief, result, trial, write_run

EAGER = trial()
FACTORY = "net.py:make"
HERE = {"executor": {"_target_": "benchorch.executors.local.Local"}}


def of(model):
    return replace(EAGER, spec={**EAGER.spec, "model": {**EAGER.spec["model"], **model}})


def plan_of(*trials):
    return Plan(plan_id="p", name="n", trials=trials, skips=(), session=HERE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a model of the user's and its weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("def make(): ...\n")
    (tmp_path / "net.safetensors").write_bytes(b"weights")
    return tmp_path


@pytest.fixture
def opened(folder):
    """A bundle that carries both, opened where neither lies."""
    one = of({"factory": FACTORY, "checkpoint": str(folder / "net.safetensors")})
    run = write_run(folder / "run", (one, result(one)))
    write_bundle(run, [], folder / "b.zip", code=True, weights=True)
    for name in ("net.py", "net.safetensors"):
        (folder / name).unlink()
    return open_bundle(folder / "b.zip", folder / "into")


def unpacked(opened):
    plan = read_plan(opened.directory)
    names = unpacked_names(plan, opened.manifest.files, opened.carried)
    plan = replace(plan, trials=tuple(renamed(one, names) for one in plan.trials))
    return plan, names


def test_files_are_in_a_bundle_only_on_request(folder):
    weights = str(folder / "net.safetensors")
    one = of({"factory": FACTORY, "checkpoint": weights})
    run = write_run(folder / "run", (one, result(one)))
    inside = {}
    for code in (False, True):
        path = folder / f"{code}.zip"
        manifest = write_bundle(run, [], path, code=code, weights=not code)
        assert set(manifest.files) == {FACTORY, weights}
        inside[code] = {name for name in manifest.digests if name.startswith("files/")}
        assert set(open_bundle(path, folder / f"into-{code}").carried) == (
            {FACTORY} if code else {weights}
        )
    assert inside[True] == {member(FACTORY, manifest.files[FACTORY])}


def test_files_have_the_digests_with_which_they_were_measured(folder):
    one = of({"factory": FACTORY})
    noted = {"files": {FACTORY: "ab" * 32}}
    run = write_run(folder / "run", (one, result(one, environment=noted)))
    assert write_bundle(run, [], folder / "b.zip").files == noted["files"]
    with pytest.raises(ConfigError, match=f"{FACTORY} has changed since it was measured"):
        write_bundle(run, [], folder / "c.zip", code=True)
    assert not (folder / "c.zip").exists()


def test_a_file_that_changed_between_trials_is_in_no_bundle(folder):
    one, fast = of({"factory": FACTORY}), trial("fast", baseline=EAGER)
    results = (
        result(each, environment={"files": {FACTORY: digest * 32}})
        for each, digest in ((one, "ab"), (fast, "cd"))
    )
    run = write_run(folder / "run", *zip((one, fast), results, strict=True))
    with pytest.raises(ConfigError, match=f"{FACTORY} changed while the run went on"):
        write_bundle(run, [], folder / "b.zip")


def test_what_the_bundle_holds_is_read_where_it_was_unpacked(opened, folder):
    plan, names = unpacked(opened)
    model = plan.trials[0].spec["model"]
    assert model["factory"] == names[FACTORY]
    place = model["factory"].removesuffix(":make")
    assert place.startswith(str(folder / "into"))
    assert open(place).read() == "def make(): ...\n"  # noqa: PTH123, SIM115
    assert open(model["checkpoint"]).read() == "weights"  # noqa: PTH123, SIM115


def test_a_file_that_is_here_and_the_same_is_read_here(opened, folder):
    (folder / "net.py").write_text("def make(): ...\n")
    _, names = unpacked(opened)
    assert set(names) == {str(folder / "net.safetensors")}
    (folder / "net.py").write_text("def make(): pass\n")
    assert FACTORY in unpacked(opened)[1]


def test_code_of_a_bundle_needs_trust_in_the_bundle(opened, folder):
    plan, names = unpacked(opened)
    carried = {here: name for name, here in names.items()}
    path = folder / "b.zip"
    with trust.declared(["reproduce", str(path)]):
        with pytest.raises(ConfigError) as refused:
            refuse_untrusted(plan, path, carried)
        assert trust.refusal(names[FACTORY])
    assert str(refused.value).count("--trust") == 1
    assert f"{FACTORY}: the bundle holds this code" in str(refused.value)
    assert f"--trust {path}" in str(refused.value)
    with trust.declared(["reproduce", str(path), "--trust", str(path)]):
        refuse_untrusted(plan, path, carried)
        assert not trust.refusal(names[FACTORY])


def test_code_that_lies_here_needs_trust_as_in_a_recipe(folder):
    plan = plan_of(of({"factory": FACTORY}))
    with (
        trust.declared(["reproduce", "b.zip"]),
        pytest.raises(ConfigError, match=r"net\.py is code"),
    ):
        refuse_untrusted(plan, folder / "b.zip", {})
    with trust.declared(["reproduce", "b.zip", "--trust", "net.py"]):
        refuse_untrusted(plan, folder / "b.zip", {})


def found(files, *, first=EAGER, environment=None, across=(), plan=None):
    plan = repetition(plan or plan_of(first), HERE)
    stored = brief(first)
    stored = replace(stored, result=replace(result(first), environment=environment or {}))
    return obstacles([stored], plan, files, {"packages", *across})


def test_nothing_stands_in_the_way_on_the_same_machine(folder):
    assert found({}) == []


def test_files_that_are_missing_or_others_are_obstacles(folder):
    plan = plan_of(of({"factory": FACTORY}))
    assert found({"gone.npz": "ab" * 32}, plan=plan) == [
        "gone.npz is not here; it was measured with SHA-256 abababababababab"
    ]
    (other,) = found({FACTORY: "cd" * 32}, plan=plan)
    assert other.startswith(f"{FACTORY} has SHA-256 ")
    assert other.endswith("it was measured with cdcdcdcdcdcdcdcd")


def test_a_file_that_changed_since_a_stored_run_stands_in_its_way(folder, capsys):
    composer = Composer(config_loader())
    inputs = "model.inputs={x: {shape: [batch_size, 4], generator: normal}}"
    words = ["model=factory", f"model.factory={FACTORY}", inputs, "conversion=eager"]
    (one,) = plan_jobs(composer, composer.jobs(words), "p").plan.trials
    noted = {"files": {FACTORY: "ab" * 32}}
    run = write_run(folder / "run", (one, result(one, environment=noted)))
    assert main.run(["reproduce", str(run), "--trust", str(run)]) == 3
    printed = capsys.readouterr().out
    assert f"{FACTORY} has SHA-256 " in printed
    assert "Nothing was measured." in printed


def test_hardware_that_this_executor_does_not_reach_is_an_obstacle(folder):
    spec = {**EAGER.spec, "hardware": {**EAGER.spec["hardware"], "kind": "g5.xlarge"}}
    (reason,) = found({}, first=replace(EAGER, spec=spec))
    assert reason.startswith("hardware=g5.xlarge: ")


def test_a_variable_that_is_set_on_one_side_alone_is_an_obstacle(folder, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    monkeypatch.setattr(
        "benchorch.run.reproduce.repeat.describe_host",
        lambda: {"variables": {"MKL_NUM_THREADS": "3"}},
    )
    then = {"variables": {"OMP_NUM_THREADS": "2"}}
    assert found({}, environment=then, across=["threads"]) == [
        "environment.variables.OMP_NUM_THREADS: '2' then, '(not set)' now (--across system)",
        "environment.variables.MKL_NUM_THREADS: '(not set)' then, '3' now (--across system)",
    ]
    assert found({}, environment=then, across=["system"]) == []
    assert found({}, environment={"system": None}) == []


@pytest.mark.parametrize("key", ["model", "conversion", "limits", "parity", "workload"])
@pytest.mark.parametrize("value", [None, 5, "x", []])
def test_a_trial_of_a_strangers_that_makes_no_sense_is_refused_in_a_sentence(key, value) -> None:
    odd = {**EAGER.spec, key: value}
    missing = {name: node for name, node in EAGER.spec.items() if name != key}
    for spec in (odd, missing):
        with pytest.raises(ConfigError):
            refuse_unknown([replace(EAGER, spec=spec)])
