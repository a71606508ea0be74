"""Install the tested torch release into this environment, as the build that was asked for.

cpu    without CUDA packages: from pip's own configuration if that offers such a build, otherwise
       from PyTorch's public CPU index
cuda   the CUDA build from PyPI
auto   what is installed already, if it is the tested release; otherwise cuda where an NVIDIA GPU
       is seen and cpu where none is

torch comes alone (``--no-deps``); what it needs follows with everything else, which then finds
torch satisfied and cannot bring another build along.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    """0 once the right build is installed, 1 with a sentence on stderr if it cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--build", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--constraints", type=Path, default=Path("constraints.txt"))
    arguments = parser.parse_args()
    version = pinned(arguments.constraints.read_text())
    installed = installed_build(version)
    if installed and arguments.build in ("auto", installed):
        return 0
    build = arguments.build if arguments.build != "auto" else suited_build()
    print(f"Installing torch {version}, {build} build ...", flush=True)
    for attempt in attempts(version, build):
        if pip_install(attempt) and installed_build(version) == build:
            return 0
    print(advice(version, build), file=sys.stderr)
    return 1


def pinned(constraints: str) -> str:
    """The version that the constraints ask of torch."""
    found = re.search(r"^torch==([0-9.]+)", constraints, flags=re.MULTILINE)
    if not found:
        raise SystemExit("The constraints do not pin torch.")
    return found[1]


def attempts(version: str, build: str) -> list[list[str]]:
    """The arguments for pip, to be tried in turn.

    A CPU wheel for Linux calls itself ``2.13.0+cpu``; elsewhere PyPI's own wheel has no CUDA. The
    triple ``===`` compares spellings, so it asks for the wheel without such a suffix.
    """
    plain = [f"torch==={version}"]
    if build == "cuda" or not sys.platform.startswith("linux"):
        return [plain]
    cpu = [f"torch=={version}+cpu"]
    return [cpu, ["--index-url", CPU_INDEX, *cpu]]


def pip_install(arguments: list[str]) -> bool:
    """Whether pip installed it; what it says otherwise belongs to an attempt, not to people."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]
    finished = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if finished.returncode:
        print(f"  not from here: {last_line(finished.stderr)}", flush=True)
    return finished.returncode == 0


def last_line(text: str) -> str:
    """What a failed command said last."""
    return next(reversed(text.strip().splitlines()), "no message")


def installed_build(version: str) -> str | None:
    """``cpu`` or ``cuda`` if that release is installed; reads a file instead of loading torch."""
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("torch")
    if installed.partition("+")[0] != version or spec is None or spec.origin is None:
        return None
    facts = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    return "cpu" if facts["cuda"] is None else "cuda"


def suited_build() -> str:
    """``cuda`` where the NVIDIA driver shows a GPU, otherwise ``cpu``."""
    gpus = Path("/proc/driver/nvidia/gpus")
    return "cuda" if gpus.is_dir() and any(gpus.iterdir()) else "cpu"


def advice(version: str, build: str) -> str:
    """What to do when no attempt gave the right build."""
    other = "cpu" if build == "cuda" else "cuda"
    return (
        f"torch {version} could not be had as its {build} build.\n"
        f"Point pip at an index or a folder that has it (pip config set global.find-links ...), "
        f"or take the other build: make install TORCH={other}"
    )


if __name__ == "__main__":
    sys.exit(main())
