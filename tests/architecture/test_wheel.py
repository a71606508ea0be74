"""The wheel is enough: installed elsewhere it has its configuration and answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(
    *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    ours = {key: text for key, text in os.environ.items() if not key.startswith("COVERAGE_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**ours, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    options = ["--wheel", "--no-isolation", "--outdir", str(directory)]
    built = run("-m", "build", *options, str(ROOT), cwd=directory)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(directory.glob("*.whl"))


def test_the_source_distribution_holds_the_stack(tmp_path: Path) -> None:
    options = ["--sdist", "--no-isolation", "--outdir", str(tmp_path)]
    built = run("-m", "build", *options, str(ROOT), cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folder = ROOT / "infra" / "terraform"
    stack = [path for path in folder.rglob("*") if path.suffix in {".tf", ".hcl", ".tftpl", ".sh"}]
    here = {path.relative_to(ROOT).as_posix() for path in stack if ".terraform" not in path.parts}
    assert len(here) >= 10
    assert here <= held
    assert "Makefile" in held


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--target", str(directory)]
    finished = run("-m", "pip", "install", *options, str(wheel), cwd=directory)
    assert finished.returncode == 0, finished.stderr
    return directory


@pytest.mark.parametrize("folder", ["conf", "recipes"])
def test_the_wheel_carries_every_yaml_and_schema(wheel: Path, folder: str) -> None:
    files = [path for kind in ("yaml", "json") for path in (ROOT / folder).rglob(f"*.{kind}")]
    here = {path.relative_to(ROOT).as_posix() for path in files}
    carried = set(zipfile.ZipFile(wheel).namelist())
    assert {f"benchorch/{name}" for name in here} <= carried


def test_the_wheel_carries_templates_style_sheets_and_scripts(wheel: Path) -> None:
    source = ROOT / "src"
    suffixes = {".j2", ".css", ".js"}
    here = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.suffix in suffixes}
    assert len(here) >= 6
    assert here <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_carries_its_licence_and_its_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "benchorch/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_version_comes_from_one_place(wheel: Path) -> None:
    import benchorch

    assert wheel.name.startswith(f"benchorch-{benchorch.__version__}-")


def test_an_image_is_built_from_all_that_the_wheel_holds(wheel: Path, tmp_path: Path) -> None:
    """Docker is not needed: .dockerignore names what a build copies."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    named = [line[1:] for line in lines if line.startswith("!")]
    assert lines.count("*") == 1  # nothing else is copied
    context = tmp_path / "context"
    for name in named:
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            compiled = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, context / name, ignore=compiled)
        else:
            shutil.copy(ROOT / name, context / name)
    options = ["--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    built = run("-m", "build", *options, str(context), cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (copied,) = tmp_path.glob("*.whl")
    assert {*zipfile.ZipFile(copied).namelist()} == {*zipfile.ZipFile(wheel).namelist()}


def test_an_image_copies_and_runs_what_exists() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = [
        name
        for line in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {one for part in re.findall(r"'\.\[(.+)\]'", dockerfile) for one in part.split(",")}
    assert asked == {"all", "nvidia"}
    assert asked <= {*project["optional-dependencies"]}
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    target = devcontainer["postCreateCommand"].split()[-1].replace(".venv", "$(VENV)")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize(
    "command", [["--help"], ["--cfg", "job"], ["plan", "model=bert_tiny", "--json"]], ids=" ".join
)
def test_an_installed_wheel_answers_far_from_the_checkout(
    installed: Path, tmp_path: Path, command: list[str]
) -> None:
    elsewhere = {"PYTHONPATH": str(installed)}
    where = run(
        "-c", "import benchorch; print(benchorch.__file__)", cwd=tmp_path, environment=elsewhere
    )
    assert where.stdout.startswith(str(installed))
    finished = run("-m", "benchorch", *command, cwd=tmp_path, environment=elsewhere)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert str(ROOT) not in finished.stdout
