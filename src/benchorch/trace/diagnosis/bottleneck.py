"""Diagnosis of the bottleneck from counterfactuals, in plain words, with the next step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from benchorch.trace.dag import Class, Tier
from benchorch.trace.diagnosis.advice import ADVICE, MEANING
from benchorch.trace.findings import Diagnosis, EntityRow
from benchorch.units import format_seconds, ns_to_s

DOUBTFUL_RATIO = 0.25  # of the path inferred or unexplained: no verdict
DOMINANT_RATIO = 0.2  # a gain that names the limit
NOTABLE_RATIO = 0.1  # a gain below which nothing is worth naming
KNOWN_RATIO = 0.3  # of the work on the path that needs a roofline before one side is named
FAR_RATIO = 0.1  # of the roofline: then neither arithmetic nor memory is what limits
POOR_RATIO = 0.5  # of the roofline: kernels that others could beat
IMPOSSIBLE_RATIO = 1.05  # of the roofline: then the peaks are wrong, not the kernels right
LARGEST_RATIO = 0.5  # of a group's gain: its part that is named instead


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckEvidence:
    """Evidence for a verdict; times in ns.

    Attributes:
        makespan_ns: of the window.
        saved_ns: by counterfactual, see `counterfactuals`.
        classes: path time by class; sums to the makespan.
        tiers: path time by tier in lower case; sums to the makespan.
        rows: of the table in which the largest gain is looked for.
        device: whether work of a device was recorded.
        tried: conversions that the trace shows the marks of; they are not advised again.
    """

    makespan_ns: int
    saved_ns: Mapping[str, int]
    classes: Mapping[str, int]
    tiers: Mapping[str, int]
    rows: Sequence[EntityRow]
    device: bool
    tried: Collection[str] = ()

    def gain(self, name: str) -> float:
        """Share of the makespan saved without this cost; 0 where there is none."""
        return self.share(self.saved_ns.get(name, 0))

    def share(self, part_ns: float) -> float:
        """A time over the makespan."""
        return part_ns / self.makespan_ns if self.makespan_ns else 0.0


def diagnose(evidence: BottleneckEvidence) -> Diagnosis:
    """The verdict on one window.

    Nothing is counted by label: each gain is the makespan less that of a replay in which the
    cost is gone. The limits and their advice are in `ADVICE`.
    """
    limit = _limit(evidence)
    best = max(evidence.rows, key=lambda row: row.drag_ns, default=None)
    gain = evidence.share(best.drag_ns) if best else 0.0
    gains = {name: evidence.share(saved) for name, saved in evidence.saved_ns.items()}
    sentences = (
        _explanation(limit, evidence),
        _roofline_sentence(evidence),
        _largest_gain(best, gain),
    )
    return Diagnosis(
        limit=limit,
        sentence=" ".join(filter(None, sentences)),
        advice=_advice(limit, evidence),
        gains=gains,
        evidence={tier: evidence.share(part) for tier, part in evidence.tiers.items()},
        largest=best.name if best and gain > 0 else "",
        largest_gain_ratio=gain,
    )


def _limit(evidence: BottleneckEvidence) -> str:
    """The first of these that holds, from what forbids a verdict to what is merely largest."""
    if _doubtful(evidence) > DOUBTFUL_RATIO:
        return "inconclusive"
    if evidence.gain("data") >= DOMINANT_RATIO:
        return "data-bound"
    work = evidence.gain("device" if evidence.device else "compute")
    around = evidence.gain("host" if evidence.device else "overhead")
    if evidence.gain("sync") >= max(NOTABLE_RATIO, around):
        return "sync-bound"
    if around >= DOMINANT_RATIO and around > work:
        return _around(evidence, around)
    if work >= NOTABLE_RATIO:
        return _side(evidence)
    return "balanced"


def _doubtful(evidence: BottleneckEvidence) -> float:
    """Share of the path that is inferred or not explained at all."""
    weak = (Tier.INFERRED, Tier.UNEXPLAINED)
    return evidence.share(sum(evidence.tiers.get(tier.name.lower(), 0) for tier in weak))


def _around(evidence: BottleneckEvidence, host: float) -> str:
    """What of the time beside the work dominates."""
    if not evidence.device:
        return "overhead-bound"
    if evidence.gain("compute") > LARGEST_RATIO * host:
        return "host-bound"
    return "idle-bound" if evidence.gain("python") > LARGEST_RATIO * host else "launch-bound"


def _side(evidence: BottleneckEvidence) -> str:
    """Which side of the machine the work on the path needs most."""
    if evidence.gain("copies") > LARGEST_RATIO * evidence.gain("device") > 0:
        return "transfer-bound"
    times = _times_by_bound(evidence.rows)
    classes = (Class.GPU_COMPUTE, Class.GPU_MEMORY, Class.GPU_COMM, Class.CPU_COMPUTE)
    work = sum(evidence.classes.get(one, 0) for one in classes)
    far = (attained_ratio(evidence.rows) or 0.0) < FAR_RATIO
    if sum(times.values()) >= KNOWN_RATIO * work > 0 and not far:
        side = max(times, key=lambda bound: (times[bound], bound))
        return "launch-bound" if side == "latency" else f"{side}-bound"
    return "kernel-bound"


def _times_by_bound(rows: Sequence[EntityRow]) -> dict[str, int]:
    """Time on the path by the side of the roofline that bounds it."""
    times: dict[str, int] = {}
    for row in rows:
        if row.bound:
            times[row.bound] = times.get(row.bound, 0) + row.on_path_ns
    return times


def _explanation(limit: str, evidence: BottleneckEvidence) -> str:
    """The limit, what it means, and the gains that decided it."""
    took = format_seconds(ns_to_s(evidence.makespan_ns))
    if limit == "inconclusive":
        known = _percent(1 - _doubtful(evidence))
        return (
            f"Inconclusive: only {known} of the {took} is explained by what the trace records or "
            "by what a call means; a verdict on the rest would be a guess."
        )
    named = [one for one in _reasons(limit, evidence.device) if one[0] in evidence.saved_ns]
    gains = [(_percent(evidence.gain(name)), words) for name, words in named]
    verbs = ("would be saved ", "")
    told = [f"{gain} {verb}{words}" for verb, (gain, words) in zip(verbs, gains, strict=False)]
    return f"{limit.capitalize()}: {MEANING[limit]}. " + (
        f"Of its {took}, {', and '.join(told)}." if told else f"It takes {took}."
    )


def _reasons(limit: str, device: bool) -> tuple[tuple[str, str], ...]:
    """The counterfactuals to name and their condition, the deciding one first."""
    work = ("device", "without device work") if device else ("compute", "if operators took no time")
    around = (
        ("host", "without host work") if device else ("overhead", "without what runs around them")
    )
    if limit in _SPECIAL:
        return _SPECIAL[limit], around if limit == "idle-bound" else work
    return (work, around) if limit in _OF_WORK else (around, work)


_SPECIAL: Mapping[str, tuple[str, str]] = {
    "data-bound": ("data", "without waiting for data"),
    "sync-bound": ("sync", "if no thread waited for another or for the device"),
    "idle-bound": ("python", "without Python between operators"),
    "transfer-bound": ("copies", "without copies"),
}
_OF_WORK = ("compute-bound", "memory-bound", "kernel-bound")


def _advice(limit: str, evidence: BottleneckEvidence) -> str:
    """What to try; where the kernels are far from the roofline, other kernels before fewer bits."""
    attained = attained_ratio(evidence.rows)
    poor = attained is not None and attained < POOR_RATIO
    limits = (
        ("kernel-bound", limit) if poor and limit in ("compute-bound", "memory-bound") else (limit,)
    )
    said = (ADVICE[one][not evidence.device].sentence(evidence.tried) for one in limits)
    return " ".join(filter(None, said))


def attained_ratio(rows: Sequence[EntityRow]) -> float | None:
    """Roofline time over observed time on the path, of the rows where it is known."""
    known = [(row.on_path_ns, row.efficiency_ratio) for row in rows if row.efficiency_ratio]
    total = sum(spent for spent, _ in known)
    return sum(spent * ratio for spent, ratio in known) / total if total else None


def _roofline_sentence(evidence: BottleneckEvidence) -> str:
    attained = attained_ratio(evidence.rows)
    if attained is None:
        return ""
    if attained > IMPOSSIBLE_RATIO:
        return "What has a roofline is faster than the peaks it was given, which are too low."
    return f"What has a roofline reaches {_percent(attained)} of it."


def _largest_gain(best: EntityRow | None, gain: float) -> str:
    if best is None or gain <= 0:
        return ""
    return f"The largest single gain is {best.name}: {_percent(gain)} if it took no time."


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"
