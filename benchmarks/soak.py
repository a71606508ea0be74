"""Does a long sweep leak? 10,000 trials through journal, table, a real MLflow server and report.

The trials are those of `head_load`, which take no time. Each phase is sampled while it runs:

    sweep     the pipeline, dispatch and the journal, and the table at the end
    record    every trial into MLflow over HTTP, as `benchorch record` does
    report    the run read again and its page written

Memory is resident MiB after a tenth, after half and at the end of a phase; descriptors are the
fewest and the most after the first tenth. It fails where descriptors grow, or memory grows in a
phase's second half by more than 16 MiB and 4 KiB a trial.

Run: python benchmarks/soak.py [TRIALS]
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from head_load import make_plan, whole
from mlflow_requests import findings, server

from benchorch.cli.main import run
from benchorch.recorders.mlflow import Mlflow
from benchorch.results.report.console_table import table_text
from benchorch.run.record import replay

EVERY_S = 0.2
MOST_MIB, MOST_KIB_PER_TRIAL, MOST_DESCRIPTORS = 16, 4, 8


@contextmanager
def sampled(samples: list[tuple[float, int]]) -> Iterator[None]:
    """Resident MiB and open descriptors of this process, again and again during the block."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(EVERY_S):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident_mib = pages * resource.getpagesize() / 2**20
            samples.append((resident_mib, len(os.listdir("/proc/self/fd"))))  # noqa: PTH208

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def row(name: str, samples: list[tuple[float, int]], trials: int) -> tuple[tuple[str, ...], bool]:
    """A phase's line, and whether it is flat."""
    first, half, last = (samples[at][0] for at in (len(samples) // 10, len(samples) // 2, -1))
    descriptors = [count for _, count in samples[len(samples) // 10 :]]
    flat = last - half <= MOST_MIB + MOST_KIB_PER_TRIAL * trials / 1024
    flat &= descriptors[-1] - descriptors[0] <= MOST_DESCRIPTORS
    memory = [f"{mib:.0f}" for mib in (first, half, last)]
    return (name, *memory, f"{min(descriptors)}-{max(descriptors)}", "" if flat else "grows"), flat


def main(trials: int = 10_000) -> int:
    """0 where every phase is flat and every trial was recorded."""
    plan = make_plan(trials)
    phases: dict[str, list[tuple[float, int]]] = {"sweep": [], "record": [], "report": []}
    with tempfile.TemporaryDirectory() as root, server(Path(root)) as uri:
        directory = Path(root, "run")
        with sampled(phases["sweep"]):
            whole(plan, 100, directory)
        with sampled(phases["record"]):
            replayed = replay(directory, Mlflow(uri=uri), derive=findings)
        with sampled(phases["report"]):
            run(["report", str(directory), "--output", str(Path(root, "page.html"))])
    rows = [row(name, samples, trials) for name, samples in phases.items()]
    print(table_text([("phase", "10 %", "50 %", "end", "descriptors", ""), *(r for r, _ in rows)]))
    print(f"{replayed.recorded} of {trials} trials recorded, {replayed.remaining} remain")
    return 0 if all(flat for _, flat in rows) and replayed.remaining == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
