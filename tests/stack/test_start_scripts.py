"""Parts of the start scripts, with the programs that they call played."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

HEAD = Path(__file__).resolve().parents[2] / "infra" / "terraform" / "scripts" / "head.sh.tftpl"


def test_a_head_ends_only_once_its_group_is_empty() -> None:
    """AWS refuses while a scaling activity is in progress; another head would follow this one."""
    text = HEAD.read_text()
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
