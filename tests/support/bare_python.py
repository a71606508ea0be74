"""A Python that has the installed packages and no benchorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np


def bare_python(place: Path) -> Path:
    """The interpreter of a new environment in a folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    wheels = Path(np.__file__).parents[1]  # a path file in a folder named here is not read
    (packages / "wheels.pth").write_text(f"{wheels}\n")
    return place / "bin" / "python"
