"""Runs as CSV: MLAgility's columns, then ours; one row a trial, and one a skipped cell.

MLAgility writes ``-`` for unknown values, and so do its columns here; ours are empty. Its latencies
are medians in milliseconds. Numbers are written so that reading them gives the same ones again.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from benchorch.domain.estimate import METRICS
from benchorch.domain.trial import Skip
from benchorch.formatting import spreadsheet_text
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.rows import ReportRow

Cell = str | int | float | None

UNKNOWN = "-"


def _label(name: str) -> Callable[[ReportRow], Cell]:
    """A label; some are given by a script's first comment."""
    return lambda row: row.labels.get(name)


def _step(fragment: str) -> Callable[[ReportRow], Cell]:
    """Whether a step of that name was built; unknown without a build."""

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
    value = row.stored.environment.get(name)
    return None if value is None else str(value)


def _hash(row: ReportRow) -> Cell:
    build = None if row.result is None else row.result.build
    return build.model_digest[:8] if build and build.model_digest else None


def _model_class(row: ReportRow) -> Cell:
    model = row.stored.trial.spec.get("model")
    node = model if isinstance(model, Mapping) else {}
    return str(node.get("architecture") or str(node.get("_target_", "")).rpartition(".")[2]) or None


def _at(path: str) -> Callable[[ReportRow], Cell]:
    """A value of the row by its dotted path; None where something is missing on the way."""

    def cell(row: ReportRow) -> Cell:
        found: object = row
        for name in path.split("."):
            found = None if found is None else getattr(found, name)
        return cast(Cell, found)

    return cell


MLAGILITY: Mapping[str, Callable[[ReportRow], Cell]] = {
    "model_name": _label("model"),
    "author": _label("author"),
    "model_class": _model_class,
    "params": _at("result.counts.parameters"),
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


def _error(row: ReportRow) -> Cell:
    parity = None if row.result is None else row.result.parity
    return max((one.relative_l2_ratio for one in parity.outputs), default=None) if parity else None


def _no_effect(row: ReportRow) -> Cell:
    ran = None if row.result is None else row.result.execution
    return " | ".join(ran.no_effect) if ran else None


OURS: Mapping[str, Callable[[ReportRow], Cell]] = {
    "plan_id": _at("run.plan_id"),
    "trial_id": _at("stored.trial.trial_id"),
    **{name: _label(name) for name in ("model", "conversion", "hardware", "hardware_kind")},
    "device": _at("device"),
    "runtime": _at("runtime"),
    **{name: _label(name) for name in ("scenario", "workload", "axes")},
    "batch_size": lambda row: row.size("batch_size"),
    "seq_len": lambda row: row.size("seq_len"),
    "outcome": _at("outcome"),
    "failure_stage": _at("result.failure.stage"),
    "failure_kind": _at("result.failure.kind"),
    "failure_message": _at("result.failure.message"),
    "remedy": _at("result.failure.remedy"),
    "requested_precision": _at("result.execution.requested"),
    "executed_precision": _at("result.execution.executed"),
    "executed_ratio": _at("result.execution.executed_ratio"),
    "no_effect": _no_effect,
    "same_model": _at("result.parity.passed"),
    "parity_kind": _at("result.parity.kind"),
    "relative_l2_ratio": _error,
    "disagreement": _at("stored.disagreement"),
    "verdict": _at("speedup.verdict"),
    "speedup_ratio": _at("speedup.ratio.value"),
    "speedup_ratio:low": _at("speedup.ratio.low"),
    "speedup_ratio:high": _at("speedup.ratio.high"),
    "adjusted_p_value": _at("speedup.adjusted_p_value"),
    "design": _at("speedup.design"),
    "baseline_id": _at("stored.trial.baseline_id"),
    "build_cache": _at("result.build.cache"),
    "limit": _at("result.profile.bottleneck.limit"),
    "limit_largest": _at("result.profile.bottleneck.largest"),
    "limit_largest_gain_ratio": _at("result.profile.bottleneck.largest_gain_ratio"),
    "usd_per_hour": _at("price.usd_per_hour"),
    "usd_per_million_items": _at("usd_per_million_items.value"),
    "usd_per_million_items:low": _at("usd_per_million_items.low"),
    "usd_per_million_items:high": _at("usd_per_million_items.high"),
    "grade": _at("result.grade"),
    "host": lambda row: _environment(row, "host"),
    "cpu_model": lambda row: _environment(row, "cpu_model"),
    "started_at": _at("result.started_at"),
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
    mlagility = [_text(cell(row)) or UNKNOWN for cell in MLAGILITY.values()]
    return [*mlagility, *(_text(cell(row)) for cell in OURS.values())]


def _metrics(row: ReportRow, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = row.metrics.get(name)
        ends = (None,) * 3 if found is None else (found.value, found.low, found.high)
        yield from map(_text, ends)


def _skipped(run: StoredRun, skip: Skip) -> list[str]:
    cells = {
        **skip.labels,
        "plan_id": run.plan_id,
        "outcome": "skipped",
        "failure_message": skip.reason,
        "remedy": skip.remedy,
    }
    mlagility = {"model_name": cells.get("model", "")}
    head = [_text(mlagility.get(name)) or UNKNOWN for name in MLAGILITY]
    return [*head, *(_text(cells.get(name)) for name in OURS)]


def _text(cell: Cell) -> str:
    """A number to its last bit; text that stays in its cell, and is never a formula."""
    if cell is None:
        return ""
    return spreadsheet_text(cell) if isinstance(cell, str) else repr(cell)
