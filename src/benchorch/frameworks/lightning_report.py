"""Reader of the reports of Lightning's ``Trainer(profiler=...)``, for each of its profilers.

Reports are text, in a file of their own or within a log: a line ``FIT Profiler Report``, then the
table of `SimpleProfiler`, or a ``Profile stats for:`` section for each action of `AdvancedProfiler`
(Python's cProfile) or for all records of `PyTorchProfiler` (torch.profiler's own table).
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.formatting import whole_number

_TITLE = re.compile(r"^(?:(\w+) )?Profiler Report\s*$", re.MULTILINE)
_SECTION = re.compile(r"^Profile stats for: (.*?)(?: rank: \d+)?$", re.MULTILINE)
_CPROFILE = re.compile(r"^[ \t]*\d+ function calls .*in ([\d.]+) seconds", re.MULTILINE)
_FUNCTION = re.compile(r"^\s*(\d+)(?:/\d+)?\s+([\d.]+)\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s+(\S.*)$")
_TIME = re.compile(r"^([\d.]+)(ns|us|ms|s)$")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_LOOKED_AT_BYTES = 4_000_000  # a report that begins later in a log is not looked for


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAction:
    """An action of a Trainer's loop, a function, or an operator.

    Attributes:
        name: as the profiler has it.
        within: of a function, the action that it was called in; else "".
        calls: how often; None where the profiler does not say.
        total_s: with all that it called.
        self_s: without; None where the profiler does not say.
    """

    name: str
    within: str = ""
    calls: int | None
    total_s: float
    self_s: float | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LightningReport:
    """Profiler report of Lightning.

    Attributes:
        stage: ``fit``, ``predict``, ...; "" where it does not say.
        profiler: ``simple``, ``advanced`` or ``pytorch``.
        wall_s: of the whole run; None where the profiler does not say.
        rows: those that took longest first.
    """

    stage: str
    profiler: str
    wall_s: float | None
    rows: tuple[TimedAction, ...]


def read_lightning_reports(path: Path) -> tuple[LightningReport, ...]:
    """Every report in a file, in order; none where it holds no such text."""
    with path.open("rb") as file:
        content = file.read(_LOOKED_AT_BYTES)
    if b"Profiler Report" not in content:
        return ()
    text = content.decode("utf-8", "replace")
    titles = list(_TITLE.finditer(text))
    ends = [*(title.start() for title in titles[1:]), len(text)]
    bodies = [text[title.end() : end] for title, end in zip(titles, ends, strict=False)]
    return tuple(
        _report((title[1] or "").lower(), body) for title, body in zip(titles, bodies, strict=True)
    )


def _report(stage: str, body: str) -> LightningReport:
    sections = _SECTION.split(body)[1:]  # name, text, name, text, ...
    if not sections:
        return _simple(stage, body)
    named = list(zip(sections[::2], sections[1::2], strict=True))
    if any(_CPROFILE.search(text) for _, text in named):
        profiler, rows = "advanced", [row for name, text in named for row in _advanced(name, text)]
    else:
        profiler, rows = "pytorch", [row for _, text in named for row in _operators(text)]
    return LightningReport(stage=stage, profiler=profiler, wall_s=None, rows=_longest_first(rows))


def _longest_first(rows: Sequence[TimedAction]) -> tuple[TimedAction, ...]:
    return tuple(sorted(rows, key=lambda row: row.total_s, reverse=True))


def _simple(stage: str, body: str) -> LightningReport:
    """A table between bars; how often is there only where the profiler is ``extended``."""
    table = [_cells(line) for line in body.splitlines() if line.lstrip().startswith("|")]
    header, wall_s, rows = table[0] if table else [], None, []
    for cells in table[1:]:
        row = _action(header, cells)
        if row is not None and row.name == "Total" and "Num calls" in header:
            wall_s = row.total_s
        elif row is not None:
            rows.append(row)
    return LightningReport(stage=stage, profiler="simple", wall_s=wall_s, rows=_longest_first(rows))


def _action(header: Sequence[str], cells: Sequence[str]) -> TimedAction | None:
    """A row of the simple table; None where it was cut short."""
    extra = len(cells) - len(header)  # an action's name may have bars in it
    if extra < 0:
        return None
    numbers = dict(zip(header[1:], cells[extra + 1 :], strict=True))
    try:
        total_s = float(numbers["Total time (s)"])
        calls = numbers.get("Num calls")
        counted = int(calls) if calls else _counted(float(numbers["Mean duration (s)"]), total_s)
    except (KeyError, ValueError, OverflowError):
        return None
    if not math.isfinite(total_s):
        return None
    return TimedAction(name="|".join(cells[: extra + 1]), calls=counted, total_s=total_s)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _counted(mean_s: float, total_s: float) -> int | None:
    """How often, from a mean and a total that were rounded to five digits; None where unsure."""
    ratio = total_s / mean_s if mean_s > 0 else 0.0
    whole = round(ratio)
    return whole if whole and abs(ratio - whole) < 0.25 else None


def _advanced(action: str, text: str) -> Iterator[TimedAction]:
    """The action, and the functions that cProfile saw in it."""
    total = _CPROFILE.search(text)
    if total:
        yield TimedAction(name=action, calls=None, total_s=float(total[1]))
    for line in text.splitlines():
        found = _FUNCTION.match(line)
        if found:
            yield TimedAction(
                name=found[4].strip(),
                within=action,
                calls=whole_number(found[1]),
                total_s=float(found[3]),
                self_s=float(found[2]),
            )


def _operators(text: str) -> Iterator[TimedAction]:
    """torch.profiler's table, whose columns are as wide as the rules between them."""
    lines = text.splitlines()
    rules = [index for index, line in enumerate(lines) if line.startswith("---")]
    if len(rules) < 2:
        return
    spans = [match.span() for match in re.finditer(r"-+", lines[rules[0]])]
    header = _sliced(lines[rules[0] + 1], spans)
    for line in lines[rules[1] + 1 : rules[2] if len(rules) > 2 else None]:
        cells = dict(zip(header, _sliced(line, spans), strict=True))
        total_s, self_s = _seconds(cells.get("CPU total", "")), _seconds(cells.get("Self CPU", ""))
        calls = cells.get("# of Calls", "")
        if total_s is not None and "Name" in cells:
            yield TimedAction(
                name=cells["Name"],
                calls=whole_number(calls),
                total_s=total_s,
                self_s=self_s,
            )


def _sliced(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [line[start:end].strip() for start, end in spans]


def _seconds(text: str) -> float | None:
    found = _TIME.match(text)
    return float(found[1]) * _SECONDS[found[2]] if found else None
