"""The analysis under programs with planted bottlenecks that another author wrote.

A slice of the simulated programs; the others, and mutated traces, take longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.report.write import write
from support.graph_invariants import check
from support.trace_corpus import analyse
from trace_corpus import gpu_cases, mutate, score

TRUTH: Mapping[str, Mapping[str, Any]] = {
    one["name"]: one for one in json.loads((Path(__file__).parent / "truth.json").read_text())
}
QUICK = {
    *("async_training", "event_polling", "back_pressure", "backward_in_bursts"),
    *("straggler_slow_device", "legacy_default_stream", "copy_overlap_compute_bound"),
    *("no_launch_records", "host_function", "one_absurd_time_stamp"),
    *("ring_of_events", "cuda_free_on_idle_device", "alternating_straggler"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in TRUTH]
)
def test_the_verdict_the_period_and_the_predictions_are_right(name: str, tmp_path: Path) -> None:
    gpu_cases.run(gpu_cases.CASES, str(tmp_path), (name,), truth=False)
    found = score.judge(TRUTH[name], str(tmp_path), analyse)
    assert found["error"] is None
    assert found["got"] in found["want"]
    assert found["period_ok"]
    assert [one for one in found["predictions"] if one["scored"] and not one["ok"]] == []
    covered = [one["covered"] for one in found["predictions"]]
    assert sum(covered) >= len(covered) - 1


@pytest.mark.parametrize(
    "seeds",
    [
        range(20),
        *(pytest.param(range(at, at + 100), marks=pytest.mark.slow) for at in range(20, 2020, 100)),
    ],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop}",
)
def test_a_mutated_trace_is_analysed_or_refused_in_a_sentence(seeds: range, tmp_path: Path) -> None:
    gpu_cases.run(gpu_cases.CASES, str(tmp_path), ("loss_item",), truth=False)
    data = (tmp_path / "loss_item_rank0.json").read_bytes()
    refusals = []
    for seed in seeds:
        changed, _, ending = mutate.mutate(data, seed)
        path = tmp_path / f"mutated_{seed}{ending}"
        path.write_bytes(changed)
        try:
            analysis = analyze(path)
        except TraceError as refused:
            refusals.append(str(refused))
            continue
        checks = check(analysis.dag, analysis.path, analysis.periods.interval_ns)
        assert all(checks.values()), (seed, checks)
        write(analysis, tmp_path / "out")
    assert all(one.endswith(".") for one in refusals)


@pytest.mark.parametrize(("dilation", "void"), [(1.2, 0), (1.6, 2), (0.6, 2)])
def test_predictions_of_a_void_profile_are_counted_apart(
    dilation: float, void: int, tmp_path: Path
) -> None:
    gpu_cases.run(gpu_cases.CASES, str(tmp_path), ("loss_item",), truth=False)
    faster = {"ratio": 0.5, "spread": 0.0, "stable": True}
    true = {
        "name": "loss_item",
        "files": [str(tmp_path / "loss_item_rank0.json")],
        "classes": ["python"],
        "unseen": False,
        "range": None,
        "period_ns": 1.0,
        "profiled_period_ns": 1.0,
        "dilation": dilation,
        "changes": {
            str(by): {**faster, "whatif": {"changes": [{"host": by}]}} for by in (2.0, 4.0)
        },
    }
    (tmp_path / "loss_item.truth.json").write_text(json.dumps(true))
    command = [sys.executable, str(Path(score.__file__).with_name("score_programs.py"))]
    said = subprocess.run([*command, str(tmp_path)], check=True, capture_output=True, text=True)
    assert f"'predictions': {2 - void}" in said.stdout
    assert f"'void predictions': {void}" in said.stdout
    assert f"'void programs': {int(void > 0)}" in said.stdout
    assert "'verdicts': 1" in said.stdout
