"""Everything that is known of one trial, and of the machines, folded until it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison, Estimate
from benchorch.domain.result import BuildRecord, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.formatting import interval_text
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.tables import limit_text
from benchorch.trace.report.markup import element, escaped, shortened
from benchorch.units import format_bytes, format_seconds

COST = "USD a million"
_LONGEST = 600
_LABELS = ("author", "task", "license")
_MACHINE = (
    *("host", "system", "kernel", "architecture", "cpu_model", "cpu_logical_count"),
    *("cpu_physical_count", "cpu_quota_cores", "virtual_machine", "cpu_governor", "cpu_boost"),
    *("cpu_hyperthreads", "memory_total_bytes", "memory_limit_bytes", "python", "git_commit"),
)
"""What of an environment a reader asks for first; the run's own files have the rest."""

Fact = tuple[str, str]


def row(of: ReportRow) -> str:
    """One trial: its name and verdict, and underneath what they stand on."""
    verdict = of.cells["vs eager [95 %]"] if of.ran else of.outcome
    name = " ".join(filter(None, (of.labels.get("model"), of.name)))
    head = element(
        "summary",
        {},
        escaped(shortened(name, 160)),
        " ",
        element("span", {"class": "said"}, escaped(verdict)),
    )
    return element("details", {}, head, _list(list(_facts(of))))


def machines(rows: Sequence[ReportRow]) -> list[str]:
    """Each machine once, with what it was and which trials ran on it."""
    found: dict[tuple[Fact, ...], list[ReportRow]] = {}
    for one in rows:
        if one.result is not None and one.result.environment:
            found.setdefault(tuple(_machine(one.result.environment)), []).append(one)
    return [_one_machine(facts, ran) for facts, ran in found.items()]


def _one_machine(facts: Sequence[Fact], ran: Sequence[ReportRow]) -> str:
    results = [one.result for one in ran if one.result is not None]
    more = {
        "packages": ", ".join(dict.fromkeys(_packages(results))),
        "grade": ", ".join(sorted({result.grade for result in results} - {""})),
        "trials": str(len(ran)),
        "plans": ", ".join(dict.fromkeys(one.run.plan_id for one in ran)),
    }
    head = element("summary", {}, escaped(dict(facts).get("host") or "a machine"))
    listed = _list([*facts, *((name, text) for name, text in more.items() if text)])
    return element("details", {"open": "open"}, head, listed)


def _packages(results: Sequence[TrialResult]) -> Iterator[str]:
    """Those that any of its trials used."""
    for result in results:
        packages = result.environment.get("packages")
        if isinstance(packages, Mapping):
            yield from (f"{name} {version}" for name, version in packages.items())


def cost_text(of: ReportRow) -> str:
    """Dollars a million items with their interval, or that nobody knows."""
    return "–" if of.usd_per_million is None else interval_text(of.usd_per_million)


def _list(facts: Sequence[Fact]) -> str:
    cells = (
        element("dt", {}, escaped(name)) + element("dd", {}, escaped(shortened(text, _LONGEST)))
        for name, text in facts
    )
    return element("dl", {}, *cells)


def _facts(of: ReportRow) -> Iterator[Fact]:
    yield "plan, trial", f"{of.run.plan_id}, {of.stored.trial.trial_id}"
    told = [f"{name} {of.labels[name]}" for name in _LABELS if of.labels.get(name)]
    if told:
        yield "labels", ", ".join(told)
    if of.result is None:
        yield "outcome", "never ran"
        return
    yield from _outcome(of.result)
    if of.stored.summary is not None and of.stored.summary.speedup is not None:
        yield from _verdict(of.stored.summary.speedup)
    if of.result.pairing:
        yield "compared", of.result.pairing
    if of.result.parity is not None:
        yield from _parity(of.result.parity)
    yield from _limits(of.result)
    if of.result.build is not None and of.result.build.cache != "none":
        yield "build", _build_text(of.result.build)
    if of.price is not None:
        price = of.price
        yield "cost", f"{cost_text(of)} USD a million items at {price.usd_per_hour:g} USD an hour"
    yield "ran on", f"{of.runtime} on {of.device}"
    yield from ((name, _metric_text(name, found)) for name, found in of.metrics.items())
    if of.stored.summary is not None:
        yield from (("doubt", doubt) for doubt in of.stored.summary.warnings)


def _outcome(result: TrialResult) -> Iterator[Fact]:
    yield "outcome", result.outcome.value
    if result.failure is not None:
        yield "failed in", f"{result.failure.stage}, {result.failure.kind}"
        yield "because", result.failure.message
        if result.failure.remedy:
            yield "try", result.failure.remedy


def _verdict(speedup: Comparison) -> Iterator[Fact]:
    reason = f": {speedup.reason}" if speedup.reason else ""
    yield "verdict", f"{speedup.verdict}{reason}"
    p_value = speedup.adjusted_p_value
    tested = "" if p_value is None else f", adjusted p {p_value:.2g}"
    yield "speed-up", f"{interval_text(speedup.ratio)} times its baseline, {speedup.design}{tested}"
    if speedup.pairs_needed:
        yield "to settle it", f"some {speedup.pairs_needed} more pairs"


def _parity(parity: Verdict) -> Iterator[Fact]:
    judged = "the outputs agree" if parity.passed else parity.explanation
    yield "same model?", f"{judged} (relative L2 error up to {parity.tolerance_ratio:g} is allowed)"
    for output in parity.outputs:
        finite = f", {output.not_finite} values are not finite" if output.not_finite else ""
        agree = output.argmax_agreement_ratio
        argmax = "" if agree is None else f", argmax agrees in {100 * agree:.4g} %"
        text = f"relative L2 {output.relative_l2_ratio:.2g}, cosine {output.cosine_ratio:.6g}"
        yield f"output {output.name}", f"{text}, at most {output.max_abs:.2g} off{argmax}{finite}"
    if parity.metric and parity.score is not None:
        yield parity.metric, f"{parity.score:.6g}"


def _limits(result: TrialResult) -> Iterator[Fact]:
    profile = result.profile
    if profile is None:
        return
    found = profile.bottleneck
    yield "limited by", limit_text(result) if found is None else found.sentence
    if found is not None and found.advice:
        yield "advice", found.advice
    yield from (("profile", note) for note in (*profile.notes, profile.unavailable) if note)


def _build_text(build: BuildRecord) -> str:
    steps = ", ".join(f"{name} ({state})" for name, state in build.steps.items())
    size = format_bytes(build.artifact_bytes)
    return f"{format_seconds(build.original_build_s)}, {size}, {build.cache}: {steps}"


def _metric_text(name: str, estimate: Estimate) -> str:
    unit = name.partition("/")[0]
    if unit.endswith("_bytes"):
        return format_bytes(estimate.value)
    return f"{interval_text(estimate)} (n = {estimate.n})"


def _machine(environment: Mapping[str, Json]) -> Iterator[Fact]:
    for name in _MACHINE:
        value = environment.get(name)
        if value is not None and value != "":
            size = name.endswith("_bytes") and isinstance(value, int)
            yield name.replace("_", " "), format_bytes(float(str(value))) if size else str(value)
