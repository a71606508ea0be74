"""What experiments of many runs share: records that a later call continues, and a machine's load.

A record is a JSON line, added as soon as its run has ended. Records of earlier calls stay: delete
the file to begin anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _harness import ROOT, python

RESULTS = ROOT / "benchmarks" / "results"
ALPHA = 0.05
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10_000))"

Record = dict[str, Any]


def arguments(description: str | None, minutes: float) -> argparse.ArgumentParser:
    """A parser with what all such experiments take."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=shown)
    parser.add_argument(
        "--minutes", type=float, default=minutes, help=f"of measuring ({minutes:g})"
    )
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy loops beside (0)")
    parser.add_argument("--out", type=Path, help="file of the records, in benchmarks/results/")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/benchorch-evidence"),
                        help="runs and artifacts, kept from call to call")  # fmt: skip
    return parser


class Records:
    """Records in a file, the earlier ones included."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self._path = path
        self._keys = keys
        lines = path.read_text().splitlines() if path.exists() else []
        self.all: list[Record] = [json.loads(line) for line in lines]

    def pending(self, cells: Sequence[Record], minutes: float) -> Iterator[Record]:
        """Cells without a record, while the longest one so far would still end in time.

        Without a record the first one begins whatever the time.
        """
        ends_s = time.monotonic() + 60 * minutes
        done = {self._key(one) for one in self.all}
        longest_s = max((one["seconds"] for one in self.all), default=0.0)
        for cell in (one for one in cells if self._key(one) not in done):
            began_s = time.monotonic()
            if began_s + longest_s > ends_s:
                print(
                    "the time is used up: call it again to go on, with --minutes "
                    f"{math.ceil(longest_s / 60)} or more",
                    file=sys.stderr,
                )
                return
            yield cell
            longest_s = max(longest_s, time.monotonic() - began_s)

    def add(self, cell: Record, found: Mapping[str, Any], began_s: float) -> None:
        """Keep what was found in a cell, with where and when."""
        record = {**cell, **place(), "seconds": round(time.monotonic() - began_s, 1), **found}
        self.all.append(record)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _key(self, record: Mapping[str, Any]) -> Hashable:
        return tuple(record.get(key) for key in self._keys)


def place() -> Record:
    """The machine, the commit and the moment."""
    git = ("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "commit": subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip(),
    }


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many other programs, each with as much of a processor as it gets."""
    others = [subprocess.Popen(python("-c", _BUSY)) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def benchorch(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command of benchorch, and what it printed."""
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        python("-m", "benchorch", *words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(*words: str, key: str, folder: Path = ROOT) -> Record:
    """What a command of benchorch prints for programs, which has this key unless it fails."""
    ended = benchorch(*words, "--json", folder=folder)
    try:
        found = json.loads(ended.stdout)
        found[key]
    except (ValueError, KeyError):
        said = f"{ended.stdout[-2000:]} {ended.stderr[-2000:]}"
        raise SystemExit(f"{' '.join(words)}: {said}") from None
    return found


def heading(records: Sequence[Record], loops: int) -> str:
    """What a table is of."""
    commits = ", ".join(dict.fromkeys(one["commit"] for one in records))
    return f"\n{loops} busy loops beside; commits {commits}\n"


def most_by_chance(count: int, share: float = ALPHA) -> int:
    """The most events of this share, in 95 of 100 such experiments."""
    from scipy.stats import binom

    return int(binom.ppf(0.95, count, share))


def least_by_chance(count: int, share: float) -> int:
    """The fewest events of this share, in 95 of 100 such experiments."""
    from scipy.stats import binom

    return int(binom.ppf(0.05, count, share))
