"""The wheel is enough: installed elsewhere it has its configuration and answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
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
