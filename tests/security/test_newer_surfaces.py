"""Attacks through endpoints, notebooks, the history's site, bundles, `init` and the gate."""

from __future__ import annotations

import json
import keyword
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.codec import encode
from benchorch.files import folder_digest
from benchorch.journal import run_directory
from benchorch.models.script_files import DEFINITIONS
from benchorch.results.compare import export
from benchorch.results.compare.load_run import derive, stored
from benchorch.run.reproduce.bundle import write_bundle
from security.bypass.planted import Evil
from support.command_lines import Commands, Done
from support.slices import one_in, only
from support.synthetic_runs import result, trial, write_run

SECRET = "hunter2-of-the-environment"
HEAD = "defaults: [config, override model: {model}, override recorder: none, _self_]\n"
X = "x: {shape: [1, 4], generator: normal}"


def attacked(commands: Commands, folder: Path, line: str, cpu_s: int = 20) -> Done:
    """The command's end, refused in a sentence; nothing lies beside the folder afterwards."""
    before = set(folder.parent.iterdir())
    done = commands.run(folder, line.split(), cpu_s, environment={**os.environ, "MINE": SECRET})
    assert set(folder.parent.iterdir()) == before
    assert "Traceback (most recent call last)" not in done.output, done.output
    assert done.code in (1, 2), done
    assert done.output.strip()
    assert SECRET not in done.output
    return done


@pytest.fixture
def run(tmp_path: Path) -> Path:
    eager = trial()
    return write_run(tmp_path / "run", (eager, result(eager)))


def endpoint(text: str) -> str:
    return (
        f"{HEAD.format(model='http')}"
        f"model: {{url: 'http://127.0.0.1:1/x', inputs: {{{X}}}, {text}}}\n"
        "matrix: {conversion: [eager]}\n"
    )


ANSWERS: dict[str, Callable[[Path], Any]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a deep line": lambda path: path.write_text('{"body": ' + "[" * 10**5 + "\n"),
    "a huge file": lambda path: (path.touch(), os.truncate(path, 2**40)),
}


@pytest.mark.parametrize("kind", only(("a pipe", "a device", "a huge file"), ANSWERS))
def test_recorded_answers_of_an_endpoint_are_a_small_file(
    kind: str, commands: Commands, folder: Path
) -> None:
    ANSWERS[kind](folder / "answers.jsonl")
    (folder / "theirs.yaml").write_text(endpoint("answers: answers.jsonl"))
    done = attacked(commands, folder, "plan theirs.yaml --trust http://127.0.0.1:1/x")
    assert "model.answers" in done.output


def test_a_strangers_recipe_sends_no_variable_to_an_endpoint(
    commands: Commands, folder: Path
) -> None:
    """Although its address is trusted: the recipe chose which variable goes there."""
    (folder / "theirs.yaml").write_text(endpoint("headers: {X: 'env:MINE'}"))
    done = attacked(commands, folder, "plan theirs.yaml --trust http://127.0.0.1:1/x")
    assert "model.headers.X" in done.output
    typed = f"plan theirs.yaml --trust {folder}/theirs.yaml"
    assert commands.run(folder, typed.split(), environment={**os.environ, "MINE": "x"}).code == 0


@pytest.mark.parametrize("text", one_in(2, ["x" * 100, ""]), ids=["of a text", "of nothing"])
@pytest.mark.parametrize(
    "case", only(("select", "mapping"), ("select", "nested", "decoded", "mapping"))
)
def test_references_whose_names_only_a_resolver_tells_do_not_multiply(
    case: str, text: str, commands: Commands, folder: Path
) -> None:
    at = "model.kwargs.a"
    steps: dict[str, Callable[[int], str]] = {
        "select": lambda n: repr(f"${{oc.select:{at}{n}}}" * 10),
        "nested": lambda n: repr(f"${{model.kwargs.${{model.kwargs.n{n}}}}}" * 10),
        "decoded": lambda n: repr(f"${{oc.decode:${{model.kwargs.q{n}}}}}" * 10),
        "mapping": lambda n: str(dict.fromkeys("pqrstuvwxy", f"${{oc.dict.values:{at}{n}}}")),
    }
    first = f"{{p: '{text}'}}" if case == "mapping" else repr(text)
    lines = ["model:", "  kwargs:", "    d: '$'", f"    a0: {first}"]
    for n in range(9):
        lines += [f"    n{n}: a{n}", f"    q{n}: '${{model.kwargs.d}}{{{at}{n}}}'"]
        lines.append(f"    a{n + 1}: {steps[case](n)}")
    (folder / "theirs.yaml").write_text(HEAD.format(model="mlp") + "\n".join(lines))
    attacked(commands, folder, "plan theirs.yaml conversion=eager", 30)


CELLS: dict[str, object] = {
    "a number for cells": 5,
    "a number for a source": [{"cell_type": "code", "source": 5}],
    "numbers in a source": [{"cell_type": "code", "source": [1, 2]}],
    "nul": [{"cell_type": "code", "source": "\0"}],
    "a deep expression": [{"cell_type": "code", "source": "-" * 10**5 + "1"}],
    "a deep call": [{"cell_type": "code", "source": "f(" * 10**4}],
    "a lone surrogate": [{"cell_type": "code", "source": "'\ud800'"}],
}


@pytest.mark.parametrize("case", one_in(3, CELLS))
def test_an_odd_notebook_is_refused(case: str, commands: Commands, folder: Path) -> None:
    (folder / "x.ipynb").write_text(json.dumps({"cells": CELLS[case]}))
    attacked(commands, folder, "script x.ipynb --analyze-only --no-sandbox")


@pytest.mark.parametrize(
    "text", one_in(2, [b"# coding: rot13\n", b"# coding: zip\n", b"-" * 10**5 + b"1"])
)
def test_an_odd_script_is_refused(text: bytes, commands: Commands, folder: Path) -> None:
    (folder / "x.py").write_bytes(text)
    attacked(commands, folder, "script x.py --analyze-only --no-sandbox")


def exported(run: Path) -> Any:
    text = export.text_of(export.to_json(stored(derive(run, "r"), "r")))
    return json.loads(text)


@pytest.mark.parametrize(
    "odd", one_in(3, ["../../../outside", "/tmp/../outside", "..", "a/b", "", "\x1b[2J", "x" * 300])
)
def test_an_exported_runs_id_names_no_file_outside_the_site(
    odd: str, commands: Commands, folder: Path, run: Path
) -> None:
    (folder / "theirs.json").write_text(json.dumps({**exported(run), "plan_id": odd}))
    attacked(commands, folder, "history theirs.json --output site")
    assert {path.name for path in folder.rglob("*")} <= {"theirs.json", "site", "runs"}


def test_an_exported_run_of_odd_labels_is_refused(
    commands: Commands, folder: Path, run: Path
) -> None:
    content = exported(run)
    content["trials"][0]["labels"]["model"] = ["</script>"]
    (folder / "theirs.json").write_text(json.dumps(content))
    attacked(commands, folder, "compare theirs.json theirs.json")


def test_a_sites_page_that_is_a_link_is_replaced_and_not_written_through(
    commands: Commands, folder: Path, run: Path
) -> None:
    victim = folder.parent / "victim"
    victim.write_text("mine")
    (folder / "site").mkdir()
    (folder / "site" / "index.html").symlink_to(victim)
    done = commands.run(folder, ["history", str(run), "--output", "site"])
    assert done.code == 0, done.output
    assert victim.read_text() == "mine"


def test_names_of_a_run_that_is_opened_are_no_markup(
    commands: Commands, folder: Path, tmp_path: Path
) -> None:
    odd = "</script><img src=x onerror=alert(1)>"
    eager = trial(labels={"model": odd})
    run = write_run(tmp_path / "odd", (eager, result(eager)))
    done = commands.run(folder, ["open", str(run), "--no-browser"])
    assert done.code == 0, done.output
    assert odd not in (run / "report.html").read_text()
    assert "<img" not in (run / "report.html").read_text()


def odd_bundle(sound: Path, change: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(sound) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    path = sound.with_name("odd.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path.read_bytes()


BUNDLES: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "a deep manifest": lambda m: m.update({"bundle.json": b"[" * 10**5}),
    "a manifest that is a list": lambda m: m.update({"bundle.json": b"[1]"}),
    "a member elsewhere": lambda m: m.update({"run/trials/../../../outside": b"x"}),
    "a member of a folder above": lambda m: m.update({"run/trials/../log.txt": b"x"}),
    "a hidden member": lambda m: m.update({"run/trials/.git/config": b"x"}),
    "a library": lambda m: m.update({"run/evil.so": b"x"}),
    "a member that expands": lambda m: m.update({"README.md": bytes(2**28)}),
}


@pytest.mark.parametrize("case", one_in(2, BUNDLES))
def test_an_odd_bundle_is_refused(
    case: str, commands: Commands, folder: Path, run: Path, tmp_path: Path
) -> None:
    write_bundle(run, [], tmp_path / "sound.zip")
    (folder / "odd.zip").write_bytes(odd_bundle(tmp_path / "sound.zip", BUNDLES[case]))
    attacked(commands, folder, "reproduce odd.zip")


def test_a_bundles_factory_is_not_called(commands: Commands, folder: Path, tmp_path: Path) -> None:
    model = {
        "_target_": "benchorch.models.factory.FactoryModel",
        "factory": "psutil:Popen",
        "arguments": {"args": f"touch {folder.parent}/marker", "shell": True},
        "inputs": {"x": {"shape": [1, 4], "generator": "normal"}},
    }
    eager = trial(model=model)
    run = write_run(tmp_path / "evil", (eager, result(eager)))
    write_bundle(run, [], folder / "evil.zip")
    attacked(commands, folder, "reproduce evil.zip", 60)


@pytest.mark.parametrize("name", ["module", "file"])
def test_what_init_is_given_stays_in_one_line_of_the_recipe(
    name: str, commands: Commands, folder: Path
) -> None:
    odd = "mine.py:make\nexecutor: {address: 'http://127.0.0.1:1'}"
    module, file = (odd, "r.yaml") if name == "module" else ("torch.nn:Identity", f"{odd}.yaml")
    words = ["init", file, "--module", module, "--input", "x=batch_size,4", "--json"]
    done = commands.run(folder, words)
    assert "Traceback (most recent call last)" not in done.output, done.output
    for recipe in folder.rglob("*.yaml"):
        assert not any(line.startswith("executor:") for line in recipe.read_text().splitlines())


@pytest.mark.parametrize("group", one_in(3, ["model", "conversion", "hardware"]))
def test_a_pipe_among_a_strangers_options_is_not_waited_for(
    group: str, commands: Commands, folder: Path
) -> None:
    (folder / "conf" / group).mkdir(parents=True)
    os.mkfifo(folder / "conf" / group / "evil.yaml")
    line = f"plan model=mlp conversion=evil+eager hardware=x {group}=y --config-dir conf"
    words = [word for word in line.split() if not word.startswith(f"{group}=") or word[-1] == "y"]
    attacked(commands, folder, " ".join(words))


def test_a_gates_baseline_with_pipes_and_depths_is_refused(
    commands: Commands, folder: Path, run: Path
) -> None:
    (folder / "runs" / "one").mkdir(parents=True)
    os.mkfifo(folder / "runs" / "one" / run_directory.PLAN)
    (folder / "runs" / "deep.json").write_text('{"format": "benchorch run", "x": ' + "[" * 10**5)
    attacked(commands, folder, f"gate --baseline runs --candidate {run}")


def test_an_endpoints_answer_of_any_depth_is_bytes() -> None:
    pytest.importorskip("torch")
    from benchorch.models.architectures.endpoint import decoded

    found: Any = decoded(b"[" * 10**5)
    assert found["text"].numel() == 10**5


def test_a_plans_results_are_no_json_of_another_kind(
    commands: Commands, folder: Path, run: Path
) -> None:
    text = json.dumps(encode({"format": "benchorch run", "schema_version": 1, "plan_id": 5}))
    (folder / "theirs.json").write_text(text)
    attacked(commands, folder, "report theirs.json")


def test_a_source_bundle_is_not_trusted_by_a_link_to_installed_code(
    commands: Commands, folder: Path
) -> None:
    """Its pickle would run although nobody trusts the folder."""
    (folder / "bundle").mkdir()
    (folder / "bundle" / DEFINITIONS).symlink_to(keyword.__file__)
    (folder / "bundle" / "module.pkl").write_bytes(pickle.dumps(Evil(folder.parent / "marker")))
    (folder / "bundle" / "tensors.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    node = {
        "_target_": "benchorch.models.bundled.BundledModel",
        "bundle": "bundle",
        "source": f"bundle/{DEFINITIONS}",
        "digest": folder_digest(folder / "bundle"),
        "inputs": {"x": {"shape": [1, 4], "generator": "normal"}},
    }
    (folder / "evil.yaml").touch()
    done = commands.run(folder, ["evil.yaml"], model=node)
    assert not (folder.parent / "marker").exists()
    assert done.output.startswith("refused:"), done.output[-2000:]
