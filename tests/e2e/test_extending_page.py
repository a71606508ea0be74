"""The package that the page about extending shows is installed, and its commands are run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.slices import only

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "developing" / "extending.md").read_text()
FILES = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for block in CONSOLE for line in block.splitlines()]
WORDS = [words[3:] for words in COMMANDS]
LONG = [words for words in WORDS if words[0].startswith("model=") and "[" in words[1]]
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["protocol.pairing=none", "protocol.canary_tolerance_ratio=null", "hydra.run.dir=out"]
FAST += ["executor=inline"]


@pytest.fixture(scope="module")
def site(tmp_path_factory, install):
    """A folder into which the page's package is installed."""
    source = tmp_path_factory.mktemp("extending")
    for name, content in FILES:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return install(source)


@pytest.fixture
def extended(tmp_path, site, make_place):
    return make_place(tmp_path, site=site)


def test_the_families_that_people_extend_most_have_an_example():
    families = {word.partition("=")[0] for words in COMMANDS for word in words}
    assert {"conversion", "model", "scenario", "profiler", "recorder", "hardware"} <= families


@pytest.mark.parametrize("words", only(lambda words: words not in LONG, WORDS), ids=" ".join)
def test_a_command_of_the_page_works(extended, words):
    if words[0] == "conversions":
        assert "Linear layers without their smallest weights" in extended.run(*words).stdout
        return
    if words[0] == "plan":
        assert " 0 skips" in extended.run(*words).stdout
        return
    chosen = {word.partition("=")[0] for word in words}
    quiet = [f"{group}=none" for group in ("profiler", "recorder") if group not in chosen]
    extended.run(*words, *quiet, *FAST)
    results = extended.results("out")
    assert {result["outcome"] for result in results} == {"ok"}
    assert all(result["parity"]["passed"] for result in results)
    if "profiler" in chosen:
        assert all(result["profile"]["bottleneck"] for result in results)
    if "recorder" in chosen:
        rows = (extended.path / "my_results.csv").read_text().splitlines()
        assert [row.split(",")[0] for row in rows] == [each["trial_id"] for each in results]


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_a_long_run_of_the_page_can_be_planned(extended, words):
    assert " 0 skips" in extended.run("plan", *words).stdout


FOLDERS = {
    "pruning": "conversions",
    "autoencoder": "models",
    "paced": "scenarios",
    "operators_only": "profilers",
    "csv_file": "recorders",
}
"""Where the page's modules are in a repository that has them as its own."""


@pytest.fixture
def pasted(tmp_path):
    """A copy of the repository with the page's files as its own."""
    for folder in ("src", "conf", "recipes", "infra", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")  # where others write meanwhile
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, content in FILES:
        inside = Path(name)
        if inside.suffix == ".yaml":
            place = tmp_path / Path(*inside.parts[2:])
        elif inside.stem in FOLDERS:
            place = tmp_path / "src" / "benchorch" / FOLDERS[inside.stem] / inside.name
        else:
            continue
        assert not place.exists()
        for stem, folder in FOLDERS.items():
            content = content.replace(f"my_extension.{stem}", f"benchorch.{folder}.{stem}")
        place.write_text(content.replace(' "my-extension")', ")"))
    return tmp_path


@pytest.mark.slow
def test_the_members_of_the_page_pass_the_suites_that_it_names(pasted):
    chosen = "pruned or autoencoder or paced or operators_only or csv or workstation"
    suites = ["tests/contract", "tests/architecture/test_families.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *suites,
        "-k",
        chosen,
        "-p",
        "no:cacheprovider",
    ]
    found = subprocess.run(
        command, cwd=pasted, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout[-3000:]
