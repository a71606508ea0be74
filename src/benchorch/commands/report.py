"""``benchorch report RUN``: table, conclusion and doubts, derived anew from what was stored."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchorch.commands.drawing import paper, tidy
from benchorch.commands.sides import REFERENCE
from benchorch.comparing import export
from benchorch.comparing.reading import derive, locate, stored
from benchorch.domain.estimate import Summary
from benchorch.domain.reply import Reply
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.journal import write_text
from benchorch.stages.report import Report


def run(arguments: Sequence[str]) -> Reply:
    """The table for people; the run without its raw series for programs."""
    wanted = _parser().parse_args(list(arguments))
    found = locate(wanted.run)
    if found.is_file():
        kept = export.read(found)
        directory = Path(f"<directory of {kept.plan_id}>")
        shown = _shown(kept.plan(), kept.results(), kept.summaries(), directory)
    else:
        derived = derive(found, wanted.run)
        kept = stored(derived, wanted.run)
        shown = _shown(derived.plan, derived.results, derived.summaries, found)
    if wanted.output is None:
        return Reply(text=shown[0], data=export.to_json(kept))
    if wanted.json or wanted.output.suffix == ".json":
        export.write(kept, wanted.output)
    else:
        _write(wanted.output, shown[1])
    text = f"{wanted.output} holds this run: {len(kept.results())} of {len(kept.trials)} trials."
    return Reply(text=text, data={"written": str(wanted.output), "plan_id": kept.plan_id})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch report", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("run", metavar="RUN", help=REFERENCE)
    parser.add_argument(
        "--json", action="store_true", help="everything but raw series, as compare and gate read it"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="write it there: Markdown, or with --json (or a name in .json) the export",
    )
    return parser


def _shown(
    plan: Plan,
    results: Mapping[str, TrialResult],
    summaries: Mapping[str, Summary],
    directory: Path,
) -> tuple[str, str]:
    """The table as a person at the terminal sees it, and the same as Markdown."""
    console, written = paper()
    report = Report(console)
    report.plan(plan, done=0)
    markdown = report.table(plan, results, summaries, directory)
    return tidy(written.getvalue()), markdown


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise ConfigError([f"--output: {path} cannot be written: {error.strerror}."]) from error
