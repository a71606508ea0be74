"""File transfer between machines without a shared file system."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.executors.scheduling import file_transfer
from benchorch.executors.scheduling.file_transfer import (
    FolderContent,
    ShippedFiles,
    collect_files,
    read_folder,
    write_folder,
)


def test_a_folder_arrives_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "profile").mkdir(parents=True)
    (there / "log.txt").write_text("hello")
    (there / "profile" / "trace.json").write_bytes(b"\0\1")
    write_folder(read_folder(there), tmp_path / "here")
    assert (tmp_path / "here" / "log.txt").read_text() == "hello"
    assert (tmp_path / "here" / "profile" / "trace.json").read_bytes() == b"\0\1"


def test_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    import os

    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("of the node")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    assert read_folder(folder) == FolderContent()


def test_files_that_are_too_large_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 10)
    (tmp_path / "large").write_bytes(b"x" * 100)
    content = read_folder(tmp_path, most_bytes=50)
    assert (list(content.files), content.left_out) == (["small"], ("large",))


@pytest.mark.parametrize(
    "name", ["../out", "/etc/out", "a/../../out", "", "..", "a\\..\\out", "a\0b", "."]
)
def test_a_name_that_leads_out_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ValueError, match="leads out"):
        write_folder(FolderContent(files={"fine": b"", name: b"evil"}), folder)
    assert list(tmp_path.rglob("*")) == [folder]


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "way").symlink_to(outside)
    (folder / "file").symlink_to(outside / "file")
    for name in ("way/out", "file"):
        with pytest.raises(ValueError, match="by a link"):
            write_folder(FolderContent(files={name: b"evil"}), folder)
    assert list(outside.iterdir()) == []


@given(name=st.text(st.sampled_from("ab./\\\0"), max_size=8))
def test_whatever_the_name_nothing_lands_outside(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("root")
    folder = root / "in" / "folder"
    folder.mkdir(parents=True)
    with contextlib.suppress(ValueError, OSError):
        write_folder(FolderContent(files={name: b"x"}), folder)
    written = [path for path in root.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(folder) for path in written)


def session(tmp_path: Path) -> Session:
    (tmp_path / "run").mkdir(exist_ok=True)
    return Session(
        plan_id="p",
        directory=tmp_path / "run",
        store={},
        rebuild="if_needed",
        search_path=(str(tmp_path / "home"),),
    )


def trial(**spec: Any) -> Trial:
    return Trial(trial_id="t", labels={}, spec=spec)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "zoo.py").write_text("import helpers\nfrom parts.layers import Layer\nimport torch\n")
    (home / "helpers.py").write_text("import json\n")
    (home / "parts").mkdir()
    (home / "parts" / "__init__.py").write_text("")
    (home / "parts" / "layers.py").write_text("class Layer: ...\n")
    (home / "diary.py").write_text("nobody's business\n")
    (home / "weights.safetensors").write_bytes(b"w")
    return home


def names(shipped: ShippedFiles, home: Path) -> set[str]:
    root = home.as_posix().lstrip("/") + "/"
    return {name.removeprefix(root) for name in shipped.content.files}


@pytest.mark.parametrize("factory", ["zoo.py:make", "zoo:make", "zoo.make"])
def test_a_factory_is_shipped_with_what_it_imports_and_nothing_else(
    tmp_path: Path, home: Path, factory: str
) -> None:
    found = collect_files(session(tmp_path), [trial(model={"factory": factory})], "probe")
    modules = {"zoo.py", "helpers.py", "parts/__init__.py", "parts/layers.py"}
    assert names(found, home) == modules


def test_files_and_folders_that_are_named_are_shipped(tmp_path: Path, home: Path) -> None:
    asked = session(tmp_path)
    program = asked.directory / "model"
    program.mkdir()
    (program / "program.pt2").write_bytes(b"p")
    spec = trial(model={"program": str(program), "checkpoint": "./weights.safetensors"})
    content = collect_files(asked, [spec], "probe").content
    assert {Path("/") / name for name in content.files} == {
        program / "program.pt2",
        home / "weights.safetensors",
    }


def test_links_are_shipped_as_the_files_that_they_lead_to(tmp_path: Path, home: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", home / "snapshot"
    for folder in (blobs, snapshot / "onnx"):
        folder.mkdir(parents=True)
    (blobs / "1a").write_bytes(b"w")
    (home / "weights.pt").symlink_to(blobs / "1a")
    (snapshot / "onnx" / "model.onnx").symlink_to(blobs / "1a")
    (snapshot / "dangling").symlink_to(blobs / "2b")
    (home / "latest").symlink_to(snapshot)
    (home / "parts" / "linked.py").symlink_to(home / "helpers.py")
    spec = trial(model={"checkpoint": "./weights.pt", "path": "./latest", "factory": "parts:Net"})
    content = collect_files(session(tmp_path), [spec], "probe").content
    root = home.as_posix().lstrip("/")
    assert content.files[f"{root}/weights.pt"] == b"w"
    assert content.files[f"{root}/latest/onnx/model.onnx"] == b"w"
    assert content.files[f"{root}/parts/linked.py"] == b"import json\n"
    assert not [name for name in content.files if "blobs" in name or "dangling" in name]


@pytest.mark.parametrize("word", ["zoo", "parts", ".", "..", "./", "float32", "diary", "a." * 400])
def test_plain_words_and_the_working_directory_name_no_file(
    tmp_path: Path, home: Path, word: str
) -> None:
    assert names(collect_files(session(tmp_path), [trial(name=word)], "n"), home) == set()


def test_too_much_is_refused_with_the_largest(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_transfer, "MAX_THERE_BYTES", 10)
    (home / "huge.bin").write_bytes(b"x" * 100)
    with pytest.raises(ConfigError, match=r"the largest is .*huge\.bin"):
        collect_files(session(tmp_path), [trial(checkpoint="./huge.bin")], "probe")


def test_a_node_that_shares_the_directory_sees_the_probe_file(tmp_path: Path) -> None:
    shipped = ShippedFiles(directory=tmp_path, probe=".seen-1")
    assert not shipped.is_visible()
    (tmp_path / ".seen-1").touch()
    assert shipped.is_visible()


def test_shipped_files_are_written_to_their_own_paths(tmp_path: Path) -> None:
    path = tmp_path / "home" / "zoo.py"
    content = FolderContent(files={path.as_posix().lstrip("/"): b"x = 1"})
    shipped = ShippedFiles(
        directory=tmp_path / "run", probe="n", working_directory=path.parent, content=content
    )
    shipped.write()
    shipped.write()
    assert path.read_bytes() == b"x = 1"
    assert (tmp_path / "run").is_dir()


def test_a_file_of_the_nodes_own_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "zoo.py"
    path.write_text("the node's own")
    content = FolderContent(files={path.as_posix().lstrip("/"): b"ours"})
    with pytest.raises(FileExistsError, match="differs from the shipped file"):
        ShippedFiles(directory=tmp_path, probe="n", content=content).write()
    assert path.read_text() == "the node's own"
