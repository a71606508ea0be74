"""Whole runs on disk, made of drawn numbers: what commands read without anything being measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchorch.domain.codec import Json
from benchorch.domain.execution import Execution
from benchorch.domain.measurement import (
    Calibration,
    Conditions,
    DeviceMemory,
    Load,
    Memory,
    Observations,
    Paired,
    ProcessRecord,
    TransferBreakdown,
)
from benchorch.domain.price import Market, Price
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import (
    BuildRecord,
    EnergyRecord,
    EnergyWindow,
    Failure,
    ModelCounts,
    Outcome,
    TrialResult,
)
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.domain.verdict import OutputParity, SliceParity, TokenParity, Verdict
from benchorch.journal import run_directory
from benchorch.results.compare.compatibility import excused_by
from benchorch.results.compare.load_run import evidence_of, stored
from benchorch.results.compare.matching import Match
from benchorch.results.compare.metric_kinds import LATENCY
from benchorch.results.compare.stored_run import RunResults, StoredTrial
from benchorch.results.compare.verdicts import MetricVerdict, compare_cases
from benchorch.results.metrics.summary import summarise_all

CALIBRATION = Calibration(pair_cost_ns=40, step_ns=10, loop_turn_ns=9)
CANARY_NS = 30e6
ENVIRONMENT: Mapping[str, Json] = {
    "host": "node-1",
    "cpu_model": "Some CPU",
    "cpu_physical_count": 2,
    "cpu_governor": None,
    "kernel": "6.1",
    "python": "3.11.7",
    "load_average": [0.5, 0.3, 0.2],
    "packages": {"torch": "2.13.0"},
}
AGREES = Verdict(
    passed=True,
    reasons=(),
    outputs=(
        OutputParity(
            name="0",
            max_abs=0.0,
            relative_l2_ratio=1e-7,
            cosine_ratio=1.0,
            argmax_agreement_ratio=1.0,
        ),
    ),
    tolerance_ratio=1e-3,
)
DISAGREES = replace(AGREES, passed=False, reasons=("output 0 is off by 0.5",))
OOM = Failure(stage="measure", kind="oom", message="no memory", detail="a long traceback")


def trial(
    conversion: str = "eager",
    /,
    *,
    axes: str = "",
    baseline: Trial | None = None,
    labels: Mapping[str, str] | None = None,
    **nodes: Mapping[str, Json],
) -> Trial:
    """A trial whose identity follows from its spec, as a real one's does."""
    spec: dict[str, Json] = {
        "model": {"_target_": "benchorch.models.mlp.Mlp", "widths": [8, 4]},
        "workload": {"batch_size": 1, "dtype": "float32", "seed": 0},
        "conversion": {"description": conversion, "steps": {}, "runtime": {"_target_": conversion}},
        "hardware": {"kind": "local", "threads": None, "conversions": ["eager"]},
        "scenario": {"_target_": "benchorch.scenarios.single_stream.SingleStream"},
        "stopping": {"_target_": "benchorch.stopping.fixed.Fixed", "processes": 10},
        "protocol": {"pin": True, "cold_caches": False, "delta_ratio": 0.01},
    }
    for name, node in nodes.items():
        spec[name] = {**spec[name], **node}  # type: ignore[dict-item]
    content = json.dumps(spec, sort_keys=True).encode()
    told = {
        "model": "mlp",
        "conversion": conversion,
        "hardware": "local",
        "scenario": "single_stream",
        "hardware_kind": "local",
        "workload": f"batch_size={spec['workload']['batch_size']}",  # type: ignore[index,call-overload]
        "axes": axes,
        **(labels or {}),
    }
    return Trial(
        trial_id=hashlib.sha256(content).hexdigest()[:16],
        labels=told,
        spec=spec,
        baseline_id=None if baseline is None else baseline.trial_id,
        baseline_conversion=None,
    )


def series(call_ns: float, rng: np.random.Generator, n: int = 40) -> Observations:
    """Blocks of one call, 1 % apart, one right after the other."""
    durations = np.maximum(1, call_ns * rng.lognormal(0, 0.01, n)).astype(int).tolist()
    starts = np.cumsum([0, *durations])[:-1].tolist()
    return Observations(
        durations_ns=tuple(durations),
        started_ns=tuple(starts),
        calls_per_block=1,
        items_per_call=1,
        preempted=(False,) * n,
        cpu_ns=tuple(durations),
    )


def result(
    of: Trial,
    call_ns: float = 1e6,
    *,
    seed: int = 0,
    processes: int = 10,
    process_spread: float = 0.002,
    canaries_ns: tuple[float, float] | None = (CANARY_NS, CANARY_NS),
    memory_ns: float | None = None,
    baseline_ns: float | None = None,
    steady: bool = True,
    threads: int = 2,
    rss: int = 10**8,
    environment: Mapping[str, Json] | None = None,
    **fields: Any,
) -> TrialResult:
    """A result of processes whose medians spread a little about `call_ns`.

    Args:
        canaries_ns: the fastest and the slowest canary, in turn before and after; None is none.
        memory_ns: the time of copies around each, which spreads as the processes do.
        baseline_ns: what each process saw of its baseline in turns with it; None where it did not.
    """
    rng = np.random.default_rng([seed, int(call_ns)])
    levels = call_ns * rng.lognormal(0, process_spread, processes)

    def record(index: int, level: float) -> ProcessRecord:
        paired = None
        if baseline_ns is not None:
            own, other = (series(scale * level, rng) for scale in (1, baseline_ns / call_ns))
            paired = Paired(
                baseline_id=str(of.baseline_id), design="alternated", ours=own, theirs=other
            )
        before, after = canaries_ns or (None, None)
        return ProcessRecord(
            load_s=0.5 + 0.001 * index,
            first_call_s=0.1 + 0.001 * index,
            observations=series(level, rng),
            steady_from=0 if steady else None,
            calibration=CALIBRATION,
            peak_rss_bytes=rss + index,
            facts={"dtype": "float32", "threads": threads, "provider": "x", "device": "cpu"},
            paired=paired,
            conditions=Conditions(
                canary_before_ns=before,
                canary_after_ns=after,
                memory_before_ns=memory_ns and memory_ns * level / call_ns,
                memory_after_ns=memory_ns and memory_ns * level / call_ns,
            ),
        )

    told: dict[str, Any] = {
        "outcome": Outcome.OK,
        "parity": AGREES,
        "build": BuildRecord(
            key="k", cache="miss", build_s=3.0, original_build_s=3.0, artifact_bytes=1000,
            model_digest="weights",
        ),
        "stop_reason": "fixed",
        "started_at": f"2026-01-01T00:00:{seed % 60:02d}.000+00:00",
        "grade": "A",
        **fields,
    }  # fmt: skip
    return TrialResult(
        trial_id=of.trial_id,
        labels=of.labels,
        processes=tuple(record(i, float(level)) for i, level in enumerate(levels)),
        environment={**ENVIRONMENT, **(environment or {})},
        baseline_id=of.baseline_id,
        **told,
    )


def price(kind: str, usd_per_hour: float, market: Market = Market.ON_DEMAND) -> Price:
    """A declared price."""
    return Price(
        kind=kind,
        market=market,
        usd_per_hour=usd_per_hour,
        region="r",
        as_of="2026",
        source="config",
    )


def with_every_part(found: TrialResult, *, served: bool = False) -> TrialResult:
    """The same result with every part that one may have.

    Args:
        served: whether its queries arrived by a schedule.
    """
    verdict = replace(
        AGREES,
        outputs=(
            replace(AGREES.outputs[0], slices=(SLICES,), signal_to_noise_db=90.0, ulp_p50=1.0),
        ),
        tokens=TOKENS,
        noise_ratio=0.0,
        unwritten={"x": "eager writes input x in place, and this conversion does not."},
        metric="m:f",
        score=0.9,
        least_score=0.5,
    )
    window = EnergyWindow(joules=400.0, seconds=10.0, calls=100, updates=200, busy_ratio=0.5)
    spot = price("local", 1.0, Market.SPOT)
    return replace(
        found,
        processes=tuple(_whole_process(process, served) for process in found.processes),
        parity=verdict,
        stages_s={"build": 3.0, "measure": 40.0},
        counts=ModelCounts(
            parameters=10, parameter_bytes=40, macs=10**9, flops=2 * 10**9, uncounted={"aten::x": 2}
        ),
        energy=EnergyRecord(source="rapl", idle_w=20.0, windows=(window,) * 3, items_per_call=1),
        profile=ProfileRecord(
            profiler="torch",
            trace="profile/trace.json",
            unprofiled_ns=(10**6,) * 5,
            profiled_ns=(11 * 10**5,) * 5,
            bottleneck=BottleneckVerdict(
                limit="device compute",
                sentence="It computes.",
                critical_path_ns=10**6,
                classes_ns={"compute": 9 * 10**5, "launch": 10**5},
                largest="linear",
                largest_gain_ratio=0.4,
            ),
        ),
        prices=(spot, replace(spot, market=Market.ON_DEMAND, least_usd_per_hour=0.5)),
        execution=Execution(requested="float16", executed="float16", executed_ratio=0.9, casts=3),
        stop_looks=(5, 8, 10),
    )


SLICES = SliceParity(
    cut="row", allowed_ratio=0.1, tenth_ratio=0.01, worst_ratio=0.02, worst="row 3"
)
TOKENS = TokenParity(
    positions=10,
    agreeing=9,
    first_divergence=3,
    first_divergence_input=0,
    divergence_nats=(0.1, 0.0),
    perplexity=5.0,
    baseline_perplexity=5.1,
)


def _whole_process(process: ProcessRecord, served: bool) -> ProcessRecord:
    own = process.observations
    more: dict[str, Any] = {
        "issue_ns": own.durations_ns,
        "device_ns": own.durations_ns,
        "events": {"collection": (1, 2)},
        "token_ns": tuple(part for one in own.durations_ns for part in (one // 2, one // 4)),
        "tokens_per_call": 2,
    }
    if served:
        load = Load(
            rate_per_s=500.0, first=0, end=len(own.durations_ns), seed=0, arrivals="poisson",
            target_ms=5.0, utilisation_ratio=0.5, ttft_target_ms=3.0, tpot_target_ms=2.0,
        )  # fmt: skip
        more |= {"loads": (load,), "scheduled_ns": tuple(max(0, at - 9) for at in own.started_ns)}
    return replace(
        process,
        observations=replace(own, **more),
        facts={**process.facts, "prompt_tokens": 50, "new_tokens": 3},
        memory=Memory(
            start=100, loaded=300, peak=450, after=320,
            device=DeviceMemory(allocated=1, reserved=2, process=3),
        ),
        split=TransferBreakdown(
            stages_ns={"h2d": (2000, 3000), "compute": (7000, 7000), "d2h": (2000, 2000)},
            joined_ns=(9000, 12000),
            stage_bytes={"h2d": 600, "d2h": 100},
            host_memory="pageable",
        ),
        conditions=replace(
            process.conditions, cpus=(0,), threads=2, steal_ratio=0.01, foreign_ratio=0.01,
            waited_ratio=0.0, throttled_periods=0, frequency_khz=(2e6, 2.1e6),
            device={"sm_clock_mhz": [1000, 1100]},
        ),
    )  # fmt: skip


def failed(of: Trial, failure: Failure = OOM) -> TrialResult:
    """A trial that came to nothing."""
    return result(of, processes=0, outcome=Outcome.FAILED, failure=failure, parity=None, build=None)


def write_run(
    directory: Path,
    *pairs: tuple[Trial, TrialResult | None],
    plan_id: str = "",
    skips: tuple[Skip, ...] = (),
) -> Path:
    """A run's directory as the pipeline leaves it, but for what only people read."""
    directory.mkdir(parents=True)
    plan = Plan(
        plan_id=plan_id or f"plan-{directory.name}",
        name="benchorch",
        trials=tuple(trial for trial, _ in pairs),
        skips=skips,
        session={},
    )
    run_directory.write_plan(directory, plan)
    for _, found in pairs:
        if found is not None:
            run_directory.append_result(directory, found, {})
    return directory


def session(plan_id: str, *pairs: tuple[Trial, TrialResult]) -> list[StoredTrial]:
    """Trials of one session, as they are kept without their raw series."""
    results = {trial.trial_id: found for trial, found in pairs}
    plan = Plan(plan_id=plan_id, name="", trials=tuple(t for t, _ in pairs), skips=(), session={})
    return list(stored(run_results(plan, results), plan_id).trials)


def run_results(plan: Plan, results: Mapping[str, TrialResult]) -> RunResults:
    """What the tables of a run are made of, its directory aside."""
    return RunResults(
        directory=Path("somewhere"), plan=plan, results=results, summaries=summarise_all(results)
    )


def once(
    plan_id: str, call_ns: float = 1e6, *, of: Trial | None = None, **fields: Any
) -> StoredTrial:
    """The only trial of a session whose noise is its own."""
    of = of or trial()
    seed = sum(map(ord, plan_id))
    return session(plan_id, (of, result(of, call_ns, seed=seed, **fields)))[0]


def brief(of: Trial, **fields: Any) -> StoredTrial:
    """A trial of one process, to compare its fields."""
    found = result(of, processes=1, **fields)
    return StoredTrial(
        plan_id="p",
        trial=of,
        result=replace(found, processes=()),
        evidence=evidence_of(found),
    )


def verdict(a: StoredTrial, b: StoredTrial, metric: str = LATENCY, *across: str) -> MetricVerdict:
    """B against A, read alone."""
    case = Match(name="x", a=a, b=b), metric
    return compare_cases([case], across=excused_by(across))[0]
