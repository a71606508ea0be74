"""The findings as one JSON file: totals, verdict, and the first rows of every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from benchorch.trace.analysed import Analysed
from benchorch.trace.dag import Dag
from benchorch.trace.findings import Branch, Diagnosis, EntityRow, WindowFindings
from benchorch.trace.report.context import SCHEMA_VERSION, UNATTRIBUTED, share, tables

TOP_ROWS = 50


def summary(analysis: Analysed) -> dict[str, object]:
    """Plain values, the most important first; times are whole nanoseconds."""
    findings = analysis.findings
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": _verdict(findings.diagnosis),
        "makespan_ns": findings.makespan_ns,
        "path_ns": findings.path_ns,
        "invariants": dict(findings.invariants),
        "classes": dict(findings.classes),
        "tiers": dict(findings.tiers),
        **_totals(findings),
        "window": _window(analysis.dag),
        "iterations_ns": list(findings.iterations),
        "stability_ratio": findings.stability_ratio,
        "dilation_ratio": findings.dilation_ratio,
        "warnings": list(findings.warnings),
        "repairs": dict(findings.repairs),
        "facts": dict(findings.facts),
        "tables": {name: first_rows(rows) for name, rows in tables(findings).items()},
        "branches": [as_mapping(branch) for branch in findings.branches],
        "graph": None if analysis.graph is None else analysis.graph.name,
    }


def first_rows(rows: tuple[EntityRow, ...]) -> list[dict[str, object]]:
    """The first rows; that of unattributed time is always among them."""
    rest = [row for row in rows[TOP_ROWS:] if row.name == UNATTRIBUTED]
    return [as_mapping(row) for row in (*rows[:TOP_ROWS], *rest)]


def as_mapping(value: EntityRow | Branch) -> dict[str, object]:
    """A value's fields by name; a factor without bound is None, which JSON has."""
    found = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    return {name: None if item == float("inf") else item for name, item in found.items()}


def _verdict(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "limit": diagnosis.limit,
        "sentence": diagnosis.sentence,
        "advice": diagnosis.advice,
        "gains": dict(diagnosis.gains),
        "evidence": dict(diagnosis.evidence),
        "largest": diagnosis.largest,
        "largest_gain_ratio": diagnosis.largest_gain_ratio,
    }


def _totals(findings: WindowFindings) -> Mapping[str, object]:
    longest = findings.dataflow_ns
    return {
        "busy_ns": findings.busy_ns,
        "work_ns": findings.work_ns,
        "dataflow_ns": longest,
        "parallelism_ratio": share(findings.work_ns, longest) if longest else None,
        "near_critical_ratio": findings.near_critical,
        "overlap_ratio": findings.overlap_ratio,
        "launch": dict(findings.launch),
    }


def _window(dag: Dag) -> Mapping[str, object]:
    window = dag.window
    return {
        "name": window.name,
        "iteration": window.iteration,
        "start_ns": window.start_ns,
        "end_ns": window.end_ns,
    }
