"""The pages of docs/reference that follow from the code are those that the code gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "write_reference.py"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="written with one version of Python")
def test_the_committed_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}Run make reference."
