from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.cli import main
from benchorch.cli.command import Command
from benchorch.cli.commands import cache
from benchorch.cli.commands.cache_explain import flatten
from benchorch.domain.artifact import BuildKey, Format
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import BuildError, ConfigError, StoreError
from benchorch.stores.local import LocalStore
from benchorch.trial.identity_stamps import Stamps


def fields(**changed: Json) -> dict[str, Json]:
    step = {"_target_": "benchorch.conversions.onnx_export.OnnxExport", "opset": 20, "version": 1}
    return {
        "model": {"name": "mlp"},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 64]}],
        "steps": [step],
        "packages": {"torch": "2.12.0", "onnx": "1.19.0"},
        **changed,
    }


def write(out: Path) -> None:
    (out / "model.onnx").write_bytes(bytes(2048))


def refuse(out: Path) -> None:
    raise BuildError("operator 'aten::foo' is not known,\nnot even in opset 20")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(root=str(tmp_path / "cache"))


@pytest.fixture
def built(store: LocalStore) -> list[str]:
    """Three keys: one, the same with a newer torch, and one that failed."""
    keys = [
        BuildKey(fields=fields()),
        BuildKey(fields=fields(packages={"torch": "2.13.0", "onnx": "1.19.0"})),
        BuildKey(fields=fields(model={"name": "odd"}, dynamic=["batch_size"])),
    ]
    for key in keys[:2]:
        store.build(key, format=Format.ONNX, name="mlp onnx", make=write)
    with pytest.raises(BuildError):
        store.build(keys[2], format=Format.ONNX, name="odd onnx", make=refuse)
    return [key.digest for key in keys]


def run(words: Sequence[str], store: LocalStore, answer: str = "no") -> Reply:
    command = cast(Command, cache.run.commands[words[0]])
    return command.reply(words[1:], {cache.STORE: store}, question=lambda _: answer)


def refused(words: Sequence[str], store: LocalStore) -> str:
    with pytest.raises(ConfigError) as error:
        run(words, store)
    return str(error.value)


def records(reply: Reply) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", reply.data)


def mapping(reply: Reply) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", reply.data)


def test_list_shows_everything_newest_first(store: LocalStore, built: list[str]) -> None:
    reply = run(["list"], store)
    header, *lines, total = reply.text.splitlines()
    assert header.split() == ["key", "state", "size", "build", "created", "(UTC)", "name"]
    assert [line.split()[0] for line in lines] == [key[:12] for key in reversed(built)]
    assert [line.split()[1] for line in lines] == ["failed", "complete", "complete"]
    assert len({line.index("onnx") for line in lines}) == 1
    assert total == "3 builds, 4.0 KiB"
    assert [record["artifact"]["key"] for record in records(reply)] == built[::-1]


def test_a_new_store_says_so(store: LocalStore) -> None:
    for word in ("list", "report"):
        assert run([word], store) == Reply(text="Nothing was built yet.", data=[])
    nothing: Json = {"builds": [], "models": []}
    assert run(["explain"], store) == Reply(text="Nothing was built yet.", data=nothing)


def test_show_tells_all_of_one_build(store: LocalStore, built: list[str]) -> None:
    reply = run(["show", built[1][:8]], store)
    assert built[1] in reply.text
    assert "model.onnx (2.0 KiB)" in reply.text
    assert '"torch": "2.13.0"' in reply.text
    [record] = records(reply)
    assert record["files"] == {"model.onnx": 2048}


def test_show_tells_why_a_build_failed(store: LocalStore, built: list[str]) -> None:
    reply = run(["show", built[2]], store)
    assert "aten::foo" in reply.text
    assert reply.exit_code == 0


def test_a_key_with_a_slip_is_met_with_the_one_that_was_meant(
    store: LocalStore, built: list[str]
) -> None:
    wrong = ("0" if built[0][0] != "0" else "1") + built[0][1:9]
    assert f"Did you mean {built[0][:12]!r} (mlp onnx)?" in refused(["show", wrong], store)


@pytest.mark.parametrize("key", ["zzzz", ""])
def test_a_key_like_no_other_is_met_with_where_to_look(
    store: LocalStore, built: list[str], key: str
) -> None:
    assert "cache list" in refused(["delete", key], store)
    assert len(store.entries()) == 3


def test_a_beginning_of_several_keys_lists_them(store: LocalStore) -> None:
    keys = [BuildKey(fields={"n": number}) for number in range(17)]
    for key in keys:  # seventeen keys, sixteen digits: two begin alike
        store.build(key, format=Format.ONNX, name=f"mlp {key.fields['n']}", make=write)
    first = [key.digest[0] for key in keys]
    shared = next(digit for digit in first if first.count(digit) > 1)
    told = refused(["delete", shared], store)
    alike = {key.digest for key in keys if key.digest.startswith(shared)}
    assert f"begins {len(alike)} keys" in told
    assert all(key[:12] in told for key in alike)
    assert len(store.entries()) == 17


def test_explain_names_the_field_that_made_it_another_build(
    store: LocalStore, built: list[str]
) -> None:
    reply = run(["explain", built[1]], store)
    assert "A hit" in reply.text
    assert "  packages.torch: '2.12.0' -> '2.13.0'" in reply.text.splitlines()
    assert "  steps[0].opset: 20" in reply.text.splitlines()
    assert mapping(reply)["hit"] is True
    assert mapping(reply)["compared_with"] == built[0]
    assert mapping(reply)["differences"] == {
        "packages.torch": {"before": "2.12.0", "after": "2.13.0"}
    }


def test_explain_without_a_key_compares_the_newest_of_each_name(
    store: LocalStore, built: list[str]
) -> None:
    reply = run(["explain"], store)
    assert "mlp onnx: 2 builds" in reply.text
    assert "packages.torch: '2.12.0' -> '2.13.0'" in reply.text
    assert "odd onnx: 1 build\n" in reply.text
    builds = mapping(reply)["builds"]
    assert isinstance(builds, list)
    assert [record["name"] for record in builds] == ["odd onnx", "mlp onnx"]
    assert mapping(reply)["models"] == []


def test_explain_tells_programs_too_which_models_are_known(
    store: LocalStore, built: list[str]
) -> None:
    folder = store.stamps()
    assert folder is not None
    stamps = Stamps(folder=folder)
    asked = {"identity": {"asked": {"factory": "zoo:made"}}}
    request: dict[str, Json] = {"model": "zoo:made"}
    untracked = ["its code uses time"]
    stamps.take(request, asked["identity"], consulted={}, untracked=untracked, environment={})
    reply = run(["explain"], store)
    assert "zoo:made: " in reply.text
    ((told,),) = [mapping(reply)["models"]]
    assert told["model"] == "zoo:made"
    assert "its code uses time" in told["verdict"]


def test_explain_says_what_is_never_a_hit(store: LocalStore) -> None:
    consulted: dict[str, Json] = {"never": {"it starts a process": "f00d"}}
    key = BuildKey(fields={**fields(), "consulted": consulted})
    store.build(key, format=Format.ONNX, name="mlp onnx", make=write)
    text = run(["explain", key.digest], store).text
    assert "Never a hit in another invocation: its calls consult" in text
    assert "(it starts a process)" in text


def test_explain_says_that_a_failure_is_no_hit(store: LocalStore, built: list[str]) -> None:
    reply = run(["explain", built[2]], store)
    assert "A miss: failed" in reply.text
    assert mapping(reply)["hit"] is False


def test_explain_looks_at_the_bytes(store: LocalStore, built: list[str]) -> None:
    Path(store.root, "artifacts", built[0], "files", "model.onnx").write_bytes(bytes(5))
    assert "verification failed" in run(["explain", built[0]], store).text
    assert "has 5 bytes instead of 2048" in run(["explain", built[0]], store).text


def test_a_failure_and_a_success_of_one_key_are_one_build(store: LocalStore) -> None:
    key = BuildKey(fields=fields())
    store.build(key, format=Format.ONNX, name="mlp onnx", make=write)
    with pytest.raises(BuildError):
        store.build(key, format=Format.ONNX, name="mlp onnx", make=refuse, force=True)
    assert "mlp onnx: 1 build\n" in run(["explain"], store).text
    assert mapping(run(["explain", key.digest], store))["hit"] is True
    assert [record["state"] for record in records(run(["show", key.digest], store))] == [
        "failed",
        "complete",
    ]


def test_fields_are_told_apart_by_value_and_by_kind() -> None:
    flat = flatten({"a": {"b": [1, {"c": None}], "empty": {}, "none": []}, "d": "text"})
    assert flat == {"a.b[0]": 1, "a.b[1].c": None, "a.empty": {}, "a.none": [], "d": "text"}


def test_a_one_and_a_true_are_two_builds(store: LocalStore) -> None:
    for value in (1, True):
        key = BuildKey(fields={"flag": value})
        store.build(key, format=Format.ONNX, name="mlp", make=write)
    assert "flag: 1 -> True" in run(["explain"], store).text


def test_delete_takes_one_build_by_its_beginning(store: LocalStore, built: list[str]) -> None:
    reply = run(["delete", built[0][:10].upper()], store)
    assert reply == Reply(text="Deleted 1 build, 2.0 KiB.", data={"deleted": [built[0]]})
    assert store.find(built[0]) is None
    assert store.find(built[1])


def test_delete_of_everything_asks_first(store: LocalStore, built: list[str]) -> None:
    told = refused(["delete", "--all"], store)
    assert "3 builds, 4.0 KiB" in told
    assert "--yes" in told
    assert len(store.entries()) == 3
    assert run(["delete", "--all", "--yes"], store).exit_code == 0
    assert store.entries() == []


@pytest.mark.parametrize("words", [["delete"], ["delete", "0" * 64, "--all", "--yes"]])
def test_delete_wants_a_key_or_all(store: LocalStore, built: list[str], words: list[str]) -> None:
    assert "either a KEY or --all" in refused(words, store)
    assert len(store.entries()) == 3


def test_a_build_that_is_going_on_is_not_deleted(store: LocalStore, built: list[str]) -> None:
    def meanwhile(out: Path) -> None:
        write(out)
        with pytest.raises(StoreError, match="being built now"):
            run(["delete", built[0]], store)

    key = BuildKey(fields=fields())
    store.build(key, format=Format.ONNX, name="mlp onnx", make=meanwhile, force=True)
    assert store.find(built[0])


def test_report_has_a_row_a_build_and_every_column(
    store: LocalStore, built: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "builds.csv"
    reply = run(["report", "--csv", str(path)], store)
    assert reply.text == f"Wrote 3 rows to {path}."
    with path.open(newline="") as file:
        rows = {row["key"]: row for row in csv.DictReader(file)}
    assert list(rows) == built[::-1]
    newer, failed = rows[built[1]], rows[built[2]]
    assert newer["packages.torch"] == "2.13.0"
    assert (newer["steps"], newer["size_bytes"]) == ("OnnxExport", "2048")
    assert float(newer["build_s"]) >= 0
    assert (newer["dynamic[0]"], failed["dynamic[0]"]) == ("", "batch_size")
    assert (failed["state"], failed["name"]) == ("failed", "odd onnx")
    assert "aten::foo" in failed["error"]


def test_report_for_a_terminal_keeps_each_build_on_a_line(
    store: LocalStore, built: list[str]
) -> None:
    reply = run(["report"], store)
    header, *lines = reply.text.splitlines()
    assert header.startswith("key")
    assert len(lines) == 3
    assert "torch 2.13.0, onnx 1.19.0" in lines[1]
    assert "aten::foo" in lines[0]


def test_a_chain_without_steps_has_an_empty_cell(store: LocalStore) -> None:
    key = BuildKey(fields=fields(steps=[]))
    store.build(key, format=Format.REFERENCE, name="mlp reference", make=write)
    assert records(run(["report"], store))[0]["steps"] == ""


def test_report_to_a_place_that_cannot_be_is_refused(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = refused(["report", "--output", str(tmp_path / "file" / "builds.csv")], store)
    assert "cannot be written" in told


def test_location_is_a_path_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    reply = run(["location"], LocalStore(root="~/kept"))
    assert reply == Reply(text=f"{tmp_path}/kept", data={"root": f"{tmp_path}/kept"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "Did you mean 'list'?"),
        (["show"], "missing argument 'KEY'"),
        (["list", "--everything"], "--everything"),
        (["list", "surplus"], "surplus"),
        (["report", "--csv"], "--output"),
    ],
    ids=" ".join,
)
def test_words_that_make_no_sense_are_answered_with_the_help_to_type(
    words: list[str], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        main.run(["cache", *words])
    assert said in str(error.value)
    assert error.value.next.startswith("benchorch cache")


@pytest.mark.parametrize("words", [[], ["--help"], ["explain", "-h"]], ids=" ".join)
def test_help_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cache", *words]) == 0
    assert "Usage: benchorch cache" in capsys.readouterr().out


COMMANDS: list[Callable[[str], list[str]]] = [
    lambda key: ["list"],
    lambda key: ["show", key],
    lambda key: ["explain"],
    lambda key: ["explain", key],
    lambda key: ["report"],
    lambda key: ["location"],
    lambda key: ["delete", key],
]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_answer_is_json_too(
    store: LocalStore, built: list[str], words: Callable[[str], list[str]]
) -> None:
    reply = run(words(built[2]), store)
    assert json.loads(json.dumps(reply.data)) == reply.data


def test_a_ruined_entry_does_not_hide_the_others(store: LocalStore, built: list[str]) -> None:
    Path(store.root, "artifacts", built[0], "manifest.json").write_text("{")
    for words in (["list"], ["explain"], ["report"], ["show", built[0]], ["explain", built[0]]):
        reply = run(words, store)
        assert reply.exit_code == 0
        assert built[0][:12] in reply.text


def test_nothing_heavy_is_imported(store: LocalStore, built: list[str]) -> None:
    script = """
import sys
from benchorch.cli.commands import cache
from benchorch.stores.local import LocalStore
for word in ("list", "explain", "report"):
    command = cache.run.commands[word]
    assert command.reply([], {cache.STORE: LocalStore(root=sys.argv[1])}).exit_code == 0
print(sorted({"torch", "numpy", "rich", "hydra", "omegaconf", "mlflow", "ray"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script, store.root]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


PAGE = Path(__file__).resolve().parents[4] / "docs" / "cloud" / "cache.md"
ON_THE_PAGE = [
    line.partition(" #")[0].removeprefix("python -m benchorch cache ").split()
    for line in PAGE.read_text().splitlines()
    if line.startswith("python -m benchorch cache ")
]


@pytest.mark.parametrize("words", ON_THE_PAGE, ids=" ".join)
def test_every_command_of_the_documentation_works(
    store: LocalStore,
    built: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    own = [word for word in words if "=" not in word]  # overrides say which store it is
    reply = run([built[0] if word == "KEY" else word for word in own], store, "yes")
    assert (reply.exit_code, bool(reply.text)) == (0, True)


def test_trim_drops_down_to_the_quota_and_remembers_what(
    store: LocalStore, built: list[str]
) -> None:
    assert "quota_gib" in run(["trim"], store).text
    lean = LocalStore(root=store.root, quota_gib=0)
    assert mapping(run(["trim"], lean))["dropped"]
    told = records(run(["list"], lean))
    assert "complete" not in {each["state"] for each in told}
    assert "dropped" in {each["state"] for each in told}
