"""What follows from the observations of trials?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchorch.analysis.cost import usd_per_million_items
from benchorch.analysis.doubts import doubts
from benchorch.analysis.latency import latency_metrics
from benchorch.analysis.load import load_metrics
from benchorch.analysis.processes import over_processes
from benchorch.analysis.profiled import profile_doubts
from benchorch.analysis.quantiles import LEVEL_RATIO
from benchorch.analysis.resources import resource_doubts, resource_metrics
from benchorch.analysis.speedup import Question, question, speedup, speedups
from benchorch.domain.estimate import Estimate, Summary
from benchorch.domain.result import TrialResult


def summarise(result: TrialResult, baseline: TrialResult | None) -> Summary:
    """The estimates, the comparison and the doubts; from the same result always the same.

    Only processes that count are looked at. A trial that failed keeps whatever they saw before;
    without any, nothing follows. The comparison is read alone: `summarise_all` reads those of a
    table together.

    Args:
        result: the trial's.
        baseline: the one it is compared with, or None if there is none or it has no result.
    """
    return replace(_alone(result, baseline), speedup=speedup(result, baseline))


def summarise_all(results: Mapping[str, TrialResult]) -> dict[str, Summary]:
    """Every trial's summary, by its identity; candidates of one baseline are read together.

    Those are one family: the same model, workload, hardware and scenario, and one question, which
    conversion is best. The more of them, the wider their intervals, so that a table of identical
    candidates has a winner no more often than a single comparison has.
    """
    found: dict[str, Summary] = {}
    families: dict[str, dict[str, Question]] = {}
    for name, result in results.items():
        baseline = results.get(result.baseline_id or "")
        found[name] = _alone(result, baseline)
        asked = question(result, baseline)
        if asked is not None and result.baseline_id is not None:
            families.setdefault(result.baseline_id, {})[name] = asked
    for family in families.values():
        for name, comparison in speedups(family).items():
            found[name] = replace(found[name], speedup=comparison)
    return found


def _alone(result: TrialResult, baseline: TrialResult | None) -> Summary:
    """Everything but the comparison."""
    metrics = {
        **_timings(result),
        **_costs(result),
        **resource_metrics(result, baseline),
    }
    metrics |= _prices(result, metrics)
    return Summary(
        metrics=metrics,
        speedup=None,
        steady=bool(result.valid) and all(p.steady_from is not None for p in result.valid),
        warnings=(
            *_rehearsal(result),
            *doubts(result, metrics),
            *resource_doubts(result, baseline),
            *profile_doubts(result.profile),
        ),
    )


def _rehearsal(result: TrialResult) -> Iterator[str]:
    """That the machine was only played, where it was."""
    if result.environment.get("rehearsed"):
        kind = result.labels.get("hardware_kind", "another machine")
        yield (
            f"rehearsed: measured on this machine, which only played {kind}; executor=ec2 or "
            "executor=ray measures on one."
        )


def _timings(result: TrialResult) -> Mapping[str, Estimate]:
    loaded = any(process.observations.loads for process in result.valid)
    return (load_metrics if loaded else latency_metrics)(result.valid, result.stop_alpha)


def _costs(result: TrialResult) -> Mapping[str, Estimate]:
    """Estimates that are not of timed calls: start, memory, build."""
    processes = result.valid
    found = {
        "load_s/p50": over_processes([p.load_s for p in processes], unit="s"),
        "first_call_s/p50": over_processes([p.first_call_s for p in processes], unit="s"),
    }
    totals = dict(_totals(result))
    return {**{name: e for name, e in found.items() if e is not None}, **totals}


def _prices(result: TrialResult, metrics: Mapping[str, Estimate]) -> Mapping[str, Estimate]:
    """What a million items cost in each market whose price is known."""
    rate = metrics.get("throughput_items_per_s/mean")
    if rate is None or rate.value <= 0:
        return {}
    return {
        f"cost_usd_per_million_items/{price.market}": usd_per_million_items(
            rate, price.usd_per_hour
        )
        for price in result.prices
    }


def _totals(result: TrialResult) -> Iterator[tuple[str, Estimate]]:
    peaks = [p.peak_rss_bytes for p in result.valid]
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
