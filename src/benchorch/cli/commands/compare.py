"""``benchorch compare A B``: faster, slower or equivalent, trial by trial.

Exit codes: 0, at least one verdict, of a median or of a floor; 2, wrong arguments; 3, nothing could
be compared; 4, cannot tell: all that was compared is inconclusive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.comparison_arguments import (
    ACROSS,
    METRIC,
    NO_GAIN,
    REFERENCE,
    SESSION,
    ComparedSide,
    alone_data,
    factors,
    metric_names,
    open_sessions,
    open_side,
    percent_text,
    ratio_text,
    reasons,
    sessions_remark,
    share,
    side_notes,
    value_text,
)
from benchorch.cli.terminal import Terminal
from benchorch.domain.codec import Json, encode
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.progress import Say
from benchorch.results.compare.matching import Match, Unmatched, match
from benchorch.results.compare.metric_kinds import FLOOR
from benchorch.results.compare.pairing import is_same, paired_samples
from benchorch.results.compare.verdicts import (
    INCONCLUSIVE,
    REFUSED,
    MetricVerdict,
    all_metrics,
    applies,
    compare_cases,
    decides,
    has_floor,
    primary_metric,
    supported,
)
from benchorch.results.report.console_table import table_text, tidy

SCHEMA_VERSION = 1
_HEADERS = ("trial", "metric", "A [95 %]", "B [95 %]", "B / A [95 %]", "B is", "measured")

_TWO_MACHINES = (
    "across hardware: these ratios are of two machines; a claim about two kinds of machines takes "
    "three of each."
)


@command(
    "compare",
    help=f"""Faster, slower or equivalent, trial by trial.

    A and B are each {REFERENCE}; RUN::CONVERSION is one trial of it.

    \b
    Exit codes: 0  at least one verdict    2  wrong arguments
                3  nothing to compare      4  all comparisons are inconclusive
    """,
)
@run_argument("a", "A")
@run_argument("b", "B")
@click.option("--all", "everything", is_flag=True, help="all metrics, not only the primary one")
@METRIC
@ACROSS
@SESSION
@click.option(
    "--delta", type=share, metavar="SHARE", help="differences up to this are equivalent, e.g. 1%"
)
def run(
    terminal: Terminal,
    a: str,
    b: str,
    everything: bool,
    delta: float | None,
    **options: Sequence[str],
) -> Reply:
    """The verdict of every trial of both sides, or the reason why there is none."""
    names = metric_names(options["metric"])
    first, second = open_side(a, terminal.say), open_side(b, terminal.say)
    return _compared(first, second, names, everything, delta, options, terminal.say)


def _compared(
    a: ComparedSide,
    b: ComparedSide,
    names: Sequence[str],
    everything: bool,
    delta: float | None,
    options: Mapping[str, Sequence[str]],
    say: Say,
) -> Reply:
    across = factors(options["across"], a, b)
    matches, alone = match(a.trials, b.trials, across)
    if not matches:
        raise ConfigError([_nothing_in_common(alone)])
    cases = [(one, metric) for one in matches for metric in _chosen(one, names, everything)]
    by_default = [] if names or everything else cases
    floors = [(one, FLOOR) for one, metric in by_default if _floor_counts(one, metric)]
    judged = compare_cases(
        [*cases, *floors],
        across=across,
        delta_ratio=delta,
        sessions=[one.trials for one in open_sessions(options["session"], (a, b), across, say)],
    )
    by_floor = judged[len(cases) :]
    floor_of = {one.name: one for one in by_floor}
    verdicts = [
        supported(one, floor_of[one.name]) if one.name in floor_of else one
        for one in judged[: len(cases)]
    ]
    notes = side_notes(matches)
    return Reply(
        text=tidy("\n".join(_text(a, b, verdicts, by_floor, alone, notes, across))),
        data=_data(a, b, verdicts, by_floor, alone, notes, sorted(across)),
        exit_code=_exit_code({one.verdict for one in [*verdicts, *_deciding(verdicts, by_floor)]}),
    )


def _exit_code(verdicts: Collection[str]) -> int:
    if set(verdicts) - {REFUSED, INCONCLUSIVE}:
        return 0
    return 4 if INCONCLUSIVE in verdicts else 3


def _chosen(one: Match, names: Sequence[str], everything: bool) -> Sequence[str]:
    metrics = names or (all_metrics(one) if everything else ()) or (primary_metric(one),)
    return [metric for metric in metrics if applies(one, metric)]


def _floor_counts(one: Match, metric: str) -> bool:
    """Whether the two ran apart: other work moves their floors least, and pairs need none."""
    return has_floor(one, metric) and paired_samples(one, metric) is None and not is_same(one)


def _nothing_in_common(alone: Sequence[Unmatched]) -> str:
    sides = [", ".join(one.name for one in alone if one.side == side) for side in ("A", "B")]
    return (
        f"No trial of A is one of B. A has: {sides[0]}. B has: {sides[1]}. Trials are the same by "
        "model, conversion, hardware, workload and scenario; name what may differ with --across, "
        "or pick one conversion of each with RUN::CONVERSION."
    )


def _text(
    a: ComparedSide,
    b: ComparedSide,
    verdicts: Sequence[MetricVerdict],
    floors: Sequence[MetricVerdict],
    alone: Sequence[Unmatched],
    notes: Sequence[str],
    across: Collection[str],
) -> Iterator[str]:
    yield f"A  {a.run.reference}  plan {a.run.plan_id}"
    yield f"B  {b.run.reference}  plan {b.run.plan_id}"
    yield ""
    yield from _tables([*verdicts, *floors])
    yield from reasons(verdicts)
    yield from (
        f"{one.name}: by the floor ({FLOOR}) {one.verdict}, {ratio_text(one.ratio)}; "
        "a change of part of the calls is not in the floor"
        for one in _deciding(verdicts, floors)
    )
    yield from sessions_remark(verdicts)
    yield from (f"only in {one.side}: {one.name}: {one.reason}" for one in alone)
    yield from (f"also differs: {note}" for note in notes)
    if "hardware" in across:
        yield _TWO_MACHINES
    yield f"\n{_conclusion(verdicts, _deciding(verdicts, floors))}"


def _deciding(
    verdicts: Sequence[MetricVerdict], floors: Sequence[MetricVerdict]
) -> list[MetricVerdict]:
    """Floors that tell where their medians cannot."""
    medians = {one.name: one for one in verdicts}
    return [one for one in floors if decides(one, medians[one.name])]


def _tables(verdicts: Sequence[MetricVerdict]) -> Iterator[str]:
    """One table; or one for each trial, where a trial has several rows."""
    if not verdicts:
        return
    by_trial: dict[str, list[MetricVerdict]] = {}
    for one in verdicts:
        by_trial.setdefault(one.name, []).append(one)
    if len(by_trial) == len(verdicts):
        yield table_text([_HEADERS, *map(_row, verdicts)])
        yield ""
        return
    for name, rows in by_trial.items():
        yield name
        yield table_text([_HEADERS[1:], *(_row(one)[1:] for one in rows)])
        yield ""


def _row(one: MetricVerdict) -> tuple[str, ...]:
    return (
        one.name,
        one.metric,
        value_text(one.a),
        value_text(one.b),
        ratio_text(one.ratio),
        one.verdict,
        _how(one),
    )


def _how(one: MetricVerdict) -> str:
    if one.drift_ratio is None:
        return one.design or "–"
    sessions = "" if one.session_ratio is None else f", sessions {percent_text(one.session_ratio)}"
    return f"{one.design}, drift {percent_text(one.drift_ratio)}{sessions}"


def _conclusion(verdicts: Sequence[MetricVerdict], by_floor: Sequence[MetricVerdict]) -> str:
    if not verdicts:
        return f"B against A: nothing to compare: {NO_GAIN}."
    told = f"; by the floor {_counted(by_floor)}" if by_floor else ""
    compared = sum(one.verdict != REFUSED for one in verdicts)
    together = "" if compared < 2 else " Intervals and verdicts hold for all of them together."
    return f"B against A: {_counted(verdicts)}{told}.{together}"


def _counted(verdicts: Sequence[MetricVerdict]) -> str:
    counts = Counter(one.verdict for one in verdicts)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def _data(
    a: ComparedSide,
    b: ComparedSide,
    verdicts: Sequence[MetricVerdict],
    floors: Sequence[MetricVerdict],
    alone: Sequence[Unmatched],
    notes: Sequence[str],
    across: Sequence[str],
) -> Json:
    return {
        "schema_version": SCHEMA_VERSION,
        "a": a.data(),
        "b": b.data(),
        "across": across,
        "comparisons": [encode(one) for one in verdicts],
        "floors": [encode(one) for one in floors],
        "by_floor": [one.name for one in _deciding(verdicts, floors)],
        "alone": alone_data(alone),
        "also_different": list(notes),
    }
