"""Warnings about a trial's numbers, the gravest first, each with what to do."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.domain.execution import Execution
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.domain.profile import DILATION_LIMIT_RATIO, VOID_DILATION_RATIO, ProfileRecord
from benchorch.domain.result import FUTILE, NO_PAIR_IN_TIME, RUN_BUDGET, TrialResult
from benchorch.formatting import interval_text, percent, plural
from benchorch.host.reference_workload import MEMORY_RATIO
from benchorch.results.metrics.latency import median_ms, preempted_ratio, queries_ms
from benchorch.results.metrics.load_warnings import load_warnings, missed_warnings
from benchorch.stats.autocorrelation import independent_n, lag_one
from benchorch.stats.between_processes import over_processes, primary_ns
from benchorch.stats.modes import levels
from benchorch.stats.pairs import pairs
from benchorch.stats.position_effect import position_effect
from benchorch.stats.quantiles import minimum_n
from benchorch.stats.variance_components import calls_worth_taking, components
from benchorch.units import NS_PER_MS, format_ms, ns_to_s

ENOUGH = ("decided", "converged")
"""Reasons to stop where no more was needed for what was to be decided."""

MORE_TIME = "a larger budget.minutes"
FIXED = "fixed"
LEAST_PROCESSES = 5
MOST_PREEMPTED_RATIO = 0.1
MOST_OVERHEAD_RATIO = 0.01
READS_PER_BLOCK = 1000
MOST_STOLEN_RATIO = 0.02
MOST_WAITED_RATIO = 0.05
NOTED_WAITED_RATIO = 0.02
MOST_INTERRUPTED_RATIO = 0.5
WIDE_RATIO = 0.05
_KNOWN_RATIO = 0.01
_SMALL_MS = 5.0

_DESIGNS = {
    "adjacent": "The baseline was measured in processes of its own, back to back",
    "none": "No paired measurement with the baseline",
}
_EVENTS = {
    "compilation": ("Code was compiled", "stopping.min_window_s=2, so that it comes first"),
    "allocator_retry": ("The device's allocator ran out", "a smaller workload.batch_size"),
    "collection": ("Garbage was collected", "a model that does not call the collector itself"),
}


def trial_warnings(result: TrialResult, metrics: Mapping[str, Estimate]) -> tuple[str, ...]:
    """Warnings of a trial, one sentence each with a remedy."""
    valid = result.valid
    if not valid:
        return tuple(_disturbed(result))
    if any(process.observations.loads for process in valid):
        return (*load_warnings(valid), *_of_the_machine(result))
    return (
        *missed_warnings([process.observations for process in valid]),
        *_unsteady(valid, result.stop_reason),
        *_levels(valid),
        *_disturbed_inside(valid),
        *_slow_memory(valid),
        *_rejected(metrics),
        *_of_the_machine(result),
        *_wide(result, metrics),
        *_preempted(valid),
        *_instrument(valid),
        *_blocks(valid),
        *_no_tail(valid, metrics, result.stop_reason),
        *_bound(valid, metrics),
    )


def profile_warnings(record: ProfileRecord | None) -> Iterator[str]:
    """Warnings about a profile; nothing where none was requested."""
    if record is None:
        return
    if record.unavailable:
        yield f"What limits it is not known: {record.unavailable}"
    ratio = record.dilation_ratio or 0.0
    if ratio > VOID_DILATION_RATIO:
        yield (
            "What limits it is not known: the profiler made its calls more than "
            f"{VOID_DILATION_RATIO:.0f} times as long."
        )
    elif ratio > DILATION_LIMIT_RATIO:
        yield (
            "The profiler made its calls longer by more than "
            f"{100 * (DILATION_LIMIT_RATIO - 1):.0f} %: what limits them is derived from slowed "
            "calls."
        )


def _of_the_machine(result: TrialResult) -> Iterator[str]:
    """Warnings of interference during the calls, and of too few processes."""
    valid = result.valid
    yield from _threads(valid)
    yield from _events(valid)
    yield from _disturbed(result)
    yield from _grade(result.grade)
    yield from _pairing(result.pairing)
    yield from _position(valid)
    yield from _few(result)
    yield from _executed(result.execution)


def _executed(ran: Execution | None) -> Iterator[str]:
    """Steps that changed nothing, and arithmetic in another precision than requested."""
    if ran is None:
        return
    yield from (f"No effect of {reason}: leave the step out." for reason in ran.no_effect)
    if ran.differs:
        share = "" if ran.executed_ratio is None else f" {percent(ran.executed_ratio)} of the"
        casts = f", with {plural(ran.casts, 'cast')} around them" if ran.casts else ""
        yield (
            f"{ran.requested} was requested, and{share} operators ran in {ran.executed}{casts}: "
            "try another conversion or device for that precision."
        )


def _unsteady(processes: Sequence[ProcessRecord], stop_reason: str) -> Iterator[str]:
    unsteady = sum(process.steady_from is None for process in processes)
    key = _key(stop_reason, fixed="window_s=5", other="max_window_s=20")
    if unsteady:
        yield (
            f"No steady state in {unsteady} of {len(processes)} processes, whose every call "
            f"counts: try {key}, or a quieter machine."
        )


def _key(stop_reason: str, *, fixed: str, other: str) -> str:
    """Option of the stopping rule; of each rule where something else stopped the trial."""
    if stop_reason in ("", RUN_BUDGET):
        return f"stopping.{other} (fixed, quick: stopping.{fixed})"
    return f"stopping.{fixed if stop_reason == FIXED else other}"


def _levels(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """Warnings that processes fall into modes: their median is then the commoner one's."""
    found = levels(median_ms(processes))
    if len(found) > 1:
        shown = ", ".join(f"{level.processes} at {format_ms(level.median)} ms" for level in found)
        yield (
            f"Processes run at {len(found)} levels: {shown}. The median is of all of them: try "
            "more processes, or look for what differs between them, such as memory layout."
        )


def _disturbed_inside(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """Processes slowed within their window, which reference workloads around it cannot see.

    By limits that are the same for every process and every trial, whatever the others took.
    """
    slowed = [reason for process in processes if (reason := _slowed_by(process))]
    calm = [process for process in processes if not _slowed_by(process)]
    if not slowed:
        return
    without = over_processes(median_ms(calm), unit="ms")
    figure = (
        f"without them p50 is {interval_text(without)} ms"
        if without
        else "no process was undisturbed"
    )
    yield (
        f"{len(slowed)} of {len(processes)} processes were slowed while they measured "
        f"({', '.join(dict.fromkeys(slowed))}) and are included; {figure}: try a quieter machine."
    )


def _slow_memory(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """Copies of memory that took much longer around some processes than around others."""
    around = [(p.conditions.memory_before_ns, p.conditions.memory_after_ns) for p in processes]
    known = [max(times) for before, after in around if (times := [t for t in (before, after) if t])]
    if known and (ratio := max(known) / min(known)) > MEMORY_RATIO:
        yield (
            f"Copying memory took up to {ratio:.1f} times as long around some processes as around "
            "others: what waits for memory is slowed by it too. Try a quieter machine."
        )


def _slowed_by(process: ProcessRecord) -> str:
    """Cause that took the processor away within the window, or an empty string."""
    conditions = process.conditions
    if (conditions.steal_ratio or 0.0) > MOST_STOLEN_RATIO:
        return f"more than {percent(MOST_STOLEN_RATIO)} of the time went to other guests"
    if conditions.throttled_periods:
        return "the control group was held back"
    if conditions.waited_ratio is not None:
        if conditions.waited_ratio > MOST_WAITED_RATIO:
            return f"a processor was waited for {percent(MOST_WAITED_RATIO)} of the time or more"
    # Only where the kernel does not tell: most blocks of 100 ms are interrupted, for microseconds.
    elif preempted_ratio([process]) > MOST_INTERRUPTED_RATIO:
        return f"more than {percent(MOST_INTERRUPTED_RATIO)} of the blocks were interrupted"
    return ""


def _rejected(metrics: Mapping[str, Estimate]) -> Iterator[str]:
    """The headline with the rejected repetitions, beside the one without."""
    every, counted = metrics.get("unrejected_latency_ms/p50"), metrics.get("latency_ms/p50")
    if every is not None and counted is not None:
        yield (
            f"p50 is {interval_text(counted)} ms without the rejected repetitions and "
            f"{interval_text(every)} ms with them: where the two differ, try a quieter machine."
        )


def _threads(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """A process is pinned to one core for each thread that was requested."""
    for process in processes:
        used, requested = process.facts.get("threads"), len(process.conditions.cpus)
        if requested and isinstance(used, int) and used != requested:
            yield (
                f"{requested} threads were requested, and the runtime reports {used}: "
                f"try hardware.threads={used}."
            )
            return


def _events(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    for event, (happened, remedy) in _EVENTS.items():
        count = sum(_inside(process.observations, event) for process in processes)
        if count:
            yield f"{happened} while {count} of {len(processes)} processes measured: try {remedy}."


def _inside(observed: Observations, event: str) -> bool:
    """Whether it happened in any block but the first; under load, collecting garbage is normal."""
    loaded = observed.at_once or bool(observed.scheduled_ns)
    return max(observed.events.get(event, (0,))) > 0 and not (loaded and event == "collection")


def _disturbed(result: TrialResult) -> Iterator[str]:
    found = [process.disturbance for process in result.processes if process.disturbance]
    if found:
        count = "1 process was" if len(found) == 1 else f"{len(found)} processes were"
        yield f"{count} measured again. {found[-1]} For fewer, try a quieter machine."


def _grade(letter: str) -> Iterator[str]:
    if letter == "C":
        yield (
            "This machine's speed varies too much for absolute figures (grade C); ratios to the "
            "baseline are more reliable, but not where other programs use its processors: try "
            "benchorch doctor."
        )


def _pairing(pairing: str) -> Iterator[str]:
    """Warnings that the comparison did not use the best design."""
    design, _, why = pairing.partition(": ")
    if why == NO_PAIR_IN_TIME:
        yield f"No paired measurement with the baseline ({why}): try {MORE_TIME}."
    elif why:
        yield (
            f"{_DESIGNS.get(design, design)} ({why}). "
            "Try more processes, or protocol.pairing=adjacent from the start."
        )


def _position(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """Warnings of a significant position effect within pairs."""
    found = position_effect(processes)
    if found is None or found.low is None or found.high is None or found.low <= 1 <= found.high:
        return
    yield (
        f"Whichever of the two came first in a process took {interval_text(found)} times as long "
        "as when it came second. Both came first equally often, which the ratio averages out."
    )


def _few(result: TrialResult) -> Iterator[str]:
    count, stop_reason = len(result.valid), result.stop_reason
    so_far = " so far" if result.unfinished else ""
    more = _more_processes(result)
    if count == 1:
        one = "stopping=decide" if stop_reason == FIXED else more
        yield f"No interval from a single process{so_far}: try {one}."
    elif count < LEAST_PROCESSES and stop_reason not in ENOUGH:
        early = "The run's budget ended after" if stop_reason == RUN_BUDGET else "Only"
        yield (
            f"{early} {count} processes{so_far}, where {LEAST_PROCESSES} are the least to rely on: "
            f"try {more}."
        )


def _more_processes(result: TrialResult) -> str:
    """What brings more processes, by what ended them."""
    if result.unfinished:
        return "benchorch resume, which runs the rest"
    known = {RUN_BUDGET: MORE_TIME, FIXED: f"stopping.processes={LEAST_PROCESSES}"}
    return known.get(result.stop_reason, "a larger stopping.budget_s")


def _wide(result: TrialResult, metrics: Mapping[str, Estimate]) -> Iterator[str]:
    primary = metrics.get("latency_ms/p50") or metrics.get("throughput_items_per_s/mean")
    if primary is None or not primary.low or primary.high is None:  # a rate may be 0
        return
    reach = math.sqrt(primary.high / primary.low) - 1
    undecided = bool(pairs(result.valid)) and not result.is_control
    if result.stop_reason == RUN_BUDGET and undecided:
        if len(result.valid) >= LEAST_PROCESSES:  # of fewer it was said
            yield f"The run's budget ended before the comparison was decided: try {MORE_TIME}."
    elif result.stop_reason == FUTILE:
        yield (
            "The rest of the run's budget would not have decided the comparison, so no more "
            f"processes were added: try {MORE_TIME}, or a quieter machine."
        )
    elif result.stop_reason == "budget_exhausted":
        what = "comparison was decided" if reach <= _KNOWN_RATIO and undecided else "target was met"
        yield (
            f"The budget ended before the {what}; the median is known to within "
            f"{percent(reach)}: try {_where_to_repeat(result.valid)}."
        )
    elif reach > WIDE_RATIO and result.stop_reason not in ENOUGH:
        yield (
            f"The median is known to within {percent(reach)} only: "
            "try stopping=precise, or a quieter machine."
        )


def _where_to_repeat(processes: Sequence[ProcessRecord]) -> str:
    """Longer processes where their calls scatter more than they do themselves, else more."""
    more = "a larger stopping.budget_s"
    samples = [queries_ms(process) for process in processes]
    found = components([samples])
    windows_s = [ns_to_s(sum(process.observations.durations_ns)) for process in processes]
    started_s = statistics.fmean(
        process.elapsed_s - window for process, window in zip(processes, windows_s, strict=True)
    )
    if found is None or found.process is None or started_s <= 0:
        return more
    call_s = ns_to_s(statistics.median(map(primary_ns, processes)))
    taken = statistics.fmean(sample.size for sample in samples)
    worth = calls_worth_taking(found, call_s=call_s, process_s=started_s)
    if worth is not None and worth < 2 * taken:
        return more
    window_s = math.ceil(min(worth or math.inf, 4 * taken) * call_s)
    return f"stopping.min_window_s={window_s} stopping.max_window_s={4 * window_s}"


def _preempted(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    if any(map(_slowed_by, processes)):
        return  # what slowed whole processes was told of them
    known = [p.conditions.waited_ratio for p in processes if p.conditions.waited_ratio is not None]
    if known:
        share, least = statistics.fmean(known), NOTED_WAITED_RATIO
        what = f"Calls waited for a processor {percent(share)} of the time"
    else:
        share, least = preempted_ratio(processes), MOST_PREEMPTED_RATIO
        what = f"Other work interrupted {percent(share)} of the timed blocks"
    if share > least:
        yield f"{what}: try a quieter machine, or fewer threads with hardware.threads."


def _instrument(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """The clock's and the loop's share of a block, where it is more than it should be."""
    overheads = [
        max(
            # Half the rule: a block sized while the machine was slower may fall a little short.
            p.calibration.pair_cost_ns * READS_PER_BLOCK / 2
            > ns * p.observations.queries_per_block,
            p.calibration.loop_turn_ns > MOST_OVERHEAD_RATIO * ns,
        )
        for p, ns in zip(processes, (ms * NS_PER_MS for ms in median_ms(processes)), strict=True)
    ]
    if any(overheads):
        yield (
            "The calls are so short that reading the clock and the loop around them show in the "
            "figures: try a larger workload.batch_size."
        )


def _blocks(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    calls = max(process.observations.queries_per_block for process in processes)
    if calls > 1 and not processes[0].observations.at_once:
        yield (
            f"Single calls are too short for this clock; figures are of blocks of {calls} calls, "
            "which have no percentiles: try a larger workload.batch_size."
        )


def _bound(processes: Sequence[ProcessRecord], metrics: Mapping[str, Estimate]) -> Iterator[str]:
    """Inputs and outputs that a program which calls the runtime plainly would copy."""
    p50 = metrics.get("latency_ms/p50")
    if p50 is not None and p50.value < _SMALL_MS and processes[0].facts.get("io_binding"):
        yield (
            "Inputs and outputs stay bound between calls (I/O binding); a program that calls "
            "session.run copies them each time, which is 2 to 4 % of a small model's call."
        )


def _no_tail(
    processes: Sequence[ProcessRecord], metrics: Mapping[str, Estimate], stop_reason: str
) -> Iterator[str]:
    """Why there is no p99 in spite of all those queries."""
    first = processes[0].observations
    if "latency_ms/p99" in metrics or first.at_once or first.queries_per_block > 1:
        return
    samples = [queries_ms(process) for process in processes]
    if sum(sample.size for sample in samples) >= minimum_n(0.99):
        longest = max(sample.size / independent_n(sample) for sample in samples)
        least = math.ceil(minimum_n(0.99) * longest)
        key = _key(stop_reason, fixed=f"calls={least}", other=f"min_calls={least}")
        yield (
            f"Calls of one process resemble each other (autocorrelation {lag_one(samples):.2f}), "
            f"so p99 needs {least} of each: try {key}."
        )
