"""CONTRIBUTING.md can be pasted: its files into the repository, its command into a shell."""

import re
import shlex
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_example_works_as_it_is_pasted(make_place, tmp_path):
    for folder in ("src", "conf", "recipes"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    files = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert len(files) == 2
    for name, content in files:
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(content)
    place = make_place(tmp_path, site=tmp_path / "src")
    (command,) = re.findall(r"^```console\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    words = shlex.split(command)[3:]
    planned = place.run(*words)
    assert " 0 skips" in planned.stdout
    quick = ["stopping=fixed", "stopping.processes=1", "stopping.calls=2", "stopping.window_s=0.05"]
    quick += ["protocol.pairing=none", "profiler=none", "protocol.canary_tolerance_ratio=null"]
    place.run(*words[1:], *quick, "hydra.run.dir=out")
    results = {result["labels"]["conversion"]: result for result in place.results("out")}
    assert results["fuse_conv_bn"]["parity"]["passed"]
