"""How a command begins and ends."""

import subprocess
import sys

LEAVING = """
import atexit, gc, sys
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 10_000))  # called last
from benchorch.cli.main import main
sys.argv = ["benchorch", "--help"]
main()
"""


def test_a_command_leaves_its_objects_to_the_end_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "frozen True"
