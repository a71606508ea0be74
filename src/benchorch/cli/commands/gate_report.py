"""What a gate found, for a terminal, for a pull request and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.cli.commands.comparison_arguments import (
    alone_data,
    percent_text,
    ratio_text,
    reasons,
    side_notes,
    value_text,
)
from benchorch.domain.codec import Json, encode
from benchorch.formatting import plural
from benchorch.results.compare.gate import Gate, Gated
from benchorch.results.compare.metric_kinds import higher_is_better
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.report.console_table import table_text, tidy

SCHEMA_VERSION = 1
_HEADERS = ("trial", "metric", "baseline", "candidate", "ratio [95 %]", "limit", "verdict")
_MARKS = {"pass": "pass", "regression": "REGRESSION", "unclear": "unclear", "refused": "REFUSED"}
_SAID = {
    "pass": "no regression beyond {limit}",
    "regression": "worse than its baseline by more than {limit}",
    "unclear": "a regression beyond {limit} is neither shown nor ruled out",
    "refused": "not everything could be compared",
}


@dataclass(frozen=True, slots=True)
class Words:
    """A gate and how the user called its two sides."""

    gate: Gate
    baseline: str
    candidate: str

    @property
    def title(self) -> str:
        """The verdict in a line."""
        said = _SAID[self.gate.state].format(limit=percent_text(self.gate.limit_ratio))
        return f"{_MARKS[self.gate.state]}: {said}"

    @property
    def next_command(self) -> str:
        """What shows more."""
        return f"python -m benchorch compare {self.baseline} {self.candidate} --all"


def text(words: Words) -> str:
    """For a terminal: the verdict last, where the eye is."""
    found = words.gate
    lines = [f"A  baseline   {words.baseline}", f"B  candidate  {words.candidate}", ""]
    if found.cases:
        lines += [table_text([_HEADERS, *map(_row, found.cases)]), ""]
    lines += [*_remarks(words), "", words.title, f"next  {words.next_command}"]
    return tidy("\n".join(lines))


def markdown(words: Words) -> str:
    """For a pull request: the verdict first, the table, and all else folded away."""
    found = words.gate
    lines = [f"## benchorch gate: {words.title}", "", *_counts(found), ""]
    if found.cases:
        lines += [_markdown_row(_HEADERS), "|---|---|---:|---:|---:|---:|---|"]
        lines += [_markdown_row(_row(one, bold=True)) for one in found.cases]
        lines.append("")
    lines += [f"- {_escaped(remark)}" for remark in _remarks(words)]
    lines += ["", "<details><summary>How to read this, and where it was measured</summary>", ""]
    lines += [f"- {_escaped(line)}" for line in (*_LEGEND, *_places(found))]
    lines += ["", "</details>", "", "Next:", "", "```", words.next_command, "```"]
    return tidy("\n".join(lines)) + "\n"


_LEGEND = (
    "A is the baseline, B the candidate. ratio: B over A, with an interval that holds for all rows "
    "together.",
    "measured one after the other: the interval is widened by as much as a fixed piece of work "
    "(the canary) saw the machine change.",
    "REGRESSION: the whole interval lies beyond the limit. pass: the whole interval lies within "
    "it. unclear: the interval includes the limit. REFUSED: there is nothing to judge.",
)


def data(words: Words, exit_code: int) -> Json:
    """For programs."""
    found = words.gate
    return {
        "schema_version": SCHEMA_VERSION,
        "state": found.state,
        "exit_code": exit_code,
        "baseline": words.baseline,
        "candidate": words.candidate,
        "max_regression_ratio": found.limit_ratio,
        "cases": [encode(one) for one in found.cases],
        "missing": alone_data(found.missing),
        "not_judged": [*_exempt(found), *(f"{one.name}: {one.reason}" for one in found.alone)],
        "also_different": list(side_notes(found.matches)),
        "next": words.next_command,
    }


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
    told = [f"{states.count(state)} {state}" for state in _MARKS if state in states]
    missing = [f"{len(found.missing)} missing"] if found.missing else []
    yield f"{plural(len(states), 'case')}: {', '.join((*told, *missing)) or 'nothing to judge'}."


def _remarks(words: Words) -> Iterator[str]:
    """Everything that is not a number: why, what is missing, what was not judged."""
    found = words.gate
    yield from reasons(one.judged for one in found.cases if one.state != "pass")
    yield from (f"missing: {one.name}: {one.reason}" for one in found.missing)
    yield from (f"not judged: {line}" for line in _exempt(found))
    new = {"A": "only in the baseline, which has no result of it", "B": "new: no baseline has it"}
    yield from (f"not judged: {one.name}: {new[one.side]}" for one in found.alone)
    if not found.cases and not found.missing:
        yield "the baseline has no trial that ran and was right, so there is nothing to judge"


def _exempt(found: Gate) -> list[str]:
    return [
        f"{one.name}: already so in the baseline: {one.a.failure or one.a.disagreement}"
        for one in found.exempt
    ]


def _places(found: Gate) -> Iterator[str]:
    """Where both sides were measured, and what else was not the same."""
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
    known = stored.result.environment
    packages = known.get("packages")
    named = packages.items() if isinstance(packages, Mapping) else ()
    told = [
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
    return ", ".join(words.format(value) for value, words in told if value)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    """What Markdown and HTML would take for their own."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(plain.split())
