"""The parts of the page for a reader who has never seen one: what limits, why, what to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchorch.trace.analysed import Analysed
from benchorch.trace.dag import Class, Tier
from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.report.colors import OF_CLASS, OF_TIER
from benchorch.trace.report.context import UNATTRIBUTED, duration, percent, share, tables, times
from benchorch.trace.report.markup import element, escaped, shortened

UNSURE_SHARE = 0.25

IN_WORDS = {
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
    Class.UNEXPLAINED: "nothing that the trace explains",
}
TIERS = {
    Tier.RECORDED: "recorded",
    Tier.SEMANTIC: "follows from what was called",
    Tier.INFERRED: "inferred from coincidence in time",
    Tier.UNEXPLAINED: "unexplained",
}


def opening(analysis: Analysed) -> str:
    """The verdict, what it rests on, and everything that casts doubt on it."""
    findings = analysis.findings
    window = analysis.dag.window
    which = f"{window.name}, iteration {window.iteration}" if window.iteration else window.name
    broken = [name for name, holds in findings.invariants.items() if not holds]
    return "".join(
        [
            element("h1", {}, escaped(findings.diagnosis.sentence)),
            element("p", {}, _evidence(findings)),
            element("p", {"class": "small"}, f"Critical path of {escaped(shortened(which, 120))}"),
            *(element("p", {"class": "warning"}, escaped(text)) for text in findings.warnings),
            _broken(broken),
        ]
    )


def _broken(names: Sequence[str]) -> str:
    if not names:
        return ""
    text = f"Internal error: {', '.join(names)} does not hold. Do not use these numbers."
    return element("p", {"class": "warning broken"}, escaped(text))


def _evidence(findings: WindowFindings) -> str:
    """Shares of the path by tier, and what profiling did to the run."""
    found = [
        f"{percent(share(findings.tiers.get(tier.name.lower(), 0), findings.path_ns))} {words}"
        for tier, words in TIERS.items()
        if findings.tiers.get(tier.name.lower(), 0)
    ]
    dilation = findings.dilation_ratio
    slowed = (
        "how much the profiler slowed it was not measured"
        if dilation is None
        else f"profiled it took {times(dilation)} as long"
    )
    return escaped(f"Evidence: {', '.join(found) or 'none'}; {slowed}.")


def figures(findings: WindowFindings) -> str:
    """The few numbers that everything else is a share of."""
    shown = [(duration(findings.makespan_ns), "from start to end")]
    shown.append((percent(share(findings.busy_ns, findings.makespan_ns)), "of it something ran"))
    if findings.dataflow_ns:
        ratio = findings.work_ns / findings.dataflow_ns
        shown.append((f"{ratio:.2f}", "operators could run at once"))
    if findings.overlap_ratio is not None:
        shown.append((percent(findings.overlap_ratio), "overlap of host and device"))
    shown.append((percent(findings.diagnosis.largest_gain_ratio), "largest single gain"))
    if len(findings.iterations) > 1:
        shown.append((str(len(findings.iterations)), "iterations in the trace"))
    boxes = [
        element(
            "div",
            {"class": "figure"},
            element("b", {}, escaped(number)),
            element("span", {}, words),
        )
        for number, words in shown
    ]
    return element("div", {"class": "figures"}, *boxes)


def next_steps(findings: WindowFindings) -> str:
    """What somebody who does not know this page should do with it, in order."""
    steps = [escaped(findings.diagnosis.advice)] if findings.diagnosis.advice else []
    for table, row in _worth_trying(findings):
        least = times(row.speedup_2x)
        steps.append(
            f"Look at <code>{escaped(shortened(row.name, 90))}</code> ({table}): without it the "
            f"whole takes {percent(share(row.drag_ns, findings.makespan_ns))} less; twice as fast, "
            f"it makes the whole {least} as fast."
        )
    unsure = share(_unsure_ns(findings), findings.path_ns)
    if unsure > UNSURE_SHARE:
        steps.append(
            f"Record more first: {percent(unsure)} of the path is inferred or unexplained. Ranges "
            "called <code>wait:…</code> around what waits for another thread make it known."
        )
    steps.append("Ask <a href='#what-if'>what if</a> before you change any code.")
    steps.append(
        "Open the trace beside it, <code>perfetto.json.gz</code>, at ui.perfetto.dev: the first "
        "track is the critical path, and every slice of it says why it is there."
    )
    steps.append(
        "See the model's graph in Model Explorer: <code>model-explorer MODEL --node_data_paths "
        "FILE</code> with a file of <code>model_explorer/</code>, which also has the path as edges."
    )
    return element("ol", {}, *(element("li", {}, step) for step in steps))


def _worth_trying(findings: WindowFindings) -> list[tuple[str, EntityRow]]:
    """The largest gain of each table, where it is one."""
    found = []
    for name, rows in tables(findings).items():
        real = [row for row in rows if row.name != UNATTRIBUTED and row.drag_ns > 0]
        if real and name in {"operators", "modules", "kernels"}:
            found.append((name, max(real, key=lambda row: row.drag_ns)))
    return found


def _unsure_ns(findings: WindowFindings) -> int:
    return sum(
        findings.tiers.get(tier.name.lower(), 0) for tier in (Tier.INFERRED, Tier.UNEXPLAINED)
    )


def spending(findings: WindowFindings) -> str:
    """What the path's time went on, what would be saved, and how it is known."""
    classes = [
        (IN_WORDS[label], findings.classes.get(label.value, 0), OF_CLASS[label]) for label in Class
    ]
    listed = sorted((one for one in classes if one[1]), key=lambda one: -one[1])
    spent = _bars(
        [(words, ns, colour, duration(ns)) for words, ns, colour in listed], findings.path_ns
    )
    gained = _bars(
        [
            (f"no {name}", ratio, "#2e7d32", percent(ratio))
            for name, ratio in sorted(findings.diagnosis.gains.items(), key=lambda g: -g[1])
        ],
        1.0,
    )
    tiers = [
        (words, findings.tiers.get(tier.name.lower(), 0), OF_TIER[tier])
        for tier, words in TIERS.items()
    ]
    known = _bars(
        [(words, ns, colour, duration(ns)) for words, ns, colour in tiers if ns], findings.path_ns
    )
    parts = [("What the critical path is spent on", spent)]
    parts.append(("How much less time it would take with", gained))
    parts.append(("How each piece of it is known", known))
    boxes = [element("div", {}, element("h3", {}, words), bars) for words, bars in parts if bars]
    return element("div", {"class": "columns"}, *boxes)


def _bars(rows: Iterable[tuple[str, float, str, str]], whole: float) -> str:
    """A bar for each: words, size, colour, and its size for people."""
    parts = []
    for words, size, colour, amount in rows:
        width = 100 * min(max(share(size, whole), 0.0), 1.0)
        bar = element(
            "svg",
            {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "aria-hidden": "true"},
            element("rect", {"width": 100, "height": 10, "class": "track"}),
            element("rect", {"width": float(width), "height": 10, "fill": colour}),
        )
        said = f"{amount} ({percent(share(size, whole))})" if whole != 1.0 else amount
        label = element("span", {}, escaped(words))
        number = element("span", {"class": "amount"}, escaped(said))
        parts.append(element("div", {}, label, bar, number))
    return element("div", {"class": "bars"}, *parts) if parts else ""


def small_print(findings: WindowFindings) -> str:
    """What was checked, mended and measured, and what the words mean."""
    said = {
        "checks": _listed(
            {n: "holds" if ok else "BROKEN" for n, ok in findings.invariants.items()}
        ),
        "mended": _listed(findings.repairs) or "nothing",
        "nearly critical": f"{percent(findings.near_critical)} of all dependencies",
    }
    if len(findings.iterations) > 1:
        said["iterations"] = ", ".join(duration(ns) for ns in findings.iterations[:40])
    if findings.stability_ratio is not None:
        said["stability"] = f"{percent(findings.stability_ratio)} of the path is the same in all"
    if findings.launch:
        said["launches"] = _listed({n: duration(ns) for n, ns in findings.launch.items()})
    if findings.facts:
        said["facts"] = _listed({n: f"{value:g}" for n, value in findings.facts.items()})
    said |= {
        "critical path": "the chain of pieces that the whole time consists of, without a gap",
        "drag": "how much shorter the whole would be if a piece took no time; other chains take "
        "over, so drags do not add up",
        "what if": "the observed run replayed with other durations. Caches, clocks, memory and "
        "other choices of kernels are taken to stay as they were",
    }
    pairs = [
        element("dt", {}, escaped(name)) + element("dd", {}, escaped(shortened(text, 1500)))
        for name, text in said.items()
    ]
    return element("dl", {}, *pairs)


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
