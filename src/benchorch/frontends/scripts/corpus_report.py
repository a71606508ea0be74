"""Corpus report: coverage, export, parity and gain of many scripts, by folder and conversion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from statistics import geometric_mean
from typing import TYPE_CHECKING, cast

from benchorch.domain.trial import ConfigNode
from benchorch.files import write_text
from benchorch.formatting import csv_of, is_unknown
from benchorch.results.report.html_table import html_table
from benchorch.stats.ratio_test import INCONCLUSIVE

if TYPE_CHECKING:
    from benchorch.results.compare.stored_run import StoredRun, StoredTrial

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.4 system-ui;margin:2rem auto;padding:0 1rem;max-width:75rem}"
    "div{overflow-x:auto}table{border-collapse:collapse}h2{margin-top:2rem}"
    "td,th{padding:.3rem .8rem;text-align:left;border-bottom:1px solid #8884;vertical-align:top}"
    ".numbers :is(td,th):not(:first-child){text-align:right}"
    ".words td:last-child{overflow-wrap:anywhere}"
    "@media(max-width:40rem){td,th{padding:.3rem .4rem}.words thead{display:none}"
    ".numbers td:first-child{overflow-wrap:anywhere;min-width:7rem}.words td:empty{display:none}"
    ".words :is(table,tbody,tr,td){display:block}.words tr{border-bottom:1px solid #8884}"
    ".words td{border:0;overflow-wrap:anywhere}}"
)
_HEAD = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Corpus report</title>"
    "<meta name=viewport content='width=device-width'>"
    f"<style>{_STYLE}</style><h1>Corpus report</h1>"
)
WHOLE = "all"
"""The name of the row over all folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCoverage:
    """What was found in the scripts of a folder.

    Attributes:
        scripts, with_models: how many there are, and in how many a model was called.
        calls: signatures of their models.
        benchmarkable: of those, the calls that can be made again.
        exported: of those, the calls whose module was captured.
    """

    folder: str
    scripts: int
    with_models: int
    calls: int
    benchmarkable: int
    exported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a conversion made of the models of a folder.

    Attributes:
        trials: how many models it was planned for.
        ran: of those, how many were built and measured.
        same_model: of those, how many passed parity.
        faster: of those, how many have the verdict ``faster``; None where single processes, which
            give none, are all there is.
        speedup_ratio: geometric mean of the speedups over the baseline of those that passed parity,
            from a single process too, but for intervals too wide for a number; None without one.
    """

    folder: str
    conversion: str
    trials: int
    ran: int
    same_model: int
    faster: int | None
    speedup_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingResult:
    """A script, or one of its models under a conversion, that has no result.

    Attributes:
        what: the script's name, or the model's.
        conversion: empty where it came to none.
    """

    what: str
    conversion: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusReport:
    """Coverage and gains, by folder, the first row over all; and what was lost on the way."""

    coverage: tuple[ScriptCoverage, ...]
    gains: tuple[Gain, ...]
    losses: tuple[MissingResult, ...] = ()

    def write(self, directory: Path) -> Path:
        """Write ``corpus.json``, ``corpus.csv`` and ``corpus.html``; the page's path."""
        write_text(directory / "corpus.json", json.dumps(asdict(self), indent=2))
        write_text(directory / "corpus.csv", self.csv())
        write_text(directory / "corpus.html", self.html())
        return directory / "corpus.html"

    def csv(self) -> str:
        """A line for each folder and conversion, with the folder's coverage."""
        found = {row.folder: asdict(row) for row in self.coverage}
        return csv_of([{**found[gain.folder], **asdict(gain)} for gain in self.gains])

    def tables(self) -> list[list[tuple[str, ...]]]:
        """Coverage and gains as cells, the headers first."""
        coverage = [("folder", "scripts", "with models", "calls", "benchmarkable", "exported")]
        gains = [("folder", "conversion", "trials", "ran", "same model", "faster", "speedup")]
        return [
            [*coverage, *(tuple(map(str, asdict(row).values())) for row in self.coverage)],
            [*gains, *(_cells(row) for row in self.gains)],
        ]

    def text(self) -> str:
        """Both tables for a terminal."""
        from benchorch.results.report.console_table import table_text

        return "\n\n".join(table_text(table) for table in self.tables())

    def html(self) -> str:
        """A page of its own: both tables, and why each of the others has no result."""
        losses = [("script or model", "conversion", "reason"), *map(_values, self.losses)]
        parts = (
            ("What was found in the scripts", "numbers", self.tables()[0]),
            ("What conversions made of their models", "numbers", self.tables()[1]),
            ("What has no result, and why", "words", losses),
        )
        return "".join([_HEAD, *(_section(*part) for part in parts)])


def corpus_report(
    folders: Mapping[str, str], founds: Sequence[ConfigNode], run: StoredRun
) -> CorpusReport:
    """What became of the scripts of one command.

    Args:
        folders: of each script's path, its name relative to what all have in common.
        founds: what was found in each.
        run: in which they were measured; its trials carry their script as a label.
    """
    places = [str(PurePosixPath(folders[str(found["script"])]).parent) for found in founds]
    names = [WHOLE, *(sorted(set(places)) if len(set(places)) > 1 else [])]
    return CorpusReport(
        coverage=tuple(
            _coverage(name, [f for f, p in zip(founds, places, strict=True) if name in (WHOLE, p)])
            for name in names
        ),
        gains=tuple(gain for name in names for gain in _gains(name, run)),
        losses=(*_lost_scripts(folders, founds), *_lost_trials(run)),
    )


def _lost_scripts(
    folders: Mapping[str, str], founds: Sequence[ConfigNode]
) -> Iterator[MissingResult]:
    for found in founds:
        problem = cast("ConfigNode | None", found.get("problem"))
        if problem:
            name = folders[str(found["script"])]
            yield MissingResult(what=name, conversion="", reason=str(problem["message"]))


def _lost_trials(run: StoredRun) -> Iterator[MissingResult]:
    for skip in run.skips:
        labels = skip.labels
        yield MissingResult(
            what=labels["model"], conversion=labels["conversion"], reason=skip.reason
        )
    for stored in run.trials:
        labels, reason = stored.trial.labels, stored.failure or stored.disagreement
        if reason:
            yield MissingResult(
                what=labels["model"], conversion=labels["conversion"], reason=reason
            )


def _values(loss: MissingResult) -> tuple[str, ...]:
    return loss.what, loss.conversion, loss.reason


def _section(title: str, kind: str, table: Sequence[tuple[str, ...]]) -> str:
    """A table under its title; nothing without a row."""
    if len(table) == 1:
        return ""
    return f"<h2>{title}</h2><div class={kind}>{html_table(table)}</div>"


def _coverage(folder: str, founds: Sequence[ConfigNode]) -> ScriptCoverage:
    calls = [
        call
        for found in founds
        for model in cast("list[ConfigNode]", found["models"])
        for call in cast("list[ConfigNode]", model["invocations"])
    ]
    taken = [cast(ConfigNode, call["model"]) for call in calls if "model" in call]
    return ScriptCoverage(
        folder=folder,
        scripts=len(founds),
        with_models=sum(bool(found["models"]) for found in founds),
        calls=len(calls),
        benchmarkable=len(taken),
        exported=sum("program" in node for node in taken),
    )


def _gains(folder: str, run: StoredRun) -> Iterator[Gain]:
    trials = [stored for stored in run.trials if folder in (WHOLE, _folder(stored))]
    for conversion in dict.fromkeys(each.trial.labels["conversion"] for each in trials):
        tried = [each for each in trials if each.trial.labels["conversion"] == conversion]
        ran = [each for each in tried if not each.failure]
        same = [each for each in ran if not each.disagreement]
        compared = [each.speedup for each in same if each.speedup]
        judged = [e for e in compared if e.verdict != INCONCLUSIVE or e.ratio.low is not None]
        ratios = [
            each.ratio.value
            for each in compared
            if each.verdict != INCONCLUSIVE or not is_unknown(each.ratio)
        ]
        yield Gain(
            folder=folder,
            conversion=conversion,
            trials=len(tried),
            ran=len(ran),
            same_model=len(same),
            faster=sum(each.verdict == "faster" for each in judged) if judged else None,
            speedup_ratio=geometric_mean(ratios) if ratios else None,
        )


def _folder(stored: StoredTrial) -> str:
    return str(PurePosixPath(stored.trial.labels.get("script", "")).parent)


def _cells(gain: Gain) -> tuple[str, ...]:
    *counts, ratio = asdict(gain).values()
    shown = ("–" if count is None else str(count) for count in counts)
    return (*shown, "–" if ratio is None else f"{ratio:.3g}x")
