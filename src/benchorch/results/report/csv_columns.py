"""Runs as CSV: MLAgility's columns, then ours; one row a trial, and one a skipped cell.

MLAgility writes ``-`` for what it does not know, and so do its columns here; ours are empty. Its
latencies are in milliseconds, and medians. Numbers are written so that reading them gives the same
ones again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchorch.domain.estimate import METRICS, Estimate
from benchorch.domain.trial import Skip
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.rows import ReportRow

Cell = str | int | float | None

UNKNOWN = "-"
_FORMULA = ("=", "+", "@", "\t", "\r")
"""What a spreadsheet would take for a formula at the start of a cell."""


def _label(name: str) -> Callable[[ReportRow], Cell]:
    """A label that a script's first comment may have given."""
    return lambda row: row.labels.get(name)


def _step(fragment: str) -> Callable[[ReportRow], Cell]:
    """Whether a step of that name was built; unknown where nothing was."""

    def built(row: ReportRow) -> Cell:
        build = None if row.result is None else row.result.build
        if build is None:
            return None
        return str(any(fragment in name for name in build.steps))

    return built


def _latency(*, cpu: bool) -> Callable[[ReportRow], Cell]:
    def found(row: ReportRow) -> Cell:
        nvidia = not row.on_cpu and "cuda" in str(row.stored.evidence.facts.get("device", ""))
        x86 = row.on_cpu and _environment(row, "architecture") in (None, "x86_64", "AMD64")
        return row.latency.value if row.latency and (x86 if cpu else nvidia) else None

    return found


def _environment(row: ReportRow, name: str) -> str | None:
    value = None if row.result is None else row.result.environment.get(name)
    return None if value is None else str(value)


def _params(row: ReportRow) -> Cell:
    counts = None if row.result is None else row.result.counts
    return None if counts is None else counts.parameters


def _hash(row: ReportRow) -> Cell:
    build = None if row.result is None else row.result.build
    return build.model_digest[:8] if build and build.model_digest else None


def _model_class(row: ReportRow) -> Cell:
    model = row.stored.trial.spec.get("model")
    told = model if isinstance(model, Mapping) else {}
    return str(told.get("architecture") or str(told.get("_target_", "")).rpartition(".")[2]) or None


MLAGILITY: Mapping[str, Callable[[ReportRow], Cell]] = {
    "model_name": _label("model"),
    "author": _label("author"),
    "model_class": _model_class,
    "params": _params,
    "hash": _hash,
    "license": _label("license"),
    "task": _label("task"),
    "groq_chips_used": lambda row: None,
    "groq_estimated_latency": lambda row: None,
    "nvidia_latency": _latency(cpu=False),
    "x86_latency": _latency(cpu=True),
    "onnx_exported": _step("onnx"),
    "onnx_optimized": _step("optim"),
    "onnx_converted": _step("fp16"),
}
"""The columns of ``cache report`` of MLAgility 3.3; nothing here measures on Groq's chips."""


def _failure(name: str) -> Callable[[ReportRow], Cell]:
    def told(row: ReportRow) -> Cell:
        failure = None if row.result is None else row.result.failure
        return None if failure is None else str(getattr(failure, name))

    return told


def _build(name: str) -> Callable[[ReportRow], Cell]:
    def told(row: ReportRow) -> Cell:
        build = None if row.result is None else row.result.build
        return None if build is None else getattr(build, name)

    return told


def _gain(row: ReportRow) -> Estimate | None:
    speedup = None if row.stored.summary is None else row.stored.summary.speedup
    return None if speedup is None else speedup.ratio


def _speedup(name: str) -> Callable[[ReportRow], Cell]:
    def told(row: ReportRow) -> Cell:
        speedup = None if row.stored.summary is None else row.stored.summary.speedup
        return None if speedup is None else getattr(speedup, name)

    return told


def _end(of: Callable[[ReportRow], Estimate | None], name: str) -> Callable[[ReportRow], Cell]:
    def told(row: ReportRow) -> Cell:
        found = of(row)
        return None if found is None else getattr(found, name)

    return told


def _parity(row: ReportRow) -> Cell:
    parity = None if row.result is None else row.result.parity
    return None if parity is None else str(parity.passed)


def _error(row: ReportRow) -> Cell:
    parity = None if row.result is None else row.result.parity
    return max((one.relative_l2_ratio for one in parity.outputs), default=None) if parity else None


def _limit(name: str) -> Callable[[ReportRow], Cell]:
    def told(row: ReportRow) -> Cell:
        profile = None if row.result is None else row.result.profile
        found = None if profile is None else profile.bottleneck
        return None if found is None else getattr(found, name)

    return told


OURS: Mapping[str, Callable[[ReportRow], Cell]] = {
    "plan_id": lambda row: row.run.plan_id,
    "trial_id": lambda row: row.stored.trial.trial_id,
    **{name: _label(name) for name in ("model", "conversion", "hardware", "hardware_kind")},
    "device": lambda row: row.device or None,
    "runtime": lambda row: row.runtime or None,
    **{name: _label(name) for name in ("scenario", "workload", "axes")},
    "batch_size": lambda row: row.size("batch_size"),
    "seq_len": lambda row: row.size("seq_len"),
    "outcome": lambda row: row.outcome,
    "failure_stage": _failure("stage"),
    "failure_kind": _failure("kind"),
    "failure_message": _failure("message"),
    "remedy": _failure("remedy"),
    "same_model": _parity,
    "relative_l2_ratio": _error,
    "disagreement": lambda row: row.stored.disagreement or None,
    "verdict": _speedup("verdict"),
    "speedup_ratio": _end(_gain, "value"),
    "speedup_ratio:low": _end(_gain, "low"),
    "speedup_ratio:high": _end(_gain, "high"),
    "adjusted_p_value": _speedup("adjusted_p_value"),
    "design": _speedup("design"),
    "baseline_id": lambda row: row.stored.trial.baseline_id,
    "build_cache": _build("cache"),
    "limit": _limit("limit"),
    "limit_largest": _limit("largest"),
    "limit_largest_gain_ratio": _limit("largest_gain_ratio"),
    "usd_per_hour": lambda row: None if row.price is None else row.price.usd_per_hour,
    "usd_per_million_items": _end(lambda row: row.usd_per_million, "value"),
    "usd_per_million_items:low": _end(lambda row: row.usd_per_million, "low"),
    "usd_per_million_items:high": _end(lambda row: row.usd_per_million, "high"),
    "grade": lambda row: None if row.result is None else row.result.grade or None,
    "host": lambda row: _environment(row, "host"),
    "cpu_model": lambda row: _environment(row, "cpu_model"),
    "started_at": lambda row: None if row.result is None else row.result.started_at or None,
    "doubts": lambda row: " | ".join(row.stored.summary.warnings) if row.stored.summary else None,
}


def csv_text(rows: Sequence[ReportRow]) -> str:
    """The file: a header, the trials in their order, then what was skipped."""
    metrics = [name for name in METRICS if any(name in row.metrics for row in rows)]
    ends = [f"{name}{end}" for name in metrics for end in ("", ":low", ":high")]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*MLAGILITY, *OURS, *ends])
    for row in rows:
        writer.writerow([*_fixed(row), *_metrics(row, metrics)])
    for run in {row.run.plan_id: row.run for row in rows}.values():
        for skip in run.skips:
            writer.writerow([*_skipped(run, skip), *[""] * len(ends)])
    return written.getvalue()


def _fixed(row: ReportRow) -> list[str]:
    theirs = [_text(cell(row)) or UNKNOWN for cell in MLAGILITY.values()]
    return [*theirs, *(_text(cell(row)) for cell in OURS.values())]


def _metrics(row: ReportRow, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = row.metrics.get(name)
        ends = (None,) * 3 if found is None else (found.value, found.low, found.high)
        yield from map(_text, ends)


def _skipped(run: StoredRun, skip: Skip) -> list[str]:
    told = {
        **skip.labels,
        "plan_id": run.plan_id,
        "outcome": "skipped",
        "failure_message": skip.reason,
        "remedy": skip.remedy,
    }
    theirs = {"model_name": told.get("model", "")}
    head = [_text(theirs.get(name)) or UNKNOWN for name in MLAGILITY]
    return [*head, *(_text(told.get(name)) for name in OURS)]


def _text(cell: Cell) -> str:
    """A number to its last bit; words in one line, and never a formula."""
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return repr(cell)
    line = cell.encode(errors="replace").decode()
    return f"'{line}" if line.startswith(_FORMULA) else line
