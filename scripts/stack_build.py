"""What a stack's machines install: the wheel of this checkout, the locks, the reaper's program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "infra" / "locks"
REAPER = ROOT / "infra" / "terraform" / "reaper" / "reaper.py"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal content is an equal file
LIMIT_S = 300


def build(place: Path) -> Path:
    """Put everything into a directory, in place of what it held; the directory.

    OSError where the wheel cannot be built.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        last = next(reversed((done.stdout + done.stderr).strip().splitlines()), "no message")
        raise OSError(f"the wheel of {ROOT} could not be built: {last}")
    for lock in LOCKS.glob("*.txt"):
        shutil.copy(lock, place)
    with zipfile.ZipFile(place / "reaper.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        info = zipfile.ZipInfo(REAPER.name, LONG_AGO)
        info.external_attr = 0o644 << 16  # Lambda runs as another user
        packed.writestr(info, REAPER.read_bytes(), zipfile.ZIP_DEFLATED)
    return place
