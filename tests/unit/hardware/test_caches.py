"""The size of the last cache, and what flushing it does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.hardware import caches
from benchorch.hardware.cpu import CpuClock


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    yield
    caches.last_level_bytes.cache_clear()
    caches._buffer.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *sizes: str) -> None:
    for index, size in enumerate(sizes):
        folder = tmp_path / "cpu3" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    monkeypatch.setattr(caches, "_CPUS", tmp_path)
    monkeypatch.setattr(caches, "_own_cpu", lambda: 3)
    caches.last_level_bytes.cache_clear()


@pytest.mark.parametrize(
    ("sizes", "largest"),
    [
        (("32K", "32K", "1024K", "32768K"), 32 * 2**20),
        (("48K", "2M", "105M"), 105 * 2**20),
        (("512",), 512),
        ((), caches.FALLBACK_BYTES),
        (("?",), caches.FALLBACK_BYTES),
    ],
)
def test_the_largest_cache_counts_or_an_assumed_one(
    sizes: tuple[str, ...], largest: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, tmp_path, *sizes)
    assert caches.last_level_bytes() == largest


def test_flushing_reads_and_writes_twice_the_last_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, tmp_path, "64K")
    clock = CpuClock()
    clock.flush_caches()
    clock.flush_caches()
    buffer = caches._buffer()
    assert buffer.nbytes == 2 * 64 * 2**10
    assert (buffer == 2).all()


def test_nothing_heavy_is_loaded_before_caches_are_flushed() -> None:
    code = (
        "import sys\n"
        "from benchorch.hardware.cpu import CpuClock\n"
        "CpuClock().counts()\n"
        "CpuClock().time_block(int, 10)\n"
        "assert not {'torch', 'numpy'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
