"""The findings as one JSON file: verdict, periods, and the first rows of every table."""

from dataclasses import asdict

from benchorch.trace.analysis import Analysis
from benchorch.trace.report.text import SCHEMA_VERSION

TOP_ROWS = 50


def summary(analysis: Analysis) -> dict[str, object]:
    """Plain values, the most important first; times are whole nanoseconds."""
    findings, steps = analysis.findings, analysis.steps
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": asdict(findings.verdict),
        "period_ns": findings.period_ns,
        "makespan_ns": findings.makespan_ns,
        "path_ns": findings.path_ns,
        "matched_ratio": findings.matched_ratio,
        "steps": {
            "name": steps.name,
            "marked": len(steps.start_ns),
            "first": steps.first,
            "count": len(steps),
            "shown": list(steps.shown),
            "back_to_back": steps.back_to_back,
            "periods_ns": list(findings.periods_ns),
        },
        "classes": dict(findings.classes),
        "devices": [
            {**asdict(one), "utilisation_ratio": one.utilisation_ratio} for one in findings.devices
        ],
        "dilation_ratio": findings.dilation_ratio,
        "warnings": list(findings.warnings),
        "repairs": dict(findings.repairs),
        "facts": dict(findings.facts),
        "tables": {
            name: [asdict(row) for row in (*rows[:-1][:TOP_ROWS], rows[-1])]
            for name, rows in findings.tables.items()
        },
        "branches": [asdict(branch) for branch in findings.branches],
        "graph": None if analysis.graph is None else analysis.graph.name,
    }
