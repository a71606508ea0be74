"""quanto's extension is compiled by one process at a time, whatever a killed one left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchorch.conversions.quanto import alone_in

HOLD = """
import sys, time
from pathlib import Path
from benchorch.conversions.quanto import alone_in
with alone_in(Path(sys.argv[1])):
    Path(sys.argv[1], "lock").touch()
    print("holds", flush=True)
    time.sleep(600)
"""


def test_the_mark_of_a_killed_compilation_is_cleared(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
        other.kill()
    assert (tmp_path / "lock").exists()
    with alone_in(tmp_path):
        assert not (tmp_path / "lock").exists()
