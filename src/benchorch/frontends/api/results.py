"""Results of a benchmark as objects: rows with numbers, a table, a chart, a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, final, overload

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.result import Failure, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.domain.verdict import Verdict
from benchorch.errors import BenchorchError
from benchorch.formatting import interval_text
from benchorch.journal import run_directory
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.console_table import table_text
from benchorch.results.report.estimate_bars import Chart, bar_chart
from benchorch.results.report.html_table import html_table
from benchorch.results.report.plan_text import names_of, skip_text
from benchorch.results.report.tables import (
    conclusion,
    fastest,
    has_baseline,
    ranked,
    table_rows,
)

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # it comes without types


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResultRow:
    """One trial: a model under one conversion on one hardware.

    Attributes:
        model, conversion, hardware: their names.
        workload: the sizes, e.g. ``batch_size=8``.
        scenario: how it is called, e.g. ``single_stream``.
        is_baseline: whether others are compared with it, or it is alone.
        latency_ms: the median with its interval; None where there is none.
        comparison: against the baseline; None for a baseline, and where there is none.
        parity: whether its outputs equal the baseline's; None where they were not compared.
        failure: why there is no result; None where there is one.
        metrics: every estimate by its name, e.g. ``throughput_items_per_s/mean``.
        directory: the trial's log, configuration and environment.
        result: what was observed; None where the trial never ran.
    """

    trial_id: str
    model: str
    conversion: str
    hardware: str
    workload: str
    scenario: str
    is_baseline: bool
    latency_ms: Estimate | None
    comparison: Comparison | None
    parity: Verdict | None
    failure: Failure | None
    metrics: Mapping[str, Estimate]
    directory: Path
    result: TrialResult | None

    @property
    def speedup(self) -> Estimate | None:
        """The baseline's time over its own: above 1 it is faster."""
        return self.comparison.ratio if self.comparison else None

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``equivalent`` or ``inconclusive``; else why there is none."""
        if self.failure is not None:
            return "failed"
        if self.parity is not None and not self.parity.passed:
            return "disqualified"
        if self.comparison is not None:
            return self.comparison.verdict
        if self.result is None:
            return "not run"
        return "baseline" if self.is_baseline else "not compared"

    def __repr__(self) -> str:
        """A small table: names, the median with its interval, and what it comes to."""
        latency = self.latency_ms
        shown = {
            "model": self.model,
            "conversion": self.conversion,
            "hardware": self.hardware,
            "workload": self.workload,
            "scenario": "" if self.scenario == "single_stream" else self.scenario,
            "p50 ms [95 %]": interval_text(latency) if latency else "",
            "speedup [95 %]": interval_text(self.speedup, "{:.3g}x".format) if self.speedup else "",
            "verdict": self.verdict,
        }
        filled = {name: text for name, text in shown.items() if text}
        return table_text([tuple(filled), tuple(filled.values())])


@final
@dataclass(frozen=True, kw_only=True)
class Results(Sequence[ResultRow]):
    """All rows of a benchmark, fastest first; a notebook shows a table.

    Attributes:
        directory: of the run; ``benchorch report`` and ``compare`` take it.
        note: how the model was transferred, where that affects the numbers.
    """

    plan: Plan
    results: Mapping[str, TrialResult]
    summaries: Mapping[str, Summary]
    directory: Path
    note: str = ""

    @cached_property
    def _run(self) -> RunResults:
        return RunResults(
            directory=self.directory,
            plan=self.plan,
            results=self.results,
            summaries=self.summaries,
        )

    @cached_property
    def rows(self) -> tuple[ResultRow, ...]:
        """In the order of the table."""
        return tuple(self._row(trial) for trial in ranked(self._run))

    @property
    def best(self) -> ResultRow | None:
        """The fastest row whose outputs equal the baseline's."""
        trial = fastest(self.plan.trials, self._run)
        return next((row for row in self.rows if trial and row.trial_id == trial.trial_id), None)

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The cells that did not run, with reasons."""
        return self.plan.skips

    @property
    def conclusion(self) -> str:
        """One sentence for each model and workload."""
        return conclusion(self._run)

    def table(self) -> str:
        """The table as text, with the conclusion, the note, every skip and every failure."""
        return "\n\n".join([table_text(self._cells()), *self._sentences()])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each trial; BenchorchError where pandas is not installed."""
        return data_frame([_record(row) for row in self.rows])

    def plot(self) -> Chart:
        """Medians with their intervals as an SVG; a notebook shows it, `save` writes it."""
        bars = {self._name(row): row.latency_ms for row in self.rows if row.latency_ms}
        return bar_chart("Latency, median with interval (ms)", bars)

    def __len__(self) -> int:
        return len(self.plan.trials)

    @overload
    def __getitem__(self, index: int) -> ResultRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ResultRow, ...]: ...
    def __getitem__(self, index: int | slice) -> ResultRow | tuple[ResultRow, ...]:
        return self.rows[index]

    def __iter__(self) -> Iterator[ResultRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        sentences = (f"<p>{escape(text)}</p>" for text in self._sentences())
        return "".join([html_table(self._cells()), *sentences])

    def _cells(self) -> list[tuple[str, ...]]:
        return table_rows(self._run)

    def _sentences(self) -> list[str]:
        failed = (
            f"{self._name(row)}: {row.failure.kind}: {row.failure.message}"
            + (f" Try: {row.failure.remedy}." if row.failure.remedy else "")
            for row in self.rows
            if row.failure
        )
        skipped = (f"skipped {skip_text(skip)}" for skip in self.skips)
        return [*filter(None, (self.conclusion, self.note)), *failed, *skipped]

    def _name(self, row: ResultRow) -> str:
        """Its name in this plan, as the table has it."""
        return self._names[row.trial_id]

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return names_of(self.plan.trials)

    def _row(self, trial: Trial) -> ResultRow:
        result = self.results.get(trial.trial_id)
        summary = self.summaries.get(trial.trial_id) or _NOTHING
        return ResultRow(
            trial_id=trial.trial_id,
            model=trial.labels["model"],
            conversion=trial.labels["conversion"],
            hardware=trial.labels["hardware"],
            workload=" ".join(filter(None, (trial.labels["workload"], trial.labels["axes"]))),
            scenario=trial.labels["scenario"],
            is_baseline=trial.baseline_id is None and has_baseline(self.plan.trials),
            latency_ms=summary.metrics.get("latency_ms/p50"),
            comparison=summary.speedup,
            parity=result.parity if result else None,
            failure=result.failure if result else None,
            metrics=summary.metrics,
            directory=run_directory.trial_directory(self.directory, trial.trial_id),
            result=result,
        )


_NOTHING = Summary(metrics={}, speedup=None, steady=False)


def _record(row: ResultRow) -> dict[str, object]:
    latency, speedup = row.latency_ms, row.speedup
    return {
        "model": row.model,
        "conversion": row.conversion,
        "hardware": row.hardware,
        "workload": row.workload,
        "scenario": row.scenario,
        "latency_ms": latency.value if latency else None,
        "latency_ms_low": latency.low if latency else None,
        "latency_ms_high": latency.high if latency else None,
        "speedup_ratio": speedup.value if speedup else None,
        "speedup_ratio_low": speedup.low if speedup else None,
        "speedup_ratio_high": speedup.high if speedup else None,
        "verdict": row.verdict,
        "same_model": row.parity.passed if row.parity else None,
        "parity_kind": str(row.parity.kind) if row.parity else None,
        "failure": f"{row.failure.kind}: {row.failure.message}" if row.failure else None,
        "directory": str(row.directory),
    }


def data_frame(records: Sequence[Mapping[str, object]]) -> pandas.DataFrame:
    """A row for each record; BenchorchError where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise BenchorchError("to_pandas() needs pandas: pip install pandas") from error
    return pd.DataFrame(records)
