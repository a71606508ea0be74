"""What earlier sweeps cost and took corrects the next estimate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.codec import encode
from benchorch.executors.scheduling.duration_forecast import PastTrial
from benchorch.journal.registry import remember
from benchorch.results.pricing import sweep_history
from benchorch.results.pricing.sweep_history import SweepCost, write_cost
from support.s3 import Bucket, bucket

__all__ = ["bucket"]  # a fixture

TRIAL = PastTrial(trial_id="t", labels=("mlp", "eager", "g5.xlarge"), measured_s=40.0, built_s=3.0)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sweep_history._archived.cache_clear()


def cost(launch_s: float, *, simulated: bool = False) -> SweepCost:
    return SweepCost(
        expected_usd=1.0,
        spent_usd=0.8,
        launch_s={"g5.xlarge": launch_s},
        trials=(TRIAL,),
        simulated=simulated,
    )


def left_by(tmp_path: Path, name: str, found: SweepCost) -> None:
    directory = tmp_path / name
    directory.mkdir()
    (directory / "cost.json").write_text(json.dumps(encode(found)))
    remember(name, directory)


def archived(bucket: Bucket, name: str, found: SweepCost | None) -> None:
    content: Mapping[str, Any] = encode(found) if found else {}  # type: ignore[assignment]
    file = "cost.json" if found else "plan.json"
    bucket.put(f"{name}/{file}", json.dumps(content).encode())


def test_without_earlier_sweeps_nothing_is_known() -> None:
    assert sweep_history.sweep_history(None).launch_s() == {}


def test_the_median_launch_of_this_machines_sweeps_counts_and_no_simulated_one(
    tmp_path: Path,
) -> None:
    for number, seconds in enumerate((100.0, 140.0, 200.0)):
        left_by(tmp_path, f"r{number}", cost(seconds))
    left_by(tmp_path, "simulated", cost(1.0, simulated=True))
    (tmp_path / "r1" / "cost.json").write_text("{torn")
    found = sweep_history.sweep_history(None)
    assert found.launch_s() == {"g5.xlarge": 150.0}
    assert list(found.trials()) == [TRIAL, TRIAL]


def test_an_accounts_sweeps_come_before_this_machines_and_are_read_once(
    tmp_path: Path, bucket: Bucket
) -> None:
    left_by(tmp_path, "own", cost(500.0))
    archived(bucket, "20261120-sweep", cost(100.0))
    archived(bucket, "20261121-sweep", cost(120.0))
    archived(bucket, "20261122-still-runs", None)
    assert sweep_history.sweep_history(bucket.url).launch_s() == {"g5.xlarge": 110.0}
    bucket.remove("20261120-sweep/cost.json")
    bucket.put("20261120-sweep/plan.json", b"{}")
    sweep_history._archived.cache_clear()
    assert sweep_history.sweep_history(bucket.url).launch_s() == {"g5.xlarge": 110.0}


@pytest.mark.parametrize("content", [b"{torn", b"[1]", b"[" * 100_000])
def test_a_damaged_cost_of_an_archive_is_left_out(content: bytes, bucket: Bucket) -> None:
    archived(bucket, "20261120-sweep", cost(100.0))
    bucket.put("20261121-sweep/cost.json", content)
    assert sweep_history.sweep_history(bucket.url).launch_s() == {"g5.xlarge": 100.0}


def test_an_archive_that_does_not_answer_leaves_this_machines(
    tmp_path: Path, bucket: Bucket
) -> None:
    assert "no-such-bucket" not in bucket.name  # nor is a real service asked
    left_by(tmp_path, "own", cost(500.0))
    found = sweep_history.sweep_history("s3://no-such-bucket-at-all/results")
    assert found.launch_s() == {"g5.xlarge": 500.0}


def test_a_sweeps_cost_is_kept_with_its_trials_and_told(tmp_path: Path) -> None:
    line = {
        "trial_id": "t",
        "outcome": "ok",
        "labels": {"model": "mlp", "conversion": "eager", "hardware_kind": "g5.xlarge"},
        "stages_s": {"measure": 40.0},
        "build": {"original_build_s": 3.0},
    }
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    found = write_cost(
        tmp_path,
        expected_usd=1.0,
        spent_usd=0.8,
        launch_s={"head": 70.0, "g5.xlarge": 95.0},
        simulated=False,
    )
    assert found.trials == (TRIAL,)
    assert found.text == (
        "The machines cost 0.80 USD so far; 1.00 were expected to their end; g5.xlarge took "
        "1 min 35 s from launch to first trial; head took 1 min 10 s from launch to the sweep."
    )
    remember("p", tmp_path)
    assert sweep_history.sweep_history(None).sweeps == (found,)


def test_how_long_heads_took_is_known_to_who_sent_the_sweeps(
    tmp_path: Path, bucket: Bucket
) -> None:
    left_by(tmp_path, "own", replace(cost(500.0), launch_s={"g5.xlarge": 500.0, "head": 70.0}))
    archived(bucket, "20261120-sweep", cost(100.0))
    found = sweep_history.sweep_history(bucket.url).launch_s()
    assert found == {"g5.xlarge": 100.0, "head": 70.0}
