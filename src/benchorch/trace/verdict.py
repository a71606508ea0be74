"""Bottleneck of a program, remedies, and what to record if the cause is unknown."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchorch.pages.markup import shortened
from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.causes import Cause
from benchorch.trace.steps import Steps
from benchorch.units import format_ns

KNOWN_RATIO = 0.5  # share of the path whose cause must be known for a verdict
CLOSE_RATIO = 0.5  # share of a cause: if removing it saves less, another chain is nearly as long
NAMED_RATIO = 0.05  # minimum share of the path that is named
VOID_DILATION = 3.0  # profiled over unprofiled time from which on a profile is not of the program
SLOWED_DILATION = 1.15  # ratio of profiled to unprofiled time from which it is reported

INCONCLUSIVE, VOID = "inconclusive", "void"

_WORDS: Mapping[Cause, str] = {
    Cause.DEVICE_COMPUTE: "computing",
    Cause.DEVICE_MEMORY: "copying and filling memory",
    Cause.COMMUNICATION: "communication",
    Cause.STRAGGLER: "waiting for the slowest rank",
    Cause.DATA_LOADING: "loading data",
    Cause.FRAMEWORK: "calling operators and the device's runtime",
    Cause.PYTHON: "Python",
    Cause.INPUT_OUTPUT: "input and output",
    Cause.SLEEP: "sleeping and waiting for locks",
    Cause.OUTSIDE: "in what the trace does not record",
    Cause.PROFILER: "the profiler itself",
    Cause.UNKNOWN: "an unknown cause",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVerdict:
    """Bottleneck of the program."""

    # the cause that most of the path is spent on; ``inconclusive`` where the cause of most of it is
    # unknown, or work that the trace lacks; ``void`` where the profile is not like the program
    limit: str
    sentence: str  # the same for a person, with its numbers
    advice: str  # what to try next; empty where nothing would help
    record: tuple[str, ...]  # what to record next, a sentence each
    shares: Mapping[str, float]  # of the path by cause, the largest first; they sum to 1
    # share of the period saved if all time of a cause were gone, by replay
    gains: Mapping[str, float]
    # length, cause: of the path, how well the length and the cause of its pieces are known:
    # ``recorded``, ``inferred``, ``unknown``
    length: Mapping[str, float]
    cause: Mapping[str, float]
    largest: str = ""  # and largest_gain_ratio: the one entity with the largest gain
    largest_gain_ratio: float = 0.0


class VerdictInputs(NamedTuple):
    """Inputs of a verdict."""

    steps: Steps  # what was analysed
    shares: Mapping[Cause, float]  # of the path by cause, the largest first
    gains: Mapping[Cause, float]  # share of the period saved without each cause, by replay
    length: Mapping[str, float]  # and cause: of the path by how well lengths and causes are known
    cause: Mapping[str, float]
    rows: Sequence[EntityRow]  # operators, kernels and Python functions with their gains
    device: bool  # whether work of an accelerator was recorded
    # stacks, shapes, threads, syncs: whether the trace has Python's stacks, operators' shapes, more
    # than one thread, and records of synchronisation
    stacks: bool
    shapes: bool
    threads: bool
    syncs: bool
    ranks: bool  # whether other ranks take part that the trace does not record
    pytorch: bool = True  # whether PyTorch's profiler recorded it, whose options are known
    tried: Collection[str] = ()  # conversions whose marks the trace bears
    unknown: str = ""  # the range in which most time of an unknown cause lies
    unrecorded: str = ""  # a sentence on work of devices that the trace lacks
    # profiled over unprofiled time; None where it was not measured
    dilation_ratio: float | None = None


def verdict(given: VerdictInputs) -> ProgramVerdict:
    """The verdict; none where the cause of most of the path is unknown, or may be unrecorded."""
    limit = _limit(given)
    period_ns = given.steps.period_ns
    rows = [row for row in given.rows if row.gain_ns and limit != VOID]
    best = max(rows, key=lambda row: row.gain_ns or 0, default=None)
    gain = (best.gain_ns or 0) / period_ns if best and period_ns else 0.0
    sentences = [_sentence(limit, given)]
    if best and gain >= 0.005:
        name = shortened(best.name)
        sentences.append(f"The largest single gain is {name}: {gain:.0%} if it took no time.")
    return ProgramVerdict(
        limit=limit,
        sentence=" ".join(sentences),
        advice=_advice(limit, given),
        record=tuple(_to_record(given)),
        shares={cause.value: share for cause, share in given.shares.items()},
        gains={cause.value: share for cause, share in given.gains.items()},
        length=given.length,
        cause=given.cause,
        largest=best.name if best and gain > 0 else "",
        largest_gain_ratio=max(gain, 0.0),
    )


def _limit(given: VerdictInputs) -> str:
    if given.dilation_ratio is not None and given.dilation_ratio > VOID_DILATION:
        return VOID
    unknown = given.shares.get(Cause.UNKNOWN, 0.0)
    known = {cause: share for cause, share in given.shares.items() if cause != Cause.UNKNOWN}
    if not known or unknown > 1 - KNOWN_RATIO or max(known.values()) < unknown:
        return INCONCLUSIVE
    most = max(known, key=lambda cause: known[cause])
    waits = (Cause.FRAMEWORK, Cause.PYTHON)  # what waiting for unrecorded work looks like
    return INCONCLUSIVE if given.unrecorded and most in waits else most.value


def _sentence(limit: str, given: VerdictInputs) -> str:
    took = format_ns(given.steps.period_ns)
    each = f"each {took} step" if len(given.steps) > 1 else f"the {took}"
    if limit == VOID:
        return (
            f"No verdict: profiled, the program takes {given.dilation_ratio:.1f} times as long as "
            "without the profiler, so the profile is not of the program. Profile again on a quiet "
            "machine."
        )
    if limit == INCONCLUSIVE and given.unrecorded:
        return f"No verdict: {given.unrecorded[0].lower()}{given.unrecorded[1:]}"
    if limit == INCONCLUSIVE:
        unknown = given.shares.get(Cause.UNKNOWN, 0.0)
        where = f", most of it in {shortened(given.unknown)!r}" if given.unknown else ""
        return f"No verdict: the trace does not record the cause of {unknown:.0%} of {each}{where}."
    named = [
        f"{share:.0%} {_WORDS[cause]}"
        for cause, share in given.shares.items()
        if share >= NAMED_RATIO
    ]
    first, share = Cause(limit), given.shares[Cause(limit)]
    sentence = f"{limit.capitalize()} sets the pace. Of {each}: {', '.join(named)}."
    gain = given.gains.get(first)
    if gain is not None and gain < CLOSE_RATIO * share:
        sentence += (
            f" Another chain is nearly as long: without {_WORDS[first]}, a step would still take "
            f"{1 - gain:.0%} of the time."
        )
    return sentence


_COMPILERS = ("inductor", "aot_inductor", "onnxruntime")
_NARROWER = ("bf16", "fp16", "torchao_int8_dynamic")
_PROCESS = re.compile(r"(poll|select|wait\w*|fork_exec|posix_spawn)$")


def _advice(limit: str, given: VerdictInputs) -> str:
    """Remedies for a cause, without those that the trace shows in use."""
    if limit in (INCONCLUSIVE, VOID):
        return ""
    cause = Cause(limit)
    if cause == Cause.DEVICE_COMPUTE:
        ways: tuple[str, ...] = (*_COMPILERS[:1], "onnxruntime", *_NARROWER)
        more = "a larger batch where kernels are short" if given.device else "more threads"
        return f"Compute less or with fewer bits: {_conversions(ways, given)}{more}."
    if cause == Cause.FRAMEWORK:
        if given.device:
            ways = ("inductor_reduce_overhead", "cudagraphs", "inductor")
            return f"Launch less often: {_conversions(ways, given)}a larger batch."
        return f"Call fewer operators: {_conversions(_COMPILERS, given)}a larger batch."
    native = [row for row in given.rows if ", called by " in row.name and row.gain_ns]
    best = max(native, key=lambda row: row.gain_ns or 0, default=None)
    called = best.name.split(",")[0] if best else ""
    if cause == Cause.OUTSIDE and _PROCESS.match(called):
        return "Start fewer child processes, or wait for them in a thread beside the work."
    if cause == Cause.SLEEP and called == "sleep":
        return "Sleep less: wait for an event instead, or let several sleeping threads overlap."
    most = max((one.gain_ns or 0 for one in given.rows), default=0)
    leads = best and 2 * (best.gain_ns or 0) > most  # half of what any one could save
    if cause in (Cause.OUTSIDE, Cause.PYTHON) and leads:
        return (
            f"Call {shortened(called)} less, or from a thread beside the work: it is a library's "
            "own code, of which the trace has the duration only; a profiler for native code shows "
            "more."
        )
    return _ADVICE[cause]


_ADVICE: Mapping[Cause, str] = {
    Cause.DEVICE_MEMORY: (
        "Copy less, or beside the computation: keep tensors on the device, pin the host's memory, "
        "copy with non_blocking=True."
    ),
    Cause.COMMUNICATION: (
        "Communicate less, or beside the computation: larger buckets, gradient accumulation, "
        "compressed gradients, a faster interconnect."
    ),
    Cause.STRAGGLER: (
        "Find out what the slowest rank does before its collectives: give every rank the same "
        "work, and look at that rank's own trace."
    ),
    Cause.DATA_LOADING: (
        "Load ahead: more loader workers, prefetch_factor, pinned memory, a cheaper "
        "transformation, or data prepared once and stored."
    ),
    Cause.PYTHON: (
        "Take Python out of the loop: vectorise the function named, move it to a worker, or "
        "compile the model so that fewer calls return to Python."
    ),
    Cause.INPUT_OUTPUT: (
        "Read and write elsewhere: in a thread beside the work, less often, or in larger pieces."
    ),
    Cause.SLEEP: (
        "Wait less: wait on an event instead of sleeping, hold locks for less time, or give each "
        "thread data of its own."
    ),
    Cause.OUTSIDE: (
        "Find out what it waits for: record the other threads, processes or ranks, because this "
        "trace shows only that they were waited for."
    ),
    Cause.PROFILER: "Profile less: without stacks and memory, fewer steps.",
    Cause.UNKNOWN: "",
}


def _conversions(names: Sequence[str], given: VerdictInputs) -> str:
    left = [name for name in names if name not in given.tried][:3]
    return f"conversion={' or '.join(left)}; " if left else ""


def _to_record(given: VerdictInputs) -> Sequence[str]:
    found = [*_options_of_pytorch(given)] if given.pytorch else []
    communication = given.shares.get(Cause.COMMUNICATION, 0.0) > 0.1
    if communication and given.ranks:
        found.append("all ranks: analyze takes several traces and names the straggler.")
    computes = given.shares.get(Cause.DEVICE_COMPUTE, 0.0) > 0.5
    if given.pytorch and not given.shapes and not found and computes:
        found.append("operators' shapes, record_shapes=True: --diff and models are joined by them.")
    return found


def _options_of_pytorch(given: VerdictInputs) -> Iterator[str]:
    unclear = given.shares.get(Cause.UNKNOWN, 0.0) > 0.1
    outside = given.shares.get(Cause.OUTSIDE, 0.0) > 0.1
    if unclear and not given.stacks:
        yield "Python's stacks, with_stack=True: they name what ran between operators."
    if (unclear or outside) and not given.threads:
        yield (
            "all threads, experimental_config=_ExperimentalConfig(profile_all_threads=True): the "
            "trace shows one thread only."
        )
    if unclear and given.device and not given.syncs:
        yield (
            "CUDA's synchronisation, _ExperimentalConfig(enable_cuda_sync_events=True): it shows "
            "which stream waited for which event."
        )
