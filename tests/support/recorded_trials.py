"""A plan of one trial with its summary, and a measuring process, for tests of recorders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Estimate, Summary
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.trial import Plan, Skip, Trial

TRIAL = Trial(
    trial_id="00000000000000aa",
    labels={"model": "mlp", "workload.batch_size": "8"},
    spec={"model": {"width": 8}},
)
PLAN = Plan(
    plan_id="20261120-101500-1f3a",
    name="night run",
    trials=(TRIAL,),
    skips=(Skip(labels={"model": "bert"}, reason="no GPU"),),
    session={},
)
SUMMARY = Summary(
    metrics={
        "latency_ms/p50": Estimate(
            value=2.0, low=1.0, high=3.0, level_ratio=0.95, n=5, unit="ms", method="median"
        )
    },
    speedup=None,
    steady=True,
)


def process_record(
    durations_ns: Sequence[int], facts: Mapping[str, Json] | None = None
) -> ProcessRecord:
    """One process with these calls."""
    return ProcessRecord(
        load_s=0,
        first_call_s=0,
        observations=Observations(
            durations_ns=tuple(durations_ns),
            started_ns=tuple(range(len(durations_ns))),
            calls_per_block=1,
            items_per_call=1,
        ),
        steady_from=0,
        calibration=Calibration(pair_cost_ns=1, step_ns=1),
        peak_rss_bytes=1,
        facts=facts or {},
    )
