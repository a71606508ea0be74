"""Stages of a known cost, 40 % of it hidden when nothing is drained in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.interfaces.runtime import Executable
from benchorch.results.metrics.resources import overlap_ratio, resource_metrics
from benchorch.trial.transfer_breakdown import transfer_breakdown
from benchorch.units import ms_to_ns
from support.clocks import VirtualClock

COPY_IN_MS, COMPUTE_MS, COPY_OUT_MS = 3, 7, 2
OVERLAP_RATIO = 0.4
LOADING_MS = 50
PASSES = 6


@dataclass
class Engines(VirtualClock):
    """A device whose engines work side by side on whatever was issued since the last drain."""

    read_ns: float = 0
    turn_ns: float = 0
    issued_ns: list[int] = field(default_factory=list)

    def drain(self) -> None:
        alone = len(self.issued_ns) == 1
        self.spend(sum(self.issued_ns) * (1 if alone else 1 - OVERLAP_RATIO))
        self.issued_ns.clear()


@dataclass
class Issues(Executable):
    """Copies and computes on the engines; every call returns at once."""

    engines: Engines

    def bind(self, arrays: Mapping[str, Any]) -> Callable[[], object]:
        self.engines.issued_ns.append(ms_to_ns(COPY_IN_MS))
        return lambda: self.engines.issued_ns.append(ms_to_ns(COMPUTE_MS))

    def outputs(self, raw: object) -> Mapping[str, Any]:
        self.engines.issued_ns.append(ms_to_ns(COPY_OUT_MS))
        return {"0": np.zeros(4, np.float32)}

    def facts(self) -> Mapping[str, Json]:
        return {"dtype": "float32"}

    def close(self) -> None:
        pass


@dataclass
class Loader:
    """Batches that take long to get hold of."""

    clock: Engines

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        self.clock.spend(ms_to_ns(LOADING_MS))
        return {"x": np.zeros(3, np.float32)}


def passes_of(device: str = "cuda") -> Any:
    engines = Engines()
    return transfer_breakdown(
        Issues(engines), Loader(engines), clock=engines, device=device, passes=PASSES
    )  # type: ignore[arg-type]


def test_each_stage_is_told_exactly() -> None:
    assert passes_of().stages_ns == {
        "h2d": (ms_to_ns(COPY_IN_MS),) * PASSES,
        "compute": (ms_to_ns(COMPUTE_MS),) * PASSES,
        "d2h": (ms_to_ns(COPY_OUT_MS),) * PASSES,
    }


def test_the_overlap_is_told_to_a_thousandth() -> None:
    assert overlap_ratio(passes_of()) == pytest.approx(OVERLAP_RATIO, abs=0.001)


def test_loading_data_is_in_no_stage_and_not_end_to_end() -> None:
    found = passes_of()
    together = (COPY_IN_MS + COMPUTE_MS + COPY_OUT_MS) * (1 - OVERLAP_RATIO)
    assert set(found.joined_ns) == {ms_to_ns(together)}
    assert max(max(stage) for stage in found.stages_ns.values()) < ms_to_ns(LOADING_MS)


def test_the_metrics_of_a_trial_say_the_same() -> None:
    processes = tuple(
        ProcessRecord(
            load_s=1.0,
            first_call_s=1.0,
            observations=Observations(
                durations_ns=(1,), started_ns=(0,), calls_per_block=1, items_per_call=1
            ),
            steady_from=0,
            calibration=Calibration(pair_cost_ns=1.0, step_ns=1.0),
            peak_rss_bytes=1,
            facts={},
            split=passes_of(),
        )
        for _ in range(5)
    )
    result = TrialResult(trial_id="a", labels={}, outcome=Outcome.OK, processes=processes)
    metrics = resource_metrics(result, None)
    assert metrics["h2d_ms/p50"].value == COPY_IN_MS
    assert metrics["compute_ms/p50"].value == COMPUTE_MS
    assert metrics["d2h_ms/p50"].value == COPY_OUT_MS
    assert metrics["stages_sum_ms/p50"].value == 12
    assert metrics["end_to_end_ms/p50"].value == pytest.approx(7.2)
    assert metrics["overlap_ratio/p50"].value == pytest.approx(OVERLAP_RATIO, abs=0.001)
    assert metrics["h2d_bytes_per_s/p50"].value == pytest.approx(12 / 0.003)
    assert metrics["d2h_bytes_per_s/p50"].value == pytest.approx(16 / 0.002)


def test_on_the_cpu_the_copies_are_absent_not_zero() -> None:
    assert tuple(passes_of("cpu").stages_ns) == ("prepare", "compute", "post")
