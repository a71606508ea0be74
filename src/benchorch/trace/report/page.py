"""The HTML page of one window of a trace: one file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from benchorch.pages import templates
from benchorch.pages.markup import json_in_script
from benchorch.pages.templates import MOST_BYTES, SizeBudget
from benchorch.trace.analysed import Analysed
from benchorch.trace.dag import Class, Tier
from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.report.colors import OF_CLASS, OF_TIER
from benchorch.trace.report.context import UNATTRIBUTED, duration, percent, share, tables, times
from benchorch.trace.report.table import HEADER, row_texts

_HERE = Path(__file__).parent
STYLE = templates.STYLE
SCRIPT = (_HERE / "report.js").read_text(encoding="utf-8")

MOST_ROWS, MOST_BRANCHES = 60, 60
UNSURE_SHARE = 0.25
GAIN = "#2e7d32"

KINDS = {
    "operators": "operator",
    "modules": "module",
    "kernels": "kernel",
    "graph nodes": "operator",
}
"""Tables whose rows have a what-if, and the kind that the form gives them."""

MEANING = {
    "×": "how often it ran",
    "total": "its own time, summed",
    "on path": "of it, on the critical path; of the whole",
    "drag": "by how much the whole would be shorter if it took no time",
    "blame": "how long other lanes waited for it",
    "2× faster": "the whole, were it twice as fast",
    "free": "the whole, if it took no time",
    "bound": "Amdahl's limit by its time on the path",
    "roofline": "attained of what this machine allows",
    "limited by": "which side of the roofline",
}
CLASS_TEXT = {
    Class.GPU_COMPUTE: "kernels that compute",
    Class.GPU_MEMORY: "kernels that move memory",
    Class.GPU_COPY: "copies to and from the device",
    Class.GPU_COMM: "communication between devices",
    Class.STREAM_GAP: "gaps between kernels",
    Class.LAUNCH_LATENCY: "from a launch to its kernel",
    Class.SYNC_EXIT: "leaving a synchronisation",
    Class.CPU_COMPUTE: "operators on the host",
    Class.CPU_FRAMEWORK: "the framework's dispatch",
    Class.CPU_RUNTIME: "calls into the device's runtime",
    Class.CPU_PYTHON: "Python between operators",
    Class.DATA_LOADING: "loading data",
    Class.BACKPRESSURE: "a full launch queue",
    Class.LOCK: "waiting for a lock",
    Class.PROFILER: "the profiler itself",
    Class.CARRY_IN: "work from before the window",
    Class.UNEXPLAINED: "unexplained time",
}
TIER_TEXT = {
    Tier.RECORDED: "recorded",
    Tier.SEMANTIC: "follows from what was called",
    Tier.INFERRED: "inferred from coincidence in time",
    Tier.UNEXPLAINED: "unexplained",
}

Bar = tuple[str, float, str, str]
"""A label, a share, a color, and the amount for people."""


def page(analysis: Analysed, form: Mapping[str, object], icicle: str, command: str) -> str:
    """The page.

    Args:
        analysis: of the window.
        form: the columns of `whatif_form`.
        icicle: the chart of the critical path.
        command: that shows the graph in Model Explorer.
    """
    findings = analysis.findings
    template = templates.templates(_HERE).get_template("report.html.j2")
    return template.render(
        style=STYLE,
        script=SCRIPT,
        analysis=analysis,
        findings=findings,
        broken=[name for name, holds in findings.invariants.items() if not holds],
        evidence=_evidence(findings),
        figures=_figures(findings),
        advised=_advised(findings),
        unsure=_unsure_share(findings),
        most_unsure=UNSURE_SHARE,
        command=command,
        has_model=analysis.graph is not None,
        bars=_bars(findings),
        icicle=Markup(icicle),
        budget=SizeBudget(MOST_BYTES - templates.size_of(STYLE, SCRIPT) - _size(form) - 600_000),
        tables=[_table(name, rows, findings) for name, rows in tables(findings).items()],
        facts=_facts(findings),
        form=form,
        start=_largest_gains(findings),
        share=share,
        duration=duration,
        percent=percent,
        times=times,
        most_branches=MOST_BRANCHES,
    )


def _size(form: Mapping[str, object]) -> int:
    return templates.size_of(json_in_script(form))


def _evidence(findings: WindowFindings) -> str:
    """Shares of the path by tier."""
    found = [
        f"{percent(share(ns, findings.path_ns))} {TIER_TEXT[tier]}"
        for tier in TIER_TEXT
        if (ns := findings.tiers.get(tier.name.lower(), 0))
    ]
    return ", ".join(found) or "none"


def _figures(findings: WindowFindings) -> Iterator[tuple[str, str]]:
    """The few numbers that everything else is a share of."""
    yield duration(findings.makespan_ns), "from start to end"
    yield percent(share(findings.busy_ns, findings.makespan_ns)), "of it something ran"
    if findings.dataflow_ns:
        yield f"{findings.work_ns / findings.dataflow_ns:.2f}", "operators could run at once"
    if findings.overlap_ratio is not None:
        yield percent(findings.overlap_ratio), "overlap of host and device"
    yield percent(findings.diagnosis.largest_gain_ratio), "largest single gain"
    if len(findings.iterations) > 1:
        yield str(len(findings.iterations)), "iterations in the trace"


def _advised(findings: WindowFindings) -> list[tuple[str, EntityRow]]:
    """The row with the largest gain of each table of code."""
    return [
        (name, found[0])
        for name in ("operators", "modules", "kernels")
        if (found := _by_gain(findings, name))
    ]


def _largest_gains(findings: WindowFindings) -> list[Mapping[str, str]]:
    """The first curves of the form: the two largest gains of each table."""
    return [
        {"kind": kind, "value": row.name}
        for name, kind in KINDS.items()
        for row in _by_gain(findings, name)[:2]
    ]


def _by_gain(findings: WindowFindings, table: str) -> list[EntityRow]:
    rows = tables(findings).get(table, ())
    real = [row for row in rows if row.name != UNATTRIBUTED and row.drag_ns > 0]
    return sorted(real, key=lambda row: -row.drag_ns)


def _unsure_share(findings: WindowFindings) -> float:
    tiers = (Tier.INFERRED, Tier.UNEXPLAINED)
    unsure_ns = sum(findings.tiers.get(tier.name.lower(), 0) for tier in tiers)
    return share(unsure_ns, findings.path_ns)


def _bars(findings: WindowFindings) -> Mapping[str, Sequence[Bar]]:
    """Bar charts by their headings: time by class, gains, time by tier."""
    classes = {
        CLASS_TEXT[one]: (findings.classes.get(one.value, 0), OF_CLASS[one]) for one in Class
    }
    tiers = {
        text: (findings.tiers.get(tier.name.lower(), 0), OF_TIER[tier])
        for tier, text in TIER_TEXT.items()
    }
    gains = sorted(findings.diagnosis.gains.items(), key=lambda gain: -gain[1])
    ordered = dict(sorted(classes.items(), key=lambda one: -one[1][0]))
    return {
        "What the critical path is spent on": _spent(ordered, findings.path_ns),
        "How much less time it would take with": [
            (f"no {name}", ratio, GAIN, percent(ratio)) for name, ratio in gains
        ],
        "How each piece of it is known": _spent(tiers, findings.path_ns),
    }


def _spent(spent: Mapping[str, tuple[int, str]], path_ns: int) -> list[Bar]:
    return [
        (text, share(ns, path_ns), color, f"{duration(ns)} ({percent(share(ns, path_ns))})")
        for text, (ns, color) in spent.items()
        if ns
    ]


def _table(name: str, rows: Sequence[EntityRow], findings: WindowFindings) -> Mapping[str, object]:
    """The first rows of a table; each cell has a number to sort by beside its text."""
    shown = rows[:MOST_ROWS]
    texts = [row_texts(row, findings.makespan_ns) for row in shown]
    columns = [column for column in HEADER if any(text[column] for text in texts)]
    lines = []
    for row, text in zip(shown, texts, strict=True):
        numbers = _numbers(row)
        lines.append((row.name, [(text[column], numbers[column]) for column in columns]))
    return {
        "name": name,
        "kind": KINDS.get(name),
        "heads": [(column, MEANING.get(column)) for column in columns],
        "lines": lines,
        "more": len(rows) - len(shown),
    }


def _numbers(row: EntityRow) -> Mapping[str, object]:
    """The keys that columns are sorted by; unknown values come last."""
    return {
        "name": row.name,
        "×": row.count,
        "total": row.total_ns,
        "on path": row.on_path_ns,
        "drag": row.drag_ns,
        "blame": row.blame_ns,
        "2× faster": repr(row.speedup_2x),
        "free": _javascript(row.speedup_max),
        "bound": _javascript(row.bound_path),
        "roofline": -1 if row.efficiency_ratio is None else repr(row.efficiency_ratio),
        "limited by": row.bound,
    }


def _javascript(ratio: float) -> str:
    return "Infinity" if ratio == float("inf") else repr(ratio)


def _facts(findings: WindowFindings) -> Iterator[tuple[str, str]]:
    """Checks, repairs, measurements and definitions."""
    checks = {name: "holds" if holds else "BROKEN" for name, holds in findings.invariants.items()}
    yield "checks", _listed(checks)
    yield "repairs", _listed(findings.repairs) or "none"
    yield "nearly critical", f"{percent(findings.near_critical)} of all dependencies"
    if len(findings.iterations) > 1:
        yield "iterations", ", ".join(duration(ns) for ns in findings.iterations[:40])
    if findings.stability_ratio is not None:
        yield "stability", f"{percent(findings.stability_ratio)} of the path is the same in all"
    if findings.launch:
        yield "launches", _listed({name: duration(ns) for name, ns in findings.launch.items()})
    if findings.facts:
        yield "facts", _listed({name: f"{value:g}" for name, value in findings.facts.items()})
    yield "critical path", "the chain of pieces that the whole time consists of, without a gap"
    yield (
        "drag",
        "how much shorter the whole would be if a piece took no time; other chains take over, so "
        "drags do not add up",
    )
    yield (
        "what if",
        "the observed run replayed with other durations. Caches, clocks, memory and other choices "
        "of kernels are taken to stay as they were",
    )


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
