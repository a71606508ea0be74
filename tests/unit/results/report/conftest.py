"""Runs as they are kept, with everything that a report has to cope with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.trial import Skip
from benchorch.results.compare.load_run import load
from benchorch.results.compare.stored_run import StoredRun
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

HOSTILE = """<script>alert("x")</script>|'&"\x00\u2028=1"""
EAGER = trial()
FAST = trial("fast", baseline=EAGER)
WRONG = trial("wrong", baseline=EAGER)
SLOW = trial("slow", baseline=EAGER)
PROFILE = ProfileRecord(
    profiler="torch",
    bottleneck=BottleneckVerdict(
        limit="launch-bound",
        sentence="Launches take most of the call.",
        critical_path_ns=10,
        classes_ns={"launch": 10},
        advice="Batch more.",
        largest="linear",
        largest_gain_ratio=0.4,
    ),
)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    """One that went well, one disqualified, one failed, one never run, one skipped."""
    directory = write_run(
        tmp_path / "run",
        (EAGER, result(EAGER)),
        (FAST, result(FAST, 5e5, baseline_ns=1e6, processes=8, profile=PROFILE)),
        (WRONG, result(WRONG, 1e5, baseline_ns=1e6, parity=DISAGREES)),
        (SLOW, failed(SLOW)),
        (trial("never", baseline=EAGER), None),
        skips=(Skip(labels={"model": "mlp", "conversion": "trt"}, reason="no GPU.", remedy="x"),),
    )
    return load(str(directory))


@pytest.fixture
def swept(tmp_path: Path) -> StoredRun:
    """Two conversions over two batch sizes and two lengths, on a machine with a known price."""
    cells = []
    for batch_size in (1, 8):
        for seq_len in (32, 128):
            sizes = {"batch_size": batch_size, "seq_len": seq_len}
            told = {
                "hardware": "g5",
                "hardware_kind": "g5.xlarge",
                "workload": " ".join(f"{name}={size}" for name, size in sizes.items()),
            }
            base = trial(workload=sizes, labels=told)
            fast = trial("fast", baseline=base, workload=sizes, labels=told)
            call_ns = 1e5 * batch_size * seq_len
            cells += [(base, result(base, call_ns))]
            cells += [(fast, result(fast, call_ns / 2, baseline_ns=call_ns))]
    return load(str(write_run(tmp_path / "swept", *cells)))


@pytest.fixture
def hostile(tmp_path: Path) -> StoredRun:
    """Names and reasons that would like to be markup or formulas."""
    told = dict.fromkeys(("model", "hardware", "axes"), HOSTILE)
    one = trial(HOSTILE, labels=told)
    other = trial("=HYPERLINK(1)", labels=told, baseline=one)
    environment = {"host": HOSTILE, "cpu_model": HOSTILE, "packages": {HOSTILE: HOSTILE}}
    return load(
        str(
            write_run(
                tmp_path / "hostile",
                (one, result(one, environment=environment)),
                (other, failed(other)),
                skips=(Skip(labels=told, reason=HOSTILE, remedy=HOSTILE),),
            )
        )
    )
