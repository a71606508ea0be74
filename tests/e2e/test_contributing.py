"""CONTRIBUTING.md can be pasted: its files into the repository, its command into a shell."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


@pytest.fixture
def pasted(make_place, tmp_path):
    """A copy of the repository with the page's files, and the words of its command."""
    for folder in ("src", "conf", "recipes"):
        ignored = shutil.ignore_patterns("__pycache__")  # where others write meanwhile
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    files = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert len(files) == 2
    for name, content in files:
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(content)
    (command,) = re.findall(r"^```console\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    return make_place(tmp_path, site=tmp_path / "src"), shlex.split(command)[3:]


def test_the_example_is_planned_as_it_is_pasted(pasted):
    place, words = pasted
    assert " 0 skips" in place.run(*words).stdout


@pytest.mark.slow
def test_the_example_runs(pasted):
    place, words = pasted
    quick = ["stopping=fixed", "stopping.processes=1", "stopping.calls=2", "stopping.window_s=0.05"]
    quick += ["protocol.pairing=none", "profiler=none", "protocol.canary_tolerance_ratio=null"]
    place.run(*words[1:], *quick, "hydra.run.dir=out")
    results = {result["labels"]["conversion"]: result for result in place.results("out")}
    assert results["fuse_conv_bn"]["parity"]["passed"]
