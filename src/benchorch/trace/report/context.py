"""Tables of the findings, and numbers formatted for people."""

from __future__ import annotations

from collections.abc import Mapping

from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.units import NS_PER_MS, NS_PER_S, NS_PER_US

SCHEMA_VERSION = 1
"""Of every JSON file here; raised when a reader of the last version could misread this one."""

UNATTRIBUTED = "unattributed"
"""The row of a table for the time that belongs to nothing in it."""


def tables(findings: WindowFindings) -> Mapping[str, tuple[EntityRow, ...]]:
    """Every table that has rows, by name."""
    listed = {
        "operators": findings.operators,
        "modules": findings.modules,
        "kernels": findings.kernels,
        "graph nodes": findings.graph_nodes,
        "folds": findings.folds,
    }
    return {name: rows for name, rows in listed.items() if rows}


def share(part_ns: float, whole_ns: float) -> float:
    """A part over the whole; of an empty whole nothing."""
    return part_ns / whole_ns if whole_ns else 0.0


def duration(length_ns: float) -> str:
    """For people, with three digits: ``4.05 µs``, ``12.3 ms``."""
    size = abs(length_ns)
    for unit_ns, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if size >= unit_ns:
            return f"{length_ns / unit_ns:.{2 if size < 10 * unit_ns else 1}f} {unit}"
    return f"{length_ns:.0f} ns"


def percent(ratio: float) -> str:
    """For people; what is there but small is not nothing."""
    if 0 < ratio < 0.001:
        return "<0.1 %"
    if ratio == 0:
        return "0 %"
    return f"{100 * ratio:.1f} %" if ratio < 0.0995 else f"{100 * ratio:.0f} %"


def times(ratio: float) -> str:
    """A factor for people: ``1.42×``; no bound is ``∞``."""
    return "∞" if ratio == float("inf") else f"{ratio:.2f}×"
