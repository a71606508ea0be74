"""Parts of the start scripts, with the programs that they call played."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "infra" / "terraform" / "scripts"


def test_a_head_ends_only_once_its_group_is_empty() -> None:
    """AWS refuses while a scaling activity is in progress; another head would follow this one."""
    text = (SCRIPTS / "head.sh.tftpl").read_text()
    [end] = re.findall(r"^end_head\(\).*?^}$", text, re.MULTILINE | re.DOTALL)
    played = """
        set -Eeuo pipefail
        tries=0
        node() { echo "node $*"; [[ $((++tries)) -ge 3 ]]; }
        sleep() { echo "sleep $*"; }
        shutdown() { echo "shutdown $*"; }
    """
    script = "\n".join([played, end.replace("${head_group}", "lab-head"), "end_head"])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    refused = ["node rest lab-head", "sleep 60"]
    assert done.stdout.splitlines() == [*refused, *refused, refused[0], "shutdown -h now"]
    assert text.count("node rest") == 1
    assert text.count("\n  end_head\n") == 2  # its time is up; nobody uses it


def test_a_head_from_a_baked_image_has_the_program_that_makes_packages(tmp_path: Path) -> None:
    """Its image was a worker's, whose packages it has; other kinds of node wait for theirs."""
    text = (SCRIPTS / "common.sh.tftpl").read_text()
    [install] = re.findall(r"^packages=.*?^fi$", text, re.MULTILINE | re.DOTALL)
    install = install.replace("{packages}", "cpu-0")
    install = install.replace("{make_packages}", ': > "$home/make_packages.sh"\n')
    (tmp_path / "packages").write_text("cpu-0\n")
    script = f"set -Eeuo pipefail\nhome={tmp_path} role=head step=metadata\n{install}\necho $step"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "metadata\n"  # nothing was installed
    assert (tmp_path / "make_packages.sh").exists()
