"""Builds of several models at a time, and of those that time kernels by themselves."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.result import BuildRecord, Outcome, TrialResult
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.run import build_only as module

BUILD = BuildRecord(
    key="k", cache="miss", build_s=1.5, original_build_s=1.5, artifact_bytes=7, model_digest=""
)


def trial(model: str, conversion: str, *, autotunes: bool = False) -> Trial:
    steps = {"compile": {"max_autotune": autotunes}}
    return Trial(
        trial_id=f"{model}-{conversion}",
        labels={"model": model, "conversion": conversion},
        spec={"model": {"name": model}, "workload": {}, "conversion": {"steps": steps}},
    )


TRIALS = (
    trial("a", "plain"),
    trial("a", "tuned", autotunes=True),
    trial("b", "plain"),
    trial("b", "other"),
)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The trials in the order in which their builds ended; the first two meet."""
    order: list[str] = []
    together = threading.Barrier(2, timeout=30)

    def run_trial(one: Trial, **_: Any) -> TrialResult:
        if not order and one.trial_id in ("a-plain", "b-plain"):
            together.wait()
        order.append(one.trial_id)
        return TrialResult(
            trial_id=one.trial_id, labels=one.labels, outcome=Outcome.OK, build=BUILD
        )

    planned = SimpleNamespace(plan=SimpleNamespace(trials=TRIALS, skips=()))
    session = Session(plan_id="p", directory=tmp_path, store={}, rebuild="if_needed")
    monkeypatch.setattr(module, "run_trial", run_trial)
    monkeypatch.setattr(module, "plan_jobs", lambda *_: planned)
    monkeypatch.setattr(module, "session_of", lambda *_: session)
    return order


def test_two_models_are_built_at_a_time_and_what_times_kernels_alone(
    built: list[str], tmp_path: Path
) -> None:
    said: list[str] = []
    rows = module.build_only([], ["model=mlp"], tmp_path, said.append, jobs=2)
    assert built[-1] == "a-tuned"
    assert built.index("b-plain") < built.index("b-other")
    assert [row["cell"] for row in rows] == [row["cell"] for row in rows if row["build_s"] == 1.5]
    assert len(rows) == len(said) == len(TRIALS)
