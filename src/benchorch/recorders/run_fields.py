"""A trial as an MLflow run: its name, params, metrics and tags, within a tracker's limits."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import METRICS, Estimate, Summary
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial, node_of
from benchorch.domain.verdict import OutputParity, TokenParity, Verdict
from benchorch.files import read_bytes
from benchorch.journal.chain import UNREADABLE, mapping_of
from benchorch.journal.run_directory import WINNER
from benchorch.units import format_bytes, ns_to_ms

# One log-batch request may hold 1000 entries, of which 100 params.
MAX_PARAMS = 100
MAX_TAGS = 15
"""Limit of a run's tags; MLflow shows each as a chip above everything else."""
MAX_METRICS = 1000 - MAX_PARAMS - MAX_TAGS
FACTS = "facts.json"
SHOWN_TAGS = (
    *("role", "trial_id", "plan_id", "outcome", "failure.kind", "failure.message", "verdict"),
    *("verdict.reasons", "speedup", "bottleneck.limit", "executed.executed", "warnings"),
    *("environment.host", "model_digest", "baseline_id"),
)
"""Facts shown as tags: those by which people filter."""
WINNER_TAGS = ("conversion", "hardware", "speedup")
"""Tags that a parent run has beside those of its plan, where there is one winner."""
# The server's own limits are 6000 and 8000; 100 values of these lengths stay below its limit of
# 1 MB for a request however they are escaped.
MAX_PARAM_LENGTH = 1000
MAX_TAG_LENGTH = 1000
MAX_KEY_LENGTH = 250
NOTE = "mlflow.note.content"
"""The tag that MLflow shows as a run's description."""

_OWN_METRICS = frozenset(
    {
        *METRICS,
        *("speedup_ratio/p50", "profile_dilation_ratio", "critical_path_ms", "largest_gain_ratio"),
    }
)
_OWN_METRIC = re.compile(r"parity_|critical_path_ratio/|\w+_stage_s/total$")
_END = re.compile(r"[/_](low|high)$")
_PACKAGE = "benchorch."
_NOT_IN_A_KEY = re.compile(r"[^\w\-. :]", re.ASCII)
_NOT_IN_A_METRIC = re.compile(r"[^\w\-. :/]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFields:
    """Fields of a run, without its artifacts.

    Attributes:
        facts: all that is known besides params and metrics; some of them are tags.
        status: ``FINISHED``, ``FAILED`` or ``KILLED``.
        start_ms, end_ms: milliseconds since 1970, or None if the result has none.
    """

    name: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    facts: Mapping[str, str]
    status: str
    start_ms: int | None
    end_ms: int | None


def of_trial(plan_id: str, trial: Trial, result: TrialResult, summary: Summary) -> RunFields:
    """The fields of a child run."""
    params, lost_params = _within(_params(trial), MAX_PARAMS, MAX_PARAM_LENGTH)
    # A tracker stores infinity as a huge number, which is worse than nothing.
    metrics = ((k, v) for k, v in _metrics(result, summary) if v is not None and math.isfinite(v))
    texts = chain(
        [("role", "trial"), ("trial_id", trial.trial_id), ("plan_id", plan_id)],
        [("params_left_out", lost_params)],
        _result_tags(result, summary),
    )
    facts = {_key(key): text for key, text in texts if text}
    return RunFields(
        name=run_name(trial),
        params=params,
        metrics=dict(islice(metrics, MAX_METRICS)),
        tags={
            **{k: _shortened(facts[k], MAX_TAG_LENGTH) for k in SHOWN_TAGS if k in facts},
            **_artifact_note(plan_id, result),
        },
        facts=facts,
        status=_status(result),
        start_ms=milliseconds(result.started_at),
        end_ms=milliseconds(result.ended_at),
    )


def _artifact_note(plan_id: str, result: TrialResult) -> dict[str, str]:
    """Where the built artifact is, and how to serve it, as Markdown; nothing where none is kept."""
    built = result.build
    if built is None or not built.key:
        return {}
    export = f"benchorch export {plan_id}:{result.trial_id} --output FOLDER"
    size = format_bytes(built.artifact_bytes)
    registered = "with `--register NAME` it becomes a version of a model here"
    shown = f"Built artifact, {size}: `benchorch cache show {built.key}`."
    return {NOTE: f"{shown}\n\nTo serve it: `{export}`; {registered}."}


def is_own_metric(name: str) -> bool:
    """Whether a metric of a run is one that a trial may have, and none that somebody added."""
    plain = _END.sub("", name)
    return plain in _OWN_METRICS or bool(_OWN_METRIC.match(plain))


def of_plan(plan: Plan) -> Mapping[str, str]:
    """The parent run's tags."""
    counts = [("trials", str(len(plan.trials))), ("skips", str(len(plan.skips)))]
    return _tags(chain([("role", "plan"), ("plan_id", plan.plan_id)], counts))


def of_winner(directory: Path) -> tuple[Mapping[str, str], Mapping[str, float]]:
    """Tags and metrics of the parent run; none before the run has ended, or without one winner."""
    with suppress(OSError, *UNREADABLE):
        found = mapping_of(read_bytes(directory / WINNER))
        tags = {key: str(found[key]) for key in ("conversion", "hardware") if found.get(key)}
        if found.get("verdict"):
            tags["speedup"] = str(found["verdict"])
        metrics = cast("dict[str, float]", dict(node_of(found, "metrics")))
        return tags, {key: value for key, value in metrics.items() if math.isfinite(value)}
    return {}, {}


def run_name(trial: Trial) -> str:
    """The name in a list of runs: ``bert inductor local batch_size=8``."""
    named = ((key.rpartition("."), text) for key, text in trial.labels.items() if text)
    words = [f"{last}={text}" if group else text for (group, _, last), text in named]
    return " ".join(dict.fromkeys(words))[:MAX_KEY_LENGTH] or trial.trial_id


def milliseconds(moment: str) -> int | None:
    """An ISO 8601 time as milliseconds since 1970; None for an empty one."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None


def flatten(value: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each leaf of a resolved configuration by its dotted path.

    A list of plain values is one leaf; a list of nodes is numbered.
    """
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from flatten(item, f"{prefix}.{index}")
    else:
        text = value if isinstance(value, str) else json.dumps(value)
        yield prefix, text.removeprefix(_PACKAGE) if prefix.endswith("_target_") else text


def _params(trial: Trial) -> Iterator[tuple[str, str]]:
    """Labels first: people group by them, and the limit never cuts them off."""
    return chain(
        ((key, text) for key, text in trial.labels.items() if text),
        ((key, text) for key, text in flatten(trial.spec) if key not in trial.labels),
    )


def _within(pairs: Iterator[tuple[str, str]], most: int, length: int) -> tuple[dict[str, str], str]:
    """The pairs that fit, and a sentence about the others, empty if there are none."""
    whole = {_key(key): text for key, text in pairs}
    kept = {key: _shortened(text, length) for key, text in islice(whole.items(), most)}
    shortened = sum(kept[key] != whole[key] for key in kept)
    left_out = len(whole) - len(kept)
    lost = f"{left_out} left out, {shortened} shortened; config.yaml has them all"
    return kept, lost if left_out or shortened else ""


def _tags(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    return {_key(key): _shortened(text, MAX_TAG_LENGTH) for key, text in pairs if text}


def _key(name: str) -> str:
    return _NOT_IN_A_KEY.sub("_", name)[:MAX_KEY_LENGTH]


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _metrics(result: TrialResult, summary: Summary) -> Iterator[tuple[str, float | None]]:
    for name, estimate in summary.metrics.items():
        yield from _with_interval(name, estimate)
    if summary.speedup is not None:
        yield from _with_interval("speedup_ratio/p50", summary.speedup.ratio)
    if result.parity is not None and result.parity.outputs:
        yield from _parity(result.parity.outputs)
    if result.parity is not None and result.parity.tokens is not None:
        yield from _tokens(result.parity.tokens)
    if result.profile is not None:
        yield from _profile(result.profile)
    yield from ((f"{stage}_stage_s/total", s) for stage, s in result.stages_s.items())


def _with_interval(name: str, estimate: Estimate) -> Iterator[tuple[str, float | None]]:
    key = _NOT_IN_A_METRIC.sub("_", name)[:MAX_KEY_LENGTH]
    yield from ((key, estimate.value), (f"{key}/low", estimate.low), (f"{key}/high", estimate.high))


def _parity(outputs: tuple[OutputParity, ...]) -> Iterator[tuple[str, float | None]]:
    """The worst over all outputs."""
    yield "parity_relative_l2_ratio/max", max(o.relative_l2_ratio for o in outputs)
    yield "parity_abs_difference/max", max(o.max_abs for o in outputs)
    yield "parity_cosine_ratio/min", min(o.cosine_ratio for o in outputs)
    agreements = [o.argmax_agreement_ratio for o in outputs]
    known = [agreement for agreement in agreements if agreement is not None]
    yield "parity_argmax_agreement_ratio/min", min(known, default=None)


def _tokens(tokens: TokenParity) -> Iterator[tuple[str, float | None]]:
    """Metrics of generated tokens; the first divergence only if there is one."""
    yield "parity_token_agreement_ratio/mean", tokens.agreeing / tokens.positions
    yield "parity_first_divergence_tokens/min", tokens.first_divergence
    yield "parity_kl_nats/mean", tokens.mean_divergence_nats
    yield "parity_kl_nats/max", max(tokens.divergence_nats)
    yield "parity_perplexity/mean", tokens.perplexity


def _profile(record: ProfileRecord) -> Iterator[tuple[str, float | None]]:
    """The profiler's overhead, and how the critical path is spent."""
    yield "profile_dilation_ratio", record.dilation_ratio
    found = record.bottleneck
    if found is not None:
        yield "critical_path_ms", ns_to_ms(found.critical_path_ns)
        yield "largest_gain_ratio", found.largest_gain_ratio
        for name, spent_ns in found.classes_ns.items():
            yield f"critical_path_ratio/{name}", spent_ns / max(1, found.critical_path_ns)


def _result_tags(result: TrialResult, summary: Summary) -> Iterator[tuple[str, str]]:
    yield "outcome", result.outcome.value
    yield "attempt", str(result.attempt)
    yield "baseline_id", result.baseline_id or ""
    yield from _named("failure", result.failure, "kind", "stage", "message", "remedy")
    yield from _verdict_tags(result.parity)
    if summary.speedup is not None:
        yield "speedup", summary.speedup.verdict
        yield "speedup.reason", summary.speedup.reason
    if result.build is not None:
        yield from _named("build", result.build, "key", "cache")
        yield "model_digest", result.build.model_digest
        yield from flatten(result.build.steps, "build.steps") if result.build.steps else ()
    if result.profile is not None:
        yield from _named("profile", result.profile, "profiler", "unavailable")
        yield "profile.notes", "\n".join(result.profile.notes)
        yield from _named(
            "bottleneck", result.profile.bottleneck, "limit", "sentence", "advice", "largest"
        )
    yield "processes", str(len(result.processes))
    yield "stop_reason", result.stop_reason
    yield "steady", json.dumps(summary.steady) if result.processes else ""
    yield "warnings", "\n".join(summary.warnings)
    if result.execution is not None:
        yield from flatten(cast("Mapping[str, Json]", encode(result.execution)), "executed")
    if result.processes:
        yield from flatten(result.processes[0].facts, "ran")
    yield from _environment_tags(result.environment)


def _named(group: str, value: object, *names: str) -> Iterator[tuple[str, str]]:
    """Some attributes of a value as tags; none of a missing value."""
    if value is not None:
        yield from ((f"{group}.{name}", str(getattr(value, name))) for name in names)


def _environment_tags(environment: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Facts of the host, package versions first: a thousand others may follow."""
    packages = flatten({"packages": environment.get("packages")}, "environment")
    facts = chain(packages, flatten(environment, "environment"))
    return ((key, text) for key, text in facts if text not in ("null", "{}", "[]"))


def _verdict_tags(verdict: Verdict | None) -> Iterator[tuple[str, str]]:
    if verdict is not None:
        yield "verdict", "passed" if verdict.passed else "failed"
        yield "verdict.kind", str(verdict.kind)
        yield "verdict.reasons", "\n".join(verdict.reasons)
        yield from _named("verdict", verdict, "tolerance_ratio", "first_divergence", "metric")
        yield "verdict.score", "" if verdict.score is None else str(verdict.score)


def _status(result: TrialResult) -> str:
    if result.failure is not None and result.failure.kind == "interrupted":
        return "KILLED"
    return "FINISHED" if result.outcome in (Outcome.OK, Outcome.SKIPPED) else "FAILED"
