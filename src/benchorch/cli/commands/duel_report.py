"""The result of a duel for a terminal, for a pull request and for programs."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchorch.cli.commands import gate_report
from benchorch.cli.commands.comparison_arguments import ratio_text
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Estimate
from benchorch.domain.reply import Reply
from benchorch.formatting import plural
from benchorch.results.compare.duels import position
from benchorch.results.compare.gate import Gated, gravest
from benchorch.results.report.console_table import table_text, tidy
from benchorch.run.duel.checkout import Checkout
from benchorch.run.duel.contender import CodeVersion
from benchorch.run.duel.duel import Duel
from benchorch.run.duel.messages import Origin

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class DuelReport:
    """A duel, its sides, and where what was measured is kept.

    Attributes:
        skips: what was requested and could not be measured, with reasons.
    """

    duel: Duel
    sides: tuple[CodeVersion, CodeVersion]
    directory: Path
    checkout: Checkout | None
    skips: Sequence[str] = ()

    @property
    def cases(self) -> Sequence[Gated]:
        """The verdict of each trial."""
        return self.duel.cases()

    @property
    def state(self) -> str:
        """The gravest of all trials."""
        return gravest({one.state for one in self.cases})

    @property
    def title(self) -> str:
        """The verdict in a line."""
        cut = "interrupted; so far " if self.duel.interrupted else ""
        return f"{cut}{gate_report.sentence(self.state, self.duel.terms.limit_ratio)}"

    @property
    def next_commands(self) -> Sequence[str]:
        """The commands for more details, one a side."""
        words = ("python", "-m", "benchorch", "report")
        return [shlex.join([*words, str(side.directory)]) for side in self.sides]


def text(report: DuelReport) -> str:
    """For a terminal: the verdict last, where the eye is."""
    lines = [*_places(report), ""]
    lines += [table_text([gate_report.HEADERS, *gate_report.rows(report.cases)]), ""]
    lines += [*_remarks(report), "", report.title]
    lines += [f"kept in {report.directory}", *(f"next  {one}" for one in report.next_commands)]
    return tidy("\n".join(lines))


def markdown(report: DuelReport) -> str:
    """For a pull request: the verdict first, then the table."""
    lines = [f"## benchorch duel: {report.title}", ""]
    lines += gate_report.markdown_table(report.cases)
    lines += ["", *(f"- {gate_report.escaped(line)}" for line in _remarks(report))]
    lines += [f"- {gate_report.escaped(line)}" for line in _places(report)]
    return tidy("\n".join(lines)) + "\n"


def data(report: DuelReport, exit_code: int) -> Json:
    """For programs."""
    duel = report.duel
    return {
        "schema_version": SCHEMA_VERSION,
        "state": report.state,
        "exit_code": exit_code,
        "interrupted": duel.interrupted,
        "max_regression_ratio": duel.terms.limit_ratio,
        "sides": [
            {"name": side.name, "what": side.what, "run": str(side.directory)}
            for side in report.sides
        ],
        "origins": encode(duel.origins),
        "cases": [
            {
                "trial_id": bout.trial.trial_id,
                "pairs": len(bout.meetings),
                "position_ratio": encode(position(bout.meetings)),
                **cast("dict[str, Json]", encode(case)),
            }
            for bout, case in zip(duel.bouts, report.cases, strict=True)
        ],
        "skips": list(report.skips),
        "also_different": list(_differences(duel.origins)),
        "directory": str(report.directory),
    }


def not_begun(reason: str) -> Reply:
    """The answer where a side could not begin: nothing can be compared."""
    code = gate_report.exit_code("refused", strict=False)
    data: Json = {
        "schema_version": SCHEMA_VERSION,
        "state": "refused",
        "exit_code": code,
        "reason": reason,
    }
    return Reply(text=f"REFUSED: {reason}", data=data, exit_code=code)


def _places(report: DuelReport) -> Iterator[str]:
    origins: Sequence[Origin | None] = report.duel.origins or (None, None)
    for letter, side, origin in zip("AB", report.sides, origins, strict=True):
        commit = f", commit {origin.commit}" if origin and origin.commit else ""
        yield f"{letter}  {side.name}  {side.what}{commit}"


def _remarks(report: DuelReport) -> Iterator[str]:
    """Everything that is not a number."""
    for bout, case in zip(report.duel.bouts, report.cases, strict=True):
        pairs = plural(len(bout.meetings), "pair")
        why = case.judged.reason if case.state == "refused" else case.remark
        yield f"{bout.name}: {pairs}{_verdicts(case)}{f': {why}' if why else ''}"
        first = position(bout.meetings)
        if first is not None and _is_off(first):
            yield (
                f"{bout.name}: whichever ran first took {ratio_text(first)} of its time as the "
                "second; that is not in the ratio"
            )
    yield from (f"skipped {skip}" for skip in report.skips)
    yield from (f"also differs: {line}" for line in _differences(report.duel.origins))
    if report.checkout is not None and report.checkout.submodules:
        yield "the old version's submodules are empty: they were not checked out"


def _verdicts(case: Gated) -> str:
    """What either statistic shows of the new version."""
    known = {"median": case.judged, "floor": case.floor}
    shown = [f"{name} {one.verdict}" for name, one in known.items() if one is not None]
    return "" if case.state == "refused" else f", {', '.join(shown)}"


def _differences(origins: tuple[Origin, Origin] | None) -> Iterator[str]:
    """What else is not the same, besides the user's own code."""
    if origins is None:
        return
    old, new = origins
    for name in ("benchorch", "python", "executable"):
        of_old, of_new = getattr(old, name), getattr(new, name)
        if of_old != of_new:
            yield f"{name}: {of_old} in A, {of_new} in B"
    if old.benchorch_file != new.benchorch_file:
        yield f"benchorch itself: {old.benchorch_file} in A, {new.benchorch_file} in B"


def _is_off(found: Estimate) -> bool:
    """Whether an interval lies beside 1."""
    return found.low is not None and found.high is not None and not found.low <= 1 <= found.high
