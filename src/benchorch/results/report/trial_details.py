"""Facts about each trial and each machine of a report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison, Estimate
from benchorch.domain.result import BuildRecord, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.formatting import bounded, interval_text
from benchorch.results.report.execution_text import execution_facts
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.tables import limit_text
from benchorch.units import format_bytes, format_seconds

_LABELS = ("author", "task", "license")
_MACHINE = (
    *("host", "system", "kernel", "architecture", "cpu_model", "cpu_logical_count"),
    *("cpu_physical_count", "cpu_quota_cores", "virtual_machine", "cpu_governor", "cpu_boost"),
    *("cpu_hyperthreads", "memory_total_bytes", "memory_limit_bytes", "python", "git_commit"),
)
"""The fields of an environment that a page shows; the run's own files have the rest."""

Fact = tuple[str, str]


class MachineFacts(NamedTuple):
    """A machine and the trials that ran on it."""

    name: str
    facts: tuple[Fact, ...]


def machines(rows: Sequence[ReportRow]) -> list[MachineFacts]:
    """Each machine once."""
    found: dict[tuple[Fact, ...], list[ReportRow]] = {}
    for row in rows:
        if row.stored.environment:
            found.setdefault(tuple(_machine(row.stored.environment)), []).append(row)
    return [_with_trials(facts, ran) for facts, ran in found.items()]


def _with_trials(facts: Sequence[Fact], rows: Sequence[ReportRow]) -> MachineFacts:
    results = [row.result for row in rows if row.result is not None]
    more = {
        "packages": ", ".join(dict.fromkeys(_packages(results))),
        "grade": ", ".join(sorted({result.grade for result in results} - {""})),
        "trials": str(len(rows)),
        "plans": ", ".join(dict.fromkeys(row.run.plan_id for row in rows)),
    }
    name = dict(facts).get("host") or "a machine"
    return MachineFacts(name, (*facts, *((name, text) for name, text in more.items() if text)))


def _packages(results: Sequence[TrialResult]) -> Iterator[str]:
    """Those that any of its trials used."""
    for result in results:
        packages = result.environment.get("packages")
        if isinstance(packages, Mapping):
            yield from (f"{name} {version}" for name, version in packages.items())


def name_of(row: ReportRow) -> str:
    """The model and the trial's short name."""
    return bounded(" ".join(filter(None, (row.labels.get("model"), row.name))))


def cost_text(row: ReportRow) -> str:
    """Dollars per million with their interval; a dash where the price is unknown."""
    return "–" if row.usd_per_million is None else interval_text(row.usd_per_million)


def facts_of(row: ReportRow) -> Iterator[Fact]:
    """Verdict, parity, limit, build, cost, metrics and warnings of a trial."""
    yield "plan, trial", f"{row.run.plan_id}, {row.stored.trial.trial_id}"
    labels = [f"{name} {row.labels[name]}" for name in _LABELS if row.labels.get(name)]
    if labels:
        yield "labels", ", ".join(labels)
    if row.result is None:
        yield "outcome", "never ran"
        return
    yield from _outcome(row.result)
    if row.speedup is not None:
        yield from _verdict(row.speedup)
    if row.result.pairing:
        yield "compared", row.result.pairing
    position = row.stored.evidence.position
    if position is not None:
        yield "coming first", f"took {interval_text(position)} times as long as coming second"
    if row.result.parity is not None:
        yield from _parity(row.result.parity)
    yield from _limits(row.result)
    if row.result.build is not None and row.result.build.cache != "none":
        yield "build", _build_text(row.result.build)
    if row.price is not None:
        price = row.price
        part = f" for 1 of {price.shared_by} GPUs" if price.shared_by > 1 else ""
        hourly = f"{price.usd_per_hour:g} USD an hour{part}"
        yield "cost", f"{cost_text(row)} USD per million {row.priced_unit} at {hourly}"
    yield "ran on", f"{row.runtime} on {row.device}"
    if row.result.execution is not None:
        yield from execution_facts(row.result.execution)
    yield from ((name, _metric_text(name, found)) for name, found in row.metrics.items())
    if row.stored.summary is not None:
        yield from (("warning", warning) for warning in row.stored.summary.warnings)


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
    outcome = "the outputs agree" if parity.passed else parity.explanation
    judged = f", judged as {parity.task.replace('_', ' ')}" if parity.task else ""
    yield (
        "same model?",
        f"{outcome} (relative L2 error up to {parity.tolerance_ratio:g} is allowed{judged})",
    )
    yield from (("same model?", note) for note in (*parity.notes, *parity.unwritten.values()))
    if parity.tokens is not None:
        yield "generated tokens", parity.tokens.sentence
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
