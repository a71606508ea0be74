from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from benchorch.domain.measurement import Conditions
from benchorch.host import reference_workload
from benchorch.host.reference_workload import CHUNKS, disturbance, reference_ns

MS = 1_000_000


def chunks_take(monkeypatch: pytest.MonkeyPatch, durations_ns: Iterator[int]) -> None:
    monkeypatch.setattr(reference_workload, "_time_ns", lambda _: next(durations_ns))


def test_being_switched_out_now_and_then_does_not_count(monkeypatch) -> None:
    chunks_take(monkeypatch, iter([MS, 5 * MS] * (CHUNKS // 2)))
    assert reference_ns() == MS


def test_a_slower_machine_does_count(monkeypatch) -> None:
    chunks_take(monkeypatch, iter([MS] * 5 + [int(1.4 * MS)] * (CHUNKS - 5)))
    assert reference_ns() == 1.4 * MS


def test_it_times_work() -> None:
    began_ns = time.monotonic_ns()
    longest = CHUNKS - CHUNKS // 4  # those that take no less than the lower quartile
    assert 0 < reference_ns() * longest <= time.monotonic_ns() - began_ns


def test_it_loads_nothing_that_the_process_did_not_load() -> None:
    probe = (
        "import sys\n"
        "from benchorch.host.reference_workload import reference_ns\n"
        "assert reference_ns() > 0\n"
        "print('numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_where_numpy_is_loaded_matrices_are_part_of_the_work(monkeypatch) -> None:
    import numpy as np

    products = []
    monkeypatch.setattr(np, "matmul", lambda *matrices: products.append(matrices))
    reference_ns()
    assert len(products) % CHUNKS == 0
    assert products


def test_copies_of_memory_are_timed_without_the_allocator_of_the_model() -> None:
    """Freeing as much to it would raise its threshold for mappings: the model would be faster."""
    probe = (
        "from benchorch.host.memory import own_peak_bytes, own_rss_bytes, reset_own_peak\n"
        "from benchorch.host.reference_workload import speed\n"
        "reset_own_peak(); before = own_rss_bytes(); found = speed()\n"
        "print(found.memory_ns, own_peak_bytes() - before, own_rss_bytes() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    took_ns, peak, kept = map(float, done.stdout.split())
    assert took_ns > 0
    assert peak >= 31 * 2**20  # the process may have freed some before
    assert kept < 4 * 2**20


def looked(before: float | None, after: float | None, copies: float | None = None) -> Conditions:
    return Conditions(
        canary_before_ns=before,
        canary_after_ns=after,
        memory_before_ns=copies and 1000.0,
        memory_after_ns=copies,
    )


FIRST = looked(100.0, 100.0, 1000.0)


@pytest.mark.parametrize(("before", "after"), [(100.0, 100.0), (101.9, 100.0), (100.0, 101.9)])
def test_within_the_tolerance_a_process_counts(before: float, after: float) -> None:
    assert disturbance(looked(before, after), FIRST, 0.02) == ""


def test_a_disturbed_process_is_told_by_how_much_when_and_what_is_allowed() -> None:
    assert disturbance(looked(103.0, 150.0), FIRST, 0.02) == (
        "The reference workload took longer than before the trial: 3.0% before and 50.0% after "
        "this process; 2.0% is allowed."
    )
    assert disturbance(looked(100.0, 110.0), FIRST, 0.05).count("%") == 2


def test_a_process_whose_memory_was_slow_is_disturbed_where_arithmetic_shows_nothing() -> None:
    assert disturbance(looked(100.0, 100.0, 1490.0), FIRST, 0.02) == ""
    assert disturbance(looked(100.0, 100.0, 1770.0), FIRST, 0.02) == (
        "The reference workload's copy of memory took longer than before the trial: 77.0% after "
        "this process; 50.0% is allowed."
    )
    assert disturbance(looked(100.0, 100.0, 1770.0), FIRST, 0.8) == ""
    assert disturbance(looked(100.0, 100.0, 1770.0), looked(100.0, 100.0), 0.02) == ""
