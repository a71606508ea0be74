"""The findings as one JSON file: verdict, periods, and the first rows of every table."""

from dataclasses import asdict

from benchorch.trace.analysis import Analysis
from benchorch.trace.report.text import SCHEMA_VERSION

TOP_ROWS = 50
_PLAIN = (
    *("period_ns", "makespan_ns", "path_ns", "matched_ratio", "dilation_ratio", "classes"),
    *("warnings", "repairs", "facts"),
)


def summary(analysis: Analysis) -> dict[str, object]:
    """Plain values, the most important first; times are whole nanoseconds."""
    findings, steps = analysis.findings, analysis.steps
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": asdict(findings.verdict),
        **{name: getattr(findings, name) for name in _PLAIN},
        "steps": {
            "name": steps.name,
            "marked": len(steps.start_ns),
            "first": steps.first,
            "count": len(steps),
            "shown": list(steps.shown),
            "back_to_back": steps.back_to_back,
            "periods_ns": list(findings.periods_ns),
        },
        "devices": [
            {**asdict(one), "utilisation_ratio": one.utilisation_ratio} for one in findings.devices
        ],
        "tables": {
            name: [asdict(row) for row in (*rows[:-1][:TOP_ROWS], rows[-1])]
            for name, rows in findings.tables.items()
        },
        "branches": [asdict(branch) for branch in findings.branches],
        "graph": None if analysis.graph is None else analysis.graph.name,
    }
