"""The package that the page about extending shows is installed, and its commands are run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "developing" / "extending.md").read_text()
FILES = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for block in CONSOLE for line in block.splitlines()]
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["protocol.pairing=none", "protocol.canary_tolerance_ratio=null", "hydra.run.dir=out"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the page's package is installed as a wheel."""
    directory = tmp_path_factory.mktemp("extending")
    for name, content in FILES:
        path = directory / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", directory / "site", directory / "source"]
    subprocess.run(command, check=True, timeout=300)
    return directory / "site"


def test_the_families_that_people_extend_most_have_an_example():
    families = {word.partition("=")[0] for words in COMMANDS for word in words}
    assert {"conversion", "model", "scenario", "profiler", "recorder", "hardware"} <= families


@pytest.mark.parametrize("words", [words[3:] for words in COMMANDS], ids=" ".join)
def test_a_command_of_the_page_works(place, site, monkeypatch, words):
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), known])))
    if words[0] == "conversions":
        assert "Linear layers without their smallest weights" in place.run(*words).stdout
        return
    if words[0] == "plan":
        assert " 0 skips" in place.run(*words).stdout
        return
    chosen = {word.partition("=")[0] for word in words}
    quiet = [f"{group}=none" for group in ("profiler", "recorder") if group not in chosen]
    place.run(*words, *quiet, *FAST)
    results = place.results("out")
    assert {result["outcome"] for result in results} == {"ok"}
    assert all(result["parity"]["passed"] for result in results)
    if "profiler" in chosen:
        assert all(result["profile"]["bottleneck"] for result in results)
    if "recorder" in chosen:
        rows = (place.path / "my_results.csv").read_text().splitlines()
        assert [row.split(",")[0] for row in rows] == [each["trial_id"] for each in results]
