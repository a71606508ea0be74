"""Warnings about a trial under load, the gravest first, each with what to do."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.formatting import percent
from benchorch.results.metrics.load import (
    CAPACITY,
    CONFIRMATION,
    at_one_rate,
    capacity_of,
    not_confirmed,
    offered_stretches,
    peaks_of,
    quantile_over,
    seen_under_load,
    to_ms,
    unstable,
    verdict,
)
from benchorch.stats.binomial_bound import Target, TargetStatus, target_of
from benchorch.stats.peak_rate import never
from benchorch.stats.quantiles import minimum_n, sample_quantile
from benchorch.stats.queueing import LoadPhase, disagreement_ratio, lateness_ns, steady, stretches
from benchorch.units import NS_PER_MS, NS_PER_US, format_ms

MOST_LATE_RATIO = 0.05
MOST_LATE_NS = 100 * NS_PER_US
"""Lateness of the generator, at p99: more of a median response, or more at all, shows."""

MOST_DISAGREEMENT_RATIO = 0.001
WIDE_RATIO = 0.05


def load_warnings(processes: Sequence[ProcessRecord]) -> tuple[str, ...]:
    """Warnings about a trial under load, the gravest first, each with what to do."""
    observations = seen_under_load(processes)
    if not observations:
        return ()
    mains = at_one_rate(observations)
    return (
        *_contradiction(observations),
        *_never(observations),
        *_overload(mains),
        *_unanswered(observations),
        *_missed(mains),
        *_late(observations),
        *_unsettled(observations),
        *_few(mains),
        *_wide_peak(observations),
        *_no_probe(observations),
    )


def _contradiction(observations: Sequence[Observations]) -> Iterator[str]:
    found = [disagreement_ratio(s) for observed in observations for s in stretches(observed)]
    worst = max(found, default=0.0)
    if worst > MOST_DISAGREEMENT_RATIO:
        yield (
            f"The times of the queries contradict each other by {percent(worst)}: replaying the "
            "schedule through the queue gives other responses than were measured. Do not use "
            "these figures; run it again, and if it repeats, this machine's clock cannot be "
            "trusted."
        )


def _never(observations: Sequence[Observations]) -> Iterator[str]:
    refused = [target for observed in observations if (target := _refused(observed)) is not None]
    if not refused:
        return
    target = refused[0]
    limit = f"{format_ms(target.target_ms)} ms at {_quantile(target)}"
    if len(refused) == len(observations):
        yield (
            f"No rate can be served within {limit}: service alone, with nothing waiting, takes "
            "longer. Try a larger scenario.target_ms, a smaller workload.batch_size or another "
            "conversion."
        )
    else:
        named = "the highest rate is that of the others"
        if not peaks_of(observations):
            named = "no rate is named as within the target"
        yield (
            f"In {len(refused)} of {len(observations)} processes no rate could be served within "
            f"{limit}, as service alone took longer; {named}: try a quieter machine, or a larger "
            "scenario.target_ms."
        )


def _refused(observed: Observations) -> Target | None:
    """The target, where service alone took longer than that."""
    target, at_full_speed = target_of(observed.loads[-1]), capacity_of(observed)
    if target is None or at_full_speed is None or not never(at_full_speed, target):
        return None
    return target


def _overload(mains: Sequence[LoadPhase]) -> Iterator[str]:
    if not (mains and unstable(mains)):
        return
    offered = max(main.load.rate_per_s for main in mains)
    given_up = sum(main.load.unserved for main in mains)
    lost = f", and {given_up} queries were given up" if given_up else ""
    yield (
        f"Unstable: at {offered:.4g} queries a second the queue grew for as long as it was watched"
        f"{lost}. Quantiles of responses would grow with the run, so there are none: try a lower "
        "scenario.rate_per_s, or scenario.utilisation_ratio=0.5."
    )


def missed_warnings(observations: Sequence[Observations]) -> Iterator[str]:
    """Warning about calls without an answer, which are in no figure but their share."""
    calls = sum(len(each.durations_ns) * each.calls_per_block for each in observations)
    causes = Counter[str]()
    for observed in observations:
        causes.update({cause: len(blocks) for cause, blocks in observed.missed.items()})
    if causes:
        yield (
            f"{_missed_text(causes, calls)}. They are no items of the throughput: look at the "
            "server's log."
        )


def _unanswered(observations: Sequence[Observations]) -> Iterator[str]:
    """Queries without an answer at the rates that were offered or found, capacity apart.

    As in `missed_ratio/mean`, those of the first tenth do not count.
    """
    causes, queries, allowed = Counter[str](), 0, 0.0
    for observed in observations:
        for stretch in offered_stretches(observed):
            load = stretch.load
            counted = range(load.end - stretch.settled().due_ns.size, load.end)
            queries += len(counted)
            allowed = 1.0 - load.quantile_ratio
            for cause, places in observed.missed.items():
                causes[cause] += sum(place in counted for place in places)
    if not causes.total():
        return
    text = _missed_text(causes, queries)
    if causes.total() / queries > allowed:
        yield (
            f"Not sustained: {text}, more than the {percent(allowed)} that scenario.quantile_ratio "
            "allows. Times are of the answered queries alone: try a lower scenario.rate_per_s."
        )
    else:
        yield f"{text}. Times are of the answered queries alone: look at the server's log."


def _missed_text(causes: Counter[str], queries: int) -> str:
    counts = ", ".join(f"{cause}: {count}" for cause, count in causes.most_common() if count)
    share = percent(causes.total() / queries)
    return f"{share} of {queries} queries had no answer ({counts})"


def _missed(mains: Sequence[LoadPhase]) -> Iterator[str]:
    target = target_of(mains[0].load) if mains else None
    if target is None:
        return
    found, evidence = verdict(mains, target)
    share = percent(evidence.violations / evidence.queries)
    limit = format_ms(target.target_ms)
    all_answered = all(main.answered.all() for main in mains)
    late = "responses took" if all_answered else "queries had no answer or took"
    cause = f"{share} of {late} longer than {limit} ms"
    if unstable(mains):
        cause = f"the queue grew, so that in time every response takes longer than {limit} ms"
    withheld = not_confirmed(mains)
    if withheld or (found is TargetStatus.MISSED and mains[0].load.purpose == CONFIRMATION):
        advice = "No rate is named as within the target: try" if withheld else "Try"
        yield (
            f"The rate that the search found did not hold for a full run: {cause}. {advice} a "
            "larger scenario.budget_s, or a quieter machine."
        )
    elif found is TargetStatus.UNDECIDED:
        yield (
            f"Whether {_quantile(target)} stays within {limit} ms is not decided: {share} of "
            f"{late} longer, on the evidence of {evidence.queries:.0f} independent ones: "
            "try a longer scenario.duration_s."
        )
    elif found is TargetStatus.MISSED:
        yield (
            f"The target is missed: {cause}: try a lower scenario.rate_per_s; "
            f"scenario=peak_rate scenario.target_ms={target.target_ms:g} finds one that holds."
        )


def _late(observations: Sequence[Observations]) -> Iterator[str]:
    limited = 0.0
    offered = [s for o in observations for s in stretches(o) if s.load.purpose != CAPACITY]
    for s in offered:
        late_ns = sample_quantile(lateness_ns(s), 0.99)
        typical_ns = float(np.median(s.settled().response_ns))
        if late_ns > min(MOST_LATE_NS, MOST_LATE_RATIO * typical_ns):
            limited = max(limited, late_ns)
    if limited:
        yield (
            f"Generator limited: one query in a hundred was started more than "
            f"{format_ms(limited / NS_PER_MS)} ms later than it could have been, which is in its "
            "response: try a quieter machine, fewer hardware.threads, or fewer scenario.servers."
        )


def _unsettled(observations: Sequence[Observations]) -> Iterator[str]:
    found = [stretch for observed in observations for stretch in offered_stretches(observed)]
    unsettled = sum(steady(stretch) is False for stretch in found)
    if unsettled:
        yield (
            f"Service times had not settled after the first tenth of {unsettled} of "
            f"{len(found)} stretches: try a longer scenario.duration_s, or a quieter machine."
        )


def _few(mains: Sequence[LoadPhase]) -> Iterator[str]:
    if not mains or unstable(mains):
        return
    responses = [[to_ms(main.settled().with_answer().response_ns)] for main in mains]
    p99 = quantile_over(responses, 0.99)
    if p99 is None:
        yield (
            f"There is no p99: it takes {minimum_n(0.99)} queries after the first tenth of the "
            "time: try a longer scenario.duration_s."
        )
    elif p99.at_least:
        yield (
            "p99 is a lower limit: waiting times of neighbours resemble each other, and the runs "
            "are too short for how long: try a longer scenario.duration_s, or a lower rate."
        )


def _wide_peak(observations: Sequence[Observations]) -> Iterator[str]:
    found = peaks_of(observations)
    if not found:
        return
    searched = any(load.purpose == CONFIRMATION for o in observations for load in o.loads)
    remedy = "a larger scenario.budget_s"
    if not searched:
        remedy = "a longer scenario.duration_s, or more scenario.fractions near that rate"
    widest = max(found, key=lambda peak: peak.width_ratio)
    if math.isinf(widest.high):
        yield (
            f"The highest rate is a lower limit: that the target holds above {widest.low:.3g} "
            f"queries a second is not excluded by any rate that was offered: try {remedy}."
        )
    elif widest.width_ratio > WIDE_RATIO:
        yield (
            f"The highest rate is known only to lie between {widest.low:.3g} and "
            f"{widest.high:.3g} queries a second, by the process that shows the least: "
            f"try {remedy}."
        )


def _no_probe(observations: Sequence[Observations]) -> Iterator[str]:
    for observed in observations:
        at_full_speed = capacity_of(observed)
        unsearched = observed.loads[-1].purpose == CAPACITY and _refused(observed) is None
        if at_full_speed is not None and unsearched:
            capacity_per_s = at_full_speed.settled().completed_per_s()
            yield (
                f"No rate was offered: at {capacity_per_s:.3g} queries a second at most, the "
                "search's budget does not hold a single probe: try a larger scenario.budget_s."
            )
            return


def _quantile(target: Target) -> str:
    return f"p{100 * target.quantile_ratio:g}"
