"""Arguments of `compare` and `gate`, checked, and values as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import click

from benchorch.config.components import misspelt, nearest, suggest
from benchorch.domain.codec import Json
from benchorch.domain.estimate import Estimate
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.formatting import first_few, interval_text
from benchorch.progress import Say, silent
from benchorch.results.compare import metric_kinds
from benchorch.results.compare.compatibility import FACTORS, differences, excused_by
from benchorch.results.compare.matching import Match, Unmatched, match
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.results.compare.verdicts import MetricVerdict
from benchorch.units import format_bytes, significant

SELECTOR = "::"
_CASES_NAMED = 3
_FACTORS = ", ".join(FACTORS)
REFERENCE = (
    "a run's directory, its plan id, its MLflow run id, `last` (`last~1`: the one before), or a "
    "file of `report --json`"
)
NO_GAIN = "no trial has the metric, because a baseline has no gain over itself"
METRIC = click.option("--metric", multiple=True, help="instead of the primary metric; repeatable")
ACROSS = click.option(
    "--across",
    multiple=True,
    metavar="FACTOR",
    help="a difference that you intend: hardware, packages, host, ...",
)
SESSION = click.option(
    "--session",
    multiple=True,
    metavar="RUN",
    help="an earlier run of the baseline's code; two or more show how much sessions differ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One of the two that are compared.

    Attributes:
        conversion: the one selected by ``RUN::CONVERSION``, or an empty string.
        trials: all of the run, or the selected ones.
    """

    run: StoredRun
    conversion: str
    trials: tuple[StoredTrial, ...]

    def data(self) -> Json:
        """The side for programs."""
        return {
            "reference": self.run.reference,
            "plan_id": self.run.plan_id,
            "trials": len(self.trials),
        }


def open_side(reference: str, say: Say = silent) -> ComparedSide:
    """A run, or one conversion of it; ConfigError where there is none.

    Args:
        reference: ``RUN`` or ``RUN::CONVERSION``.
        say: receives progress, where it takes longer than a moment.
    """
    from benchorch.results.compare.load_run import load

    name, _, conversion = reference.partition(SELECTOR)
    run = load(name, say)
    selected = [
        stored
        for stored in run.trials
        if not conversion
        or conversion in (stored.trial.labels["conversion"], stored.trial.trial_id)
    ]
    if not selected:
        known = list(dict.fromkeys(one.trial.labels["conversion"] for one in run.trials))
        meant = nearest(conversion, known) or known[0]
        problem = f"{name} has no conversion {conversion!r}."
        listed = f"{suggest(conversion, known)} It has: {', '.join(known)}."
        correction = Correction(typed=conversion, meant=meant)
        raise ConfigError([Problem(problem + listed, correction)])
    return ComparedSide(run=run, conversion=conversion, trials=tuple(selected))


def open_sessions(
    names: Iterable[str],
    counted: Sequence[ComparedSide],
    across: Collection[str],
    say: Say,
) -> list[ComparedSide]:
    """The runs of --session; ConfigError for one that does not show how much sessions differ.

    That is one that counts already, and one of another machine or definition.

    Args:
        counted: the baseline, the other side, and other sessions of the baseline's code.
        across: factors that may differ.
    """
    opened = [(name, open_side(name, say)) for name in names]
    known, problems = {side.run.plan_id for side in counted}, []
    for name, side in opened:
        if side.run.plan_id in known:
            problem = (
                f"--session {name}: run {side.run.plan_id} counts already, so it does not show how "
                "much sessions differ; name another run or leave it out."
            )
            problems.append(Problem(problem, Correction(typed=name), key="--session"))
        elif unlike := _unlike(counted[0], side, across):
            problems.append(Problem(f"--session {name}: {unlike}", key="--session"))
        known.add(side.run.plan_id)
    if problems:
        raise ConfigError(problems)
    return [side for _, side in opened]


def _unlike(baseline: ComparedSide, session: ComparedSide, across: Collection[str]) -> str:
    """Why a session is not of the baseline's code and machine; empty where it is."""
    matches = [pair for one in baseline.trials for pair in match([one], session.trials, across)[0]]
    if not matches:
        return "no trial of it is one of the baseline's; name another run, or RUN::CONVERSION."
    found = {
        f"{one.field} is {one.b!r} and not {one.a!r}": one.factor
        for pair in matches
        if not (pair.a.failure or pair.b.failure)
        for one in differences(pair.a, pair.b)
        if one.factor and one.factor not in across
    }
    if not found:
        return ""
    first = first_few([*found], _CASES_NAMED, "; ")
    allowed = " ".join(f"--across {factor}" for factor in dict.fromkeys(found.values()))
    return f"it is no session of the baseline's: {first}. If that may differ, {allowed}"


def factors(texts: Iterable[str], a: ComparedSide, b: ComparedSide) -> frozenset[str]:
    """The factors that may differ: those named, and the conversion where two are selected."""
    named = named_factors(texts)
    return excused_by([*named, "conversion"]) if a.conversion and b.conversion else named


def named_factors(texts: Iterable[str]) -> frozenset[str]:
    """The factors that may differ, and those that differ with them; ConfigError for others."""
    named = [name for text in texts for name in text.split(",") if name]
    unknown = [
        misspelt(
            f"--across {name}: there is no such factor.", name, FACTORS, f" Factors: {_FACTORS}."
        )
        for name in named
        if name not in FACTORS
    ]
    if unknown:
        raise ConfigError(unknown)
    return excused_by(named)


def metric_names(texts: Sequence[str]) -> tuple[str, ...]:
    """The requested metrics, each once; ConfigError with every unknown name."""
    names = [name for text in texts for name in text.split(",") if name]
    problems = [
        problem.within("--metric ")
        for problem in map(metric_kinds.unknown_metric, names)
        if problem
    ]
    if problems:
        raise ConfigError(problems)
    return tuple(dict.fromkeys(names))


def share(text: str) -> float:
    """``2%`` or ``0.02`` as 0.02."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / 100 if percent else float(number)
    except ValueError:
        value = math.nan
    if rest or not math.isfinite(value) or value < 0 or (value >= 1 and not percent):
        raise click.BadParameter(f"{text!r} is not a share: write 2% or 0.02")
    return value


def minutes(text: str) -> float:
    """A duration above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise click.BadParameter(f"{text!r} is not a number of minutes above 0")
    return value


def value_text(estimate: Estimate | None) -> str:
    """``0.318 [0.289, 0.371]``, or the value alone where its spread is unknown."""
    if estimate is None:
        return "–"
    if estimate.unit == "bytes":
        return format_bytes(estimate.value)
    return interval_text(estimate, significant)


def ratio_text(ratio: Estimate | None) -> str:
    """``1.31 [1.22, 1.41]``, with three decimals."""
    if ratio is None:
        return "–"
    return interval_text(ratio, "{:.3f}".format)


def percent_text(value: float) -> str:
    """``2 %``, ``0.5 %``."""
    return f"{100 * value:.3g} %"


def reasons(verdicts: Iterable[MetricVerdict]) -> Iterator[str]:
    """Each reason for a missing verdict once, with its cases and the remedy."""
    found: dict[str, list[str]] = {}
    for one in verdicts:
        if one.reason:
            remedy = f". Try: {one.remedy}" if one.remedy else ""
            found.setdefault(f"{one.reason}{remedy}", []).append(f"{one.name} {one.metric}")
    for reason, cases in found.items():
        yield f"{first_few(cases, _CASES_NAMED)}: {reason}"


def sessions_remark(verdicts: Iterable[MetricVerdict]) -> Iterator[str]:
    """That how much sessions differ is assumed, where it is."""
    if any(one.sessions_alike is not None for one in verdicts):
        yield (
            "how much sessions of the same code differ is not known: the medians' intervals assume "
            "as much as processes do, the floors' that floors repeat. Name two or more earlier "
            "ones with --session RUN"
        )


def side_notes(matches: Sequence[Match]) -> tuple[str, ...]:
    """Differences between the sides that decide nothing, each once."""
    found = (
        str(difference)
        for one in matches
        if not (one.a.failure or one.b.failure)
        for difference in differences(one.a, one.b)
        if not difference.factor
    )
    return tuple(dict.fromkeys(found))


def alone_data(alone: Sequence[Unmatched]) -> Json:
    """Trials without a counterpart, for programs."""
    return [
        {
            "side": one.side,
            "name": one.name,
            "trial_id": one.stored.trial.trial_id,
            "reason": one.reason,
        }
        for one in alone
    ]
