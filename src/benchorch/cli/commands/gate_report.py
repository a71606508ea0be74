"""The result of a gate for a terminal, for a pull request and for programs."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.cli.commands.comparison_arguments import (
    NO_GAIN,
    alone_data,
    percent_text,
    ratio_text,
    reasons,
    sessions_remark,
    side_notes,
    value_text,
)
from benchorch.cli.terminal import Terminal, writing
from benchorch.domain.certificate import Certificate
from benchorch.domain.codec import Json, encode
from benchorch.files import write_text
from benchorch.formatting import plural
from benchorch.results.compare.detectable import too_fine
from benchorch.results.compare.gate import Gate, Gated
from benchorch.results.compare.metric_kinds import LATENCY, higher_is_better
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.report.console_table import table_text, tidy
from benchorch.stats.pairs import SEQUENTIAL

SCHEMA_VERSION = 1
HEADERS = ("trial", "metric", "baseline", "candidate", "ratio [95 %]", "limit", "verdict")
_MARKS = {"pass": "pass", "regression": "REGRESSION", "unclear": "unclear", "refused": "REFUSED"}
_EXIT_CODES = {"pass": 0, "unclear": 4, "regression": 1, "refused": 3}
_SENTENCES = {
    "pass": "no regression beyond {limit}",
    "regression": "worse than its baseline by more than {limit}",
    "unclear": "a regression beyond {limit} is neither shown nor ruled out",
    "refused": "not everything could be compared",
}


_FIRST = "first: this session is the first one, with nothing to be compared with"


@dataclass(frozen=True, slots=True)
class GateReport:
    """A gate, its two sides as the user named them, and the machine's calibration."""

    gate: Gate
    baseline: str
    candidate: str
    certificate: Certificate | None = None

    @property
    def title(self) -> str:
        """The verdict in a line."""
        return sentence(self.gate.state, self.gate.limit_ratio)

    @property
    def next_command(self) -> str:
        """The command for more details."""
        words = ["compare", self.baseline, self.candidate, "--all"]
        if not self.gate.cases:
            words = ["report", self.candidate]
        return shlex.join(["python", "-m", "benchorch", *words])


@dataclass(frozen=True, slots=True)
class FirstSession:
    """A candidate without an earlier session to be compared with, and why there is none."""

    baseline: str
    candidate: str
    limit_ratio: float
    problems: tuple[str, ...]

    @property
    def allowed_command(self) -> str:
        """The command with which it passes."""
        words = ["--baseline", self.baseline, "--candidate", self.candidate]
        words += ["--max-regression", f"{100 * self.limit_ratio:g}%", "--allow-first"]
        return shlex.join(["benchorch", "gate", *words])

    def text(self) -> str:
        """For a terminal."""
        return "\n".join([*self.problems, "", _FIRST])

    def markdown(self) -> str:
        """For a pull request."""
        remarks = "\n".join(f"- {escaped(problem)}" for problem in self.problems)
        return f"## benchorch gate: {_FIRST}\n\n{remarks}\n"

    def data(self) -> Json:
        """For programs: the keys of every gate."""
        return {
            "schema_version": SCHEMA_VERSION,
            "state": "first",
            "exit_code": 0,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "max_regression_ratio": self.limit_ratio,
            "cases": [],
            "missing": [],
            "not_judged": [*self.problems],
            "also_different": [],
            "machine": [],
            "next": f"python -m benchorch report {self.candidate}",
        }


def sentence(state: str, limit_ratio: float) -> str:
    """A state in a line."""
    return f"{_MARKS[state]}: {_SENTENCES[state].format(limit=percent_text(limit_ratio))}"


def text(report: GateReport) -> str:
    """For a terminal: the verdict last, where the eye is."""
    found = report.gate
    lines = [f"A  baseline   {report.baseline}", f"B  candidate  {report.candidate}", ""]
    if found.cases:
        lines += [table_text([HEADERS, *rows(found.cases)]), ""]
    lines += [*_remarks(report), "", report.title, f"next  {report.next_command}"]
    return tidy("\n".join(lines))


def markdown(report: GateReport) -> str:
    """For a pull request: the verdict first, the table, and all else folded away."""
    found = report.gate
    lines = [f"## benchorch gate: {report.title}", "", *_counts(found), ""]
    if found.cases:
        lines += [*markdown_table(found.cases), ""]
    lines += [f"- {escaped(remark)}" for remark in _remarks(report)]
    lines += ["", "<details><summary>How to read this, and where it was measured</summary>", ""]
    lines += [f"- {escaped(line)}" for line in (*_LEGEND, *_places(found))]
    lines += ["", "</details>", "", "Next:", "", "```", report.next_command, "```"]
    return tidy("\n".join(lines)) + "\n"


def markdown_table(cases: Sequence[Gated]) -> list[str]:
    """A row for each case, and one for its floor."""
    lines = [_markdown_row(HEADERS), "|---|---|---:|---:|---:|---:|---|"]
    return [*lines, *(_markdown_row(row) for row in rows(cases, bold=True))]


_LEGEND = (
    "A is the baseline, B the candidate. ratio: B over A, with an interval that holds for all rows "
    "together.",
    "sequential, measured one after the other: the interval also holds the ratio less what a "
    "reference workload on the machine changed by.",
    "latency_ms/p01, the floor: it decides where the median cannot, and sees only what every call "
    "has to do.",
    "REGRESSION: the whole interval is beyond the limit. pass: the whole interval is within "
    "it. unclear: the interval includes the limit. REFUSED: there is nothing to compare.",
)


def data(report: GateReport, exit_code: int) -> Json:
    """For programs."""
    found = report.gate
    return {
        "schema_version": SCHEMA_VERSION,
        "state": found.state,
        "exit_code": exit_code,
        "baseline": report.baseline,
        "candidate": report.candidate,
        "max_regression_ratio": found.limit_ratio,
        "cases": [encode(one) for one in found.cases],
        "missing": alone_data(found.missing),
        "not_judged": [*_exempt(found), *(f"{one.name}: {one.reason}" for one in found.alone)],
        "also_different": list(side_notes(found.matches)),
        "machine": list(_too_fine(report)),
        "next": report.next_command,
    }


def rows(cases: Sequence[Gated], bold: bool = False) -> Iterator[tuple[str, ...]]:
    """A row for each case, and one for its floor; the verdict is on the one that decided."""
    for one in cases:
        *row, mark = _row(one, bold)
        yield (*row, "" if one.by_floor else mark)
        if one.floor is not None:
            row = [*_row(replace(one, judged=one.floor))[:-1]]
            yield (*row, mark if one.by_floor else "")


def _row(one: Gated, bold: bool = False) -> tuple[str, ...]:
    judged = one.judged
    mark = _MARKS[one.state]
    sign = "≥" if higher_is_better(judged.metric) else "≤"
    return (
        judged.name,
        judged.metric,
        value_text(judged.a),
        value_text(judged.b),
        ratio_text(judged.ratio),
        f"{sign} {one.limit:.3f}",
        f"**{mark}**" if bold and one.state in ("regression", "refused") else mark,
    )


def _counts(found: Gate) -> Iterator[str]:
    states = [one.state for one in found.cases]
    counted = [f"{states.count(state)} {state}" for state in _MARKS if state in states]
    counted += [f"{len(found.missing)} missing"] if found.missing else []
    yield f"{plural(len(states), 'case')}: {', '.join(counted) or 'nothing to compare'}."


def _remarks(report: GateReport) -> Iterator[str]:
    """Everything that is not a number: reasons, missing trials, trials left out."""
    found = report.gate
    yield from (f"{one.judged.name}: {one.remark}" for one in found.cases if one.remark)
    yield from reasons(one.judged for one in found.cases if one.state != "pass")
    yield from sessions_remark(one.judged for one in found.cases)
    yield from _too_fine(report)
    yield from (f"missing: {one.name}: {one.reason}" for one in found.missing)
    yield from (f"not judged: {line}" for line in _exempt(found))
    new = {"A": "only in the baseline, which has no result of it", "B": "new: no baseline has it"}
    yield from (f"not judged: {one.name}: {new[one.side]}" for one in found.alone)
    if not found.cases and not found.missing:
        ran = len(found.matches) > len(found.exempt)
        why = NO_GAIN if ran else "the baseline has no trial that ran correctly"
        yield f"{why}, so there is nothing to compare"


def _too_fine(report: GateReport) -> Iterator[str]:
    """That the limit is below what the calibrated machine can tell, where it is."""
    if report.certificate is None:
        return
    apart = [
        one.judged
        for one in report.gate.cases
        if one.judged.design == SEQUENTIAL and one.judged.metric == LATENCY
    ]
    counts = [min(one.a.n, one.b.n) for one in apart if one.a and one.b]
    if counts and (reason := too_fine(report.certificate, report.gate.limit_ratio, min(counts))):
        yield reason


def _exempt(found: Gate) -> list[str]:
    return [
        f"{one.name}: already so in the baseline: {one.a.failure or one.a.disagreement}"
        for one in found.exempt
    ]


def _places(found: Gate) -> Iterator[str]:
    """Where both sides were measured, and what else differs."""
    for one in found.matches[:1]:
        a, b = _place(one.a), _place(one.b)
        yield from [f"both on {a}"] if a == b else [f"A on {a}", f"B on {b}"]
    drifts = [one.judged.drift_ratio for one in found.cases if one.judged.drift_ratio is not None]
    if drifts:
        yield f"drift allowed for: up to {percent_text(max(drifts))}"
    yield from (f"also differs: {note}" for note in side_notes(found.matches))


def _place(stored: StoredTrial) -> str:
    if stored.result is None:
        return "no machine: it never ran"
    known = stored.environment
    packages = known.get("packages")
    named = packages.items() if isinstance(packages, Mapping) else ()
    facts = [
        (known.get("cpu_model"), "{}"),
        (known.get("cpu_physical_count"), "{} cores"),
        (stored.evidence.facts.get("threads"), "{} threads"),
        (known.get("host"), "host {}"),
        (known.get("kernel"), "kernel {}"),
        (known.get("python"), "Python {}"),
        *((f"{name} {version}", "{}") for name, version in named),
        (stored.result.grade, "grade {}"),
        (known.get("git_commit"), "commit {}"),
    ]
    return ", ".join(form.format(value) for value, form in facts if value)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """Text without Markdown and HTML of its own."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(plain.split())


def exit_code(state: str, strict: bool) -> int:
    """The exit code of a gate, or of a duel."""
    return 1 if strict and state == "unclear" else _EXIT_CODES[state]


def write_summary(terminal: Terminal, markdown: str, data: Json) -> None:
    """Write a summary for reviewers, or for programs, to ``--output``; ConfigError if it cannot be.

    What is printed stays the same.
    """
    path = terminal.output
    if path is None:
        return
    with writing(path):
        write_text(path, json.dumps(data, indent=2) if path.suffix == ".json" else markdown)
