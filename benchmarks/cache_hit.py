"""What finding a build costs against reading the same bytes through SHA-256."""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _harness import interleave, ratio_row, table

from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.local import LocalStore

FILES = 8
FILE_BYTES = 16 << 20
KEY = BuildKey(fields={"benchmark": "cache_hit"})


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def write(out: Path) -> None:
    block = bytes(range(256)) * (FILE_BYTES // 256)
    for number in range(FILES):
        (out / f"{number}.bin").write_bytes(block)


def hash_all(files: Path) -> None:
    for path in sorted(files.iterdir()):
        with path.open("rb", buffering=0) as file:
            hashlib.file_digest(file, "sha256").hexdigest()


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store = LocalStore(root=f"{scratch}/store")
        files = store.build(KEY, format=Format.ONNX, name="benchmark", make=write)[0].path

        def find() -> None:
            assert store.find(KEY.digest), "the build was not found"

        def first() -> tuple[float, float]:
            (files.parent / "verified.json").unlink()  # as in a store that was just copied here
            return timed(find)

        seen = interleave(
            {
                "floor": lambda: timed(lambda: hash_all(files)),
                "first": first,
                "repeated": lambda: timed(find),
            },
            rounds,
        )
    rows = [
        ratio_row("hit, bytes compared", seen, "first", "floor", "1.25"),
        ratio_row("hit, files unchanged", seen, "repeated", "floor", "0.1"),
    ]
    print(table(rows))
    middle_ms = statistics.median(wall_s for wall_s, _ in seen["repeated"]) * 1000
    print(f"\nA hit on {FILES} unchanged files takes {middle_ms:.2f} ms (median; goal: 10 ms).")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
