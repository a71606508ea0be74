"""Summaries: what follows from the observations of trials."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.measurement import ProcessRecord, fresh
from benchorch.domain.result import TrialResult
from benchorch.formatting import interval_text
from benchorch.progress import Say, counted, silent
from benchorch.results.metrics.cost import (
    busy_items_per_s,
    cost_warnings,
    unpriced_tokens,
    usd_per_million_items,
)
from benchorch.results.metrics.generation import generation_metrics
from benchorch.results.metrics.latency import (
    floors_ms,
    latency_metrics,
    median_ms,
    queries_ms,
    throughput,
)
from benchorch.results.metrics.load import is_steady, load_metrics
from benchorch.results.metrics.resources import resource_metrics, resource_warnings
from benchorch.results.metrics.speedup import (
    Question,
    answered_alone,
    answers,
    control,
    control_warnings,
    question,
)
from benchorch.results.metrics.warnings import profile_warnings, trial_warnings
from benchorch.stats.between_processes import over_processes
from benchorch.stats.moderated_variance import UsualSpread, usual_spread
from benchorch.stats.quantiles import without_interval
from benchorch.stats.speed_covariate import SpeedEffect, TimedTrial, speed_effect

ADJUSTED = "adjusted_latency_ms/p50"
LATENCY, RATE = "latency_ms/p50", "throughput_items_per_s/mean"
FLOOR = "latency_ms/p01"

_PRICED = {
    "input_tokens": "prefill_tokens_per_s/mean",
    "output_tokens": "decode_tokens_per_s/mean",
}
"""Priced units beside items, each with the rate at which a machine processes it."""
FEW_PROCESSES = (3, 4)
"""Their intervals are moderated by the spreads of the other trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFindings:
    """Findings of one trial, before it is compared within its table.

    Attributes:
        summary: everything but the comparison.
        asked: what is to be compared; None where nothing is.
        baseline_id: the trial it is to be compared with, or None.
        machine: where it ran; trials of one machine lend each other their spread.
        medians_ms, rates_per_s, floors_ms: of each process that counts, where queries come one by
            one.
        around: of all processes, rejected ones included, with the reference workload around each;
            None where there was none.
    """

    summary: Summary
    asked: Question | None
    baseline_id: str | None
    machine: str = ""
    medians_ms: Sequence[float] = ()
    rates_per_s: Sequence[float] = ()
    floors_ms: Sequence[float] = ()
    around: TimedTrial | None = None

    def alone(self) -> Summary:
        """Summary with its comparison, as if it were the only one."""
        found = answered_alone(self.asked) if self.asked else None
        return replace(self.summary, speedup=found)


def finding(result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
    """Findings of a trial, read beside its baseline: a pure function of both."""
    result = result.beside(baseline)
    metrics = metrics_of(result, baseline)
    one_by_one = LATENCY in metrics
    return TrialFindings(
        machine=str(result.environment.get("host", "")),
        medians_ms=median_ms(result.valid) if one_by_one else (),
        rates_per_s=throughput(result.valid) if one_by_one else (),
        floors_ms=floors_ms([queries_ms(one) for one in result.valid]) if FLOOR in metrics else (),
        around=_around(result.processes) if one_by_one else None,
        summary=Summary(
            metrics=metrics,
            speedup=None,
            control=control(result),
            steady=bool(result.valid) and all(map(is_steady, result.valid)),
            warnings=(
                *_rehearsal(result),
                *_of_another_model(result, baseline),
                *control_warnings(result),
                *(result.parity.unwritten.values() if result.parity else ()),
                *trial_warnings(result, metrics),
                *resource_warnings(result, baseline),
                *profile_warnings(result.profile),
                *cost_warnings(result.prices),
                *(unpriced_tokens(result) if _PRICED["output_tokens"] in metrics else ()),
            ),
        ),
        asked=question(result, baseline),
        baseline_id=result.baseline_id,
    )


def summarise(result: TrialResult, baseline: TrialResult | None) -> Summary:
    """The estimates, the comparison and the warnings; from the same result always the same.

    Only processes that count are used. A trial that failed keeps whatever they observed before;
    without any, nothing follows. The comparison is read alone: `together` reads those of a table.

    Args:
        result: the trial's.
        baseline: the one it is compared with, or None if there is none or it has no result.
    """
    return finding(result, baseline).alone()


def summarise_all(results: Mapping[str, TrialResult], say: Say = silent) -> dict[str, Summary]:
    """Every trial's summary, by its identity; candidates of one baseline are read together."""
    return SweepFindings().summaries(results, say)


@final
class SweepFindings:
    """Findings of each result, recomputed only when it or its baseline changes."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[TrialResult, TrialResult | None, TrialFindings]] = {}

    def of(self, result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
        """Findings of a trial and its baseline."""
        cached = self._cached.get(result.trial_id)
        if cached is None or cached[0] is not result or cached[1] is not baseline:
            cached = (result, baseline, finding(result, baseline))
            self._cached[result.trial_id] = cached
        return cached[2]

    def summaries(
        self, results: Mapping[str, TrialResult], say: Say = silent
    ) -> dict[str, Summary]:
        """Summaries of one table by trial id.

        Args:
            say: called with how far it is, where it takes longer than a moment.
        """
        lines = counted(results.items(), "deriving figures", say)
        return together({name: self.of(one, baseline_of(one, results)) for name, one in lines})


def baseline_of(result: TrialResult, results: Mapping[str, TrialResult]) -> TrialResult | None:
    """Baseline of a trial; None without one, or if it has no result."""
    return results.get(result.baseline_id or "")


def together(findings: Mapping[str, TrialFindings]) -> dict[str, Summary]:
    """The summaries of one table, by the trials' identities.

    Candidates of one baseline are one family: the same model, workload, hardware and scenario, and
    one question, which conversion is best. The more of them, the wider their intervals, so that a
    table of identical candidates has a winner no more often than a single comparison has.
    """
    machines = _machines(findings.values())
    found: dict[str, Summary] = {}
    for name, one in findings.items():
        machine = machines[one.machine]
        found[name] = _adjusted(_moderated(one, machine), one, machine.effect)
    families: dict[str, dict[str, Question]] = {}
    for name, one in findings.items():
        if one.asked is not None and one.baseline_id is not None:
            families.setdefault(one.baseline_id, {})[name] = one.asked
    for baseline_id, family in families.items():
        shown, baseline = answers(family, baseline_id), found.get(baseline_id)
        for name, comparison in shown.comparisons.items():
            own = found[name]
            if baseline is not None:
                comparison = _as_known(comparison, baseline, own)
            more = tuple(_irreconcilable(own, baseline, comparison)) if baseline else ()
            found[name] = replace(own, speedup=comparison, warnings=(*own.warnings, *more))
        for name in {*shown.judged, baseline_id} & found.keys():
            found[name] = replace(found[name], best=shown.best)
    return found


def _around(processes: Sequence[ProcessRecord]) -> TimedTrial | None:
    """Times and reference workloads of processes that have both."""
    measured = [p for p in processes if p.observations.durations_ns]
    both = [
        (time, reference)
        for time, reference in zip(median_ms(measured), map(_reference_ns, measured), strict=True)
        if reference and time > 0
    ]
    if not both:
        return None
    times, references = zip(*both, strict=True)
    return TimedTrial(times=times, references=references)


def _reference_ns(process: ProcessRecord) -> float | None:
    """The reference workload around a process: the geometric mean of before and after."""
    before, after = process.conditions.canary_before_ns, process.conditions.canary_after_ns
    return math.sqrt(before * after) if before and after else None


def _adjusted(summary: Summary, one: TrialFindings, effect: SpeedEffect | None) -> Summary:
    """Summary adjusted to the machine's usual speed during the trial, if that matters."""
    plain = summary.metrics.get(LATENCY)
    adjusted = effect.adjusted(one.around, unit="ms") if effect and one.around else None
    if adjusted is None or plain is None:
        return summary
    metrics = {**summary.metrics, ADJUSTED: adjusted}
    low, high = adjusted.low, adjusted.high
    if low is None or high is None or low <= plain.value <= high:
        return replace(summary, metrics=metrics)
    warning = (
        f"The machine's own speed moved p50: it is {interval_text(plain)} ms as measured and "
        f"{interval_text(adjusted)} ms at the speed that the machine usually had during the run. "
        "Ratios to the baseline do not depend on it."
    )
    return replace(summary, metrics=metrics, warnings=(*summary.warnings, warning))


def _as_known(comparison: Comparison, baseline: Summary, own: Summary) -> Comparison:
    """The comparison, whose single pair is known no better than the two medians are.

    A pair gives no spread: the quotients of all medians that were seen stand for it.
    """
    ratio = comparison.ratio
    above, below = baseline.metrics.get(LATENCY), own.metrics.get(LATENCY)
    if ratio.n > 1 or not (above and above.seen and below and below.seen) or below.seen[0] <= 0:
        return comparison
    seen = above.seen[0] / below.seen[1], above.seen[1] / below.seen[0]
    return replace(comparison, ratio=replace(ratio, seen=seen))


def _irreconcilable(own: Summary, baseline: Summary, comparison: Comparison) -> Iterator[str]:
    """Warnings that the ratio visibly differs from the quotient of the two medians."""
    ratio, medians = comparison.ratio, [one.metrics.get(LATENCY) for one in (baseline, own)]
    if ratio.low is None or ratio.high is None or medians[0] is None or medians[1] is None:
        return
    quotient = medians[0].value / medians[1].value
    if not ratio.low <= quotient <= ratio.high:
        yield (
            f"The two medians have a quotient of {quotient:.3g}, the pairs a ratio of "
            f"{ratio.value:.3g}: medians are measured minutes apart and pairs together, so the "
            "ratio is the better number. For medians that agree with it, try a quieter machine."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What the trials of one machine show together.

    Attributes:
        medians, floors: how much processes of one trial usually differ.
        effect: how its speed moved the times of its trials; None where that is unknown.
    """

    medians: UsualSpread
    floors: UsualSpread
    effect: SpeedEffect | None


def _machines(findings: Iterable[TrialFindings]) -> dict[str, _Machine]:
    """What its trials show of each machine, by its name."""
    machines: dict[str, list[TrialFindings]] = {}
    for one in findings:
        machines.setdefault(one.machine, []).append(one)
    return {
        machine: _Machine(
            medians=usual_spread(one.medians_ms for one in trials),
            floors=usual_spread(one.floors_ms for one in trials),
            effect=speed_effect([one.around for one in trials if one.around]),
        )
        for machine, trials in machines.items()
    }


def _moderated(one: TrialFindings, usual: _Machine) -> Summary:
    """The summary, the intervals of three or four processes moderated by the other trials."""
    summary = one.summary
    if usual.medians.assumed or len(one.medians_ms) not in FEW_PROCESSES:
        return summary
    metrics = dict(summary.metrics)
    for name, values, spread in (
        (LATENCY, one.medians_ms, usual.medians),
        (RATE, one.rates_per_s, usual.medians),
        (FLOOR, one.floors_ms, usual.floors),
    ):
        new = over_processes(values, unit=metrics[name].unit, usual=spread) if values else None
        if new is not None and metrics[name].low is not None:
            metrics[name] = new
    rate = metrics[RATE]
    for name, cost in summary.metrics.items():
        if name.startswith("cost_usd_per_million_items/") and rate.low and rate.high:
            by = cost.value * rate.value
            metrics[name] = replace(cost, low=by / rate.high, high=by / rate.low)
    return replace(summary, metrics=metrics)


def metrics_of(result: TrialResult, baseline: TrialResult | None) -> dict[str, Estimate]:
    """Every estimate by its metric's name."""
    metrics = {
        **_timings(result),
        **_costs(result),
        **resource_metrics(result, baseline),
    }
    return {**metrics, **_prices(result, metrics)}


def _rehearsal(result: TrialResult) -> Iterator[str]:
    """Warning that the machine was simulated."""
    if result.environment.get("rehearsed"):
        kind = result.labels.get("hardware_kind", "another machine")
        yield (
            f"rehearsed: measured on this machine, which only played {kind}; executor=ec2 or "
            "executor=ray measures on one."
        )


def _of_another_model(result: TrialResult, baseline: TrialResult | None) -> Iterator[str]:
    """Warning that the baseline's row was measured before or after the model changed."""
    own, other = result.build, baseline.build if baseline else None
    if own is not None and other is not None and own.is_of_another_model(other):
        yield (
            "Its model is not that of the baseline's row: code, weights, packages or variables "
            "that it depends on have changed in between: try benchorch rerun without --only."
        )


def _timings(result: TrialResult) -> Mapping[str, Estimate]:
    loaded = any(process.observations.loads for process in result.valid)
    found = dict((load_metrics if loaded else latency_metrics)(result.valid))
    found |= generation_metrics(result.valid)
    measured = [process for process in result.processes if process.observations.durations_ns]
    if LATENCY in found and len(measured) > len(result.valid):
        every = over_processes(median_ms(measured), unit="ms")
        found |= {"unrejected_latency_ms/p50": every} if every else {}
    return found


def _costs(result: TrialResult) -> Mapping[str, Estimate]:
    """Estimates that are not of timed calls: start, memory, build."""
    processes = fresh(result.valid)
    found = {
        "load_s/p50": over_processes([p.load_s for p in processes], unit="s"),
        "first_call_s/p50": over_processes([p.first_call_s for p in processes], unit="s"),
    }
    totals = dict(_totals(result))
    return {**{name: e for name, e in found.items() if e is not None}, **totals}


def _prices(result: TrialResult, metrics: Mapping[str, Estimate]) -> Mapping[str, Estimate]:
    """Cost of a million items, and of tokens, in each market with a known price."""
    if not result.valid:
        return {}
    observed = [process.observations for process in result.valid]
    items_per_query = statistics.fmean(one.items_per_call for one in observed)
    has_target = any(load.target_ms is not None for one in observed for load in one.loads)
    items = busy_items_per_s(metrics, items_per_query, has_target=has_target)
    rates = [("items", items), *((what, metrics.get(rate)) for what, rate in _PRICED.items())]
    return {
        f"cost_usd_per_million_{what}/{price.market}": usd_per_million_items(
            rate, price.usd_per_hour
        )
        for what, rate in rates
        for price in result.prices
        if rate is not None and rate.value > 0
    }


def _totals(result: TrialResult) -> Iterator[tuple[str, Estimate]]:
    peaks = [p.peak_rss_bytes for p in fresh(result.valid)]
    if peaks:
        yield "peak_rss_bytes/max", without_interval(max(peaks), "bytes", "maximum", len(peaks))
    build = result.build
    if build is not None and build.cache != "none":
        yield "build_s/total", without_interval(build.build_s, "s", "this trial's")
        yield (
            "original_build_s/total",
            without_interval(build.original_build_s, "s", "when it was made"),
        )
        yield (
            "artifact_bytes/total",
            without_interval(build.artifact_bytes, "bytes", "sum of files"),
        )
