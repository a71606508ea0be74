"""Report of an examination, for people and for programs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from benchorch.cli.commands.doctor.examination import Examination
from benchorch.cli.commands.doctor.overhead import MOST_OWN_RATIO, MOST_TIMING_RATIO, Overhead
from benchorch.cli.commands.doctor.self_comparison import Controls
from benchorch.cli.commands.doctor.timer_accuracy import GOAL_RATIO, Agreement
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Comparison, Estimate
from benchorch.host.advice import BAD, GOOD, NOTE
from benchorch.results.report.console_table import fold_line, terminal_width
from benchorch.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDEST = 100
_MARKS = {GOOD: ("✓", "green"), NOTE: ("·", "yellow"), BAD: ("✗", "red")}
_GRADES = {
    "A": ("green", "quiet: absolute times and comparisons can be trusted"),
    "B": ("yellow", "usable: comparisons can be trusted, absolute times within their intervals"),
    "C": ("red", "noisy: trust interleaved comparisons, not absolute times"),
}


def as_json(examined: Examination) -> dict[str, Json]:
    """Everything, for programs; a part that could not be made is null and in ``missing``."""
    return {
        "schema_version": 1,
        "grade": examined.grade.letter,
        "grade_details": encode(examined.grade),
        "bare_loop_ratio": _timing(examined.bare_loop),
        "self_overhead": _own(examined.overhead),
        "a_a": _pairing(examined.controls),
        "reasons": list(examined.reasons),
        "advice": list(examined.advice),
        "findings": [encode(finding) for finding in examined.findings],
        "missing": dict(examined.missing),
        "next_command": examined.next_command,
        "host": dict(examined.host),
        "elapsed_s": examined.elapsed_s,
    }


def _timing(found: Agreement | None) -> Json:
    if found is None:
        return None
    return {
        **_interval(found.ratio),
        "goal_ratio": GOAL_RATIO,
        "band_ratio": found.band_ratio,
        "agrees": found.agrees,
        "mark": found.weight,
        "bare_over_bare": _interval(found.bare_ratio),
    }


def _own(found: Overhead | None) -> Json:
    if found is None:
        return None
    return {
        **_interval(found.share),
        "mark": found.weight,
        "over_floor": _interval(found.over_floor),
        "timed_call_ratio": found.timed_call_ratio,
        "process_s": found.process_s,
        "calls_s": found.calls_s,
        "floor_s": found.floor_s,
    }


def _pairing(found: Controls | None) -> Json:
    if found is None:
        return None
    return {
        "same": {**_verdict(found.same), "mark": found.same_weight},
        "slower_by_a_tenth": {**_verdict(found.slower), "mark": found.slower_weight},
        "told_apart": found.told_apart,
    }


def _interval(estimate: Estimate) -> dict[str, Json]:
    return {name: getattr(estimate, name) for name in ("value", "low", "high", "n", "method")}


def _verdict(comparison: Comparison) -> dict[str, Json]:
    return {
        "verdict": comparison.verdict,
        "ratio": _interval(comparison.ratio),
        "p_value": comparison.p_value,
    }


def as_text(examined: Examination) -> str:
    """A page for a terminal, coloured where it is one."""
    from rich.console import Console

    written = io.StringIO()
    width = min(terminal_width(), _WIDEST)
    console = Console(file=written, width=width, force_terminal=sys.stdout.isatty(), emoji=False)
    _head(console, examined)
    machine = ((finding.weight, finding.subject, finding.seen) for finding in examined.findings)
    console.print(_table(("the machine", "found"), machine))
    console.print()
    console.print(_table(("benchorch on it", "measured"), _experiments(examined)))
    _what_to_do(console, examined)
    return "\n".join(line.rstrip() for line in written.getvalue().strip("\n").splitlines())


def _head(console: Console, examined: Examination) -> None:
    host, grade = examined.host, examined.grade
    style, meaning = _GRADES[grade.letter]
    memory = format_bytes(cast("int | None", host["memory_total_bytes"]) or 0)
    kind = ", virtual" if host.get("virtual_machine") else ""
    console.print(
        f"[bold]{host['cpu_model'] or host['architecture']}[/], {host['cpu_physical_count']} cores"
        f"{kind}, {memory}, {host['system']} {host['kernel']}, Python {host['python']}"
    )
    console.print(f"grade [bold {style}]{grade.letter}[/]  {meaning}\n")


def _table(heads: tuple[str, str], rows: Iterable[tuple[str, str, str]]) -> Table:
    """Rows of a weight, a subject and what was found."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False)
    table.add_column("", width=1)
    table.add_column(heads[0], width=15)
    table.add_column(heads[1], ratio=1)
    for weight, subject, seen in rows:
        table.add_row(Text(*_MARKS[weight]), Text(subject), Text(seen))
    return table


def _experiments(examined: Examination) -> Iterator[tuple[str, str, str]]:
    """The outcome of each experiment; those that could not be made are last."""
    yield from _outcomes(examined)
    for part, why in examined.missing.items():
        yield NOTE, part, f"not examined: {why}"


def _outcomes(examined: Examination) -> Iterator[tuple[str, str, str]]:
    """How each experiment ended, its name, and its result beside the goal."""
    bare, controls, own = examined.bare_loop, examined.controls, examined.overhead
    if bare is not None:
        seen = (
            f"{_ratio(bare.ratio, 4)} of a bare loop's time, goal: 1 ± {GOAL_RATIO:.0%}; the "
            f"loop against itself {_ratio(bare.bare_ratio, 4)}"
        )
        yield bare.weight, "a timed call", seen
    if controls is not None:
        same, slower = controls.same, controls.slower
        seen = f"{same.verdict}, {_ratio(same.ratio)}, goal: equivalent, 1 ± 1%"
        yield controls.same_weight, "identical work", seen
        seen = f"{slower.verdict}, {_ratio(slower.ratio)}, goal: slower, 0.909"
        yield controls.slower_weight, "10 % more work", seen
    if own is not None:
        seen = (
            f"{format_seconds(own.process_s)}: {format_seconds(own.calls_s)} calls of the model, "
            f"{format_seconds(own.floor_s)} as in a bare process, "
            f"{_percent(own.share)} benchorch's own, goal: 0% to {MOST_OWN_RATIO:.0%}"
        )
        yield own.weight, "one process", seen
        within = own.timed_call_ratio <= MOST_TIMING_RATIO
        seen = (
            f"{own.timed_call_ratio:.2%} for the clock and the loop, goal: at most "
            f"{MOST_TIMING_RATIO:.0%}"
        )
        yield GOOD if within else BAD, "inside a call", seen


def _ratio(estimate: Estimate, digits: int = 3) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.0%} ({estimate.low:.0%} to {estimate.high:.0%})"


def _what_to_do(console: Console, examined: Examination) -> None:
    if examined.advice:
        console.print("\n[bold]what to change[/]")
    for number, advice in enumerate(examined.advice, start=1):
        text = fold_line(f"{number:>3}. {advice}", console.width)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print("\n[bold]next[/]", end="  ")
    console.print(examined.next_command, markup=False, highlight=False)
    console.print(f"[dim]examined in {format_seconds(examined.elapsed_s)}; no settings changed[/]")
