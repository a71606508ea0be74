"""What follows from one trial's observations?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchorch.analysis.compare import compare
from benchorch.analysis.doubts import doubts
from benchorch.analysis.latency import latency_metrics, levels_ms, median_ms
from benchorch.analysis.processes import over_processes
from benchorch.analysis.quantiles import LEVEL_RATIO
from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.result import Outcome, TrialResult


def summarise(result: TrialResult, baseline: TrialResult | None) -> Summary:
    """The estimates, the comparison and the doubts; from the same result always the same.

    A trial that failed keeps whatever its processes saw before; without any, nothing follows.

    Args:
        result: the trial's.
        baseline: the one it is compared with, or None if there is none or it has no result.
    """
    processes = [p for p in result.processes if p.observations.durations_ns]
    metrics = {**latency_metrics(processes), **_costs(result)}
    return Summary(
        metrics=metrics,
        speedup=_speedup(result, baseline),
        steady=_steady(result),
        warnings=doubts(processes, metrics, result.stop_reason),
    )


def _costs(result: TrialResult) -> Mapping[str, Estimate]:
    """Estimates that are not of timed calls: start, memory, build."""
    processes = result.processes
    found = {
        "load_s/p50": over_processes([p.load_s for p in processes], unit="s"),
        "first_call_s/p50": over_processes([p.first_call_s for p in processes], unit="s"),
    }
    totals = dict(_totals(result))
    return {**{name: e for name, e in found.items() if e is not None}, **totals}


def _totals(result: TrialResult) -> Iterator[tuple[str, Estimate]]:
    peaks = [p.peak_rss_bytes for p in result.processes]
    if peaks:
        yield "peak_rss_bytes/max", _exact(max(peaks), "bytes", "maximum", len(peaks))
    build = result.build
    if build is not None and build.cache != "none":
        yield "build_s/total", _exact(build.build_s, "s", "this trial's", 1)
        yield "original_build_s/total", _exact(build.original_build_s, "s", "when it was made", 1)
        yield "artifact_bytes/total", _exact(build.artifact_bytes, "bytes", "sum of files", 1)


def _exact(value: float, unit: str, method: str, n: int) -> Estimate:
    return Estimate(
        value=float(value),
        low=None,
        high=None,
        level_ratio=LEVEL_RATIO,
        n=n,
        unit=unit,
        method=method,
    )


def _steady(result: TrialResult) -> bool:
    return bool(result.processes) and all(p.steady_from is not None for p in result.processes)


def _speedup(result: TrialResult, baseline: TrialResult | None) -> Comparison | None:
    """The ratio with its verdict; None for a baseline, and where either has nothing to compare."""
    if baseline is None or baseline.trial_id == result.trial_id:
        return None
    if not (_comparable(result) and _comparable(baseline)):
        return None
    found = compare(_medians_ms(result), _medians_ms(baseline))
    if found is None:
        return None
    ours, theirs = _threads(result), _threads(baseline)
    if None not in (ours, theirs) and ours != theirs:
        reason = f"threads differ: {ours} against the baseline's {theirs}"
        return replace(found, verdict="inconclusive", reason=reason)
    return found if _steady(result) and _steady(baseline) else _at_worst(found, result, baseline)


def _at_worst(found: Comparison, result: TrialResult, baseline: TrialResult) -> Comparison:
    """The verdict of sides that never settled, if even their worst levels support it."""
    ours, theirs = _levels_ms(result), _levels_ms(baseline)
    least_favourable = {"faster": (ours[1], theirs[0]), "slower": (ours[0], theirs[1])}
    sides = least_favourable.get(found.verdict)
    worst = compare(*sides) if sides else None
    if worst is not None and worst.verdict == found.verdict:
        return replace(found, reason="not steady, but every level seen supports it")
    return replace(found, verdict="inconclusive", reason="no steady state")


def _medians_ms(result: TrialResult) -> Sequence[float]:
    return median_ms([p for p in result.processes if p.observations.durations_ns])


def _levels_ms(result: TrialResult) -> tuple[list[float], list[float]]:
    """The fastest and the slowest level of each process."""
    seen = [levels_ms(p) for p in result.processes if p.observations.durations_ns]
    return [fast for fast, _ in seen], [slow for _, slow in seen]


def _comparable(result: TrialResult) -> bool:
    right = result.parity is None or result.parity.passed
    return right and result.outcome is Outcome.OK


def _threads(result: TrialResult) -> Json:
    return result.processes[0].facts.get("threads")
