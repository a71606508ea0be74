"""Findings of one window of a trace."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution import entities, layers, nodes
from benchorch.trace.attribution.counterfactuals import DEVICE, counterfactuals, of_classes
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import gains
from benchorch.trace.attribution.measured import OwnerTimes, measured
from benchorch.trace.attribution.owners import Owners, owners
from benchorch.trace.attribution.tables import Ledger
from benchorch.trace.attribution.workloads import events_with_rules, op_type, workloads
from benchorch.trace.critical_path.slack import near_critical, slack
from benchorch.trace.dag import CLASSES, CriticalPath, Dag, EdgeKind, Tier
from benchorch.trace.diagnosis.bottleneck import BottleneckEvidence, diagnose
from benchorch.trace.events import Category, Events
from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.graph.invariants import check
from benchorch.trace.operators.branches import Interval, branches, dataflow_path
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.provenance import Provenance, is_fused
from benchorch.trace.operators.roofline import Peaks
from benchorch.units import format_seconds, ns_to_s

UNEXPLAINED_RATIO = 0.1
"""Of the makespan: residuals beyond it are said, on the path or not."""

SIGNIFICANT_OVERHEAD_RATIO = 1.15
"""Profiled over unprofiled time from which on the profile is no longer the program."""


def findings(
    events: Events,
    dag: Dag,
    path: CriticalPath,
    *,
    graph: OperatorGraph | None = None,
    peaks: Peaks | None = None,
    dilation_ratio: float | None = None,
    provenance: Sequence[Provenance] = (),
) -> WindowFindings:
    """Composition of the critical path, attribution of its time, and gains.

    Args:
        events: of the trace.
        dag, path: of the window.
        graph: of the model, for its nodes, branches and dataflow path.
        peaks: of the device that did the work, for rooflines.
        dilation_ratio: profiled over unprofiled latency.
        provenance: of each compiled graph, in the order in which they were compiled.
    """
    owned = owners(events)
    slack_ns = slack(dag)
    owner_times = measured(dag, path, slack_ns, len(events))
    arguments = events.details.read(
        events_with_rules(events, owned, owner_times.in_window).tolist()
    )
    device = bool(of_classes(dag, DEVICE).any())
    busy_ns = _busy_ns(dag, device)
    ledger = Ledger(
        measured=owner_times,
        gains=gains(dag),
        workloads=workloads(events, owned, arguments, peaks),
        busy_ns=busy_ns if device else 0,
    )
    by_node = nodes.graph_nodes(events, owned, graph, provenance)
    tables = _tables(events, owned, by_node, graph, ledger, _types(events, arguments))
    floor_ns = peaks.launch_floor_ns if peaks else None
    saved_ns = counterfactuals(ledger.gains, events.lanes, floor_ns)
    evidence = BottleneckEvidence(
        makespan_ns=dag.makespan_ns,
        saved_ns=saved_ns,
        classes=_by_class(path),
        tiers=_by_tier(path),
        rows=tables["operators"][:-1] or tables["kernels"][:-1],
        device=device,
        tried=_tried(events, owner_times.in_window, tables["operators"]),
    )
    found = WindowFindings(
        makespan_ns=dag.makespan_ns,
        path_ns=path.length_ns,
        busy_ns=busy_ns,
        work_ns=int(owner_times.total_ns.sum()),
        dataflow_ns=None,
        classes=evidence.classes,
        tiers=evidence.tiers,
        invariants=check(dag, path),
        diagnosis=diagnose(evidence),
        near_critical=float(near_critical(slack_ns, dag.makespan_ns).mean()) if dag.edges else 0.0,
        overlap_ratio=_overlap(dag.makespan_ns, saved_ns) if device else None,
        launch=_launches(dag),
        iterations=(dag.makespan_ns,),
        dilation_ratio=dilation_ratio,
        repairs={**events.repairs, **dag.repairs},
        warnings=_warnings(dag, dilation_ratio, peaks),
        facts=dag.facts,
        operators=tables["operators"],
        modules=tables["modules"],
        kernels=tables["kernels"],
        graph_nodes=tables["graph_nodes"],
        folds=tables["folds"],
    )
    return _with_graph(found, graph, *_observed(events, by_node, owner_times)) if graph else found


def _tables(
    events: Events,
    owned: Owners,
    by_node: Entities,
    graph: OperatorGraph | None,
    ledger: Ledger,
    types: Mapping[int, str],
) -> dict[str, tuple[EntityRow, ...]]:
    """Every table by its name."""
    modules = layers.modules(events, owned, by_node, graph)
    in_window = ledger.measured.in_window
    entities_of = {
        "operators": entities.operators(events, owned, types),
        "modules": modules,
        "kernels": entities.kernels(events, owned),
        "graph_nodes": by_node,
        "folds": layers.folds(events, owned, modules, by_node, ledger.workloads, in_window),
    }
    return {name: ledger.table(rows) for name, rows in entities_of.items()}


def _types(events: Events, arguments: Mapping[int, Mapping[str, object]]) -> dict[int, str]:
    """The operators of nodes, which are called by other names."""
    return {
        event: op_type("", said)
        for event, said in arguments.items()
        if events.category[event] == Category.NODE and "op_name" in said
    }


def _with_graph(
    found: WindowFindings,
    graph: OperatorGraph,
    node_ns: Mapping[str, int],
    intervals: Mapping[str, Sequence[Interval]],
) -> WindowFindings:
    """Add the dataflow path and branches of the model's graph, where the trace has its nodes."""
    if not any(node.name in node_ns for node in graph.nodes):
        return found
    return replace(
        found,
        dataflow_ns=dataflow_path(graph, node_ns).length_ns,
        branches=branches(graph, node_ns, intervals),
    )


def _tried(events: Events, in_window: NDArray[np.bool_], rows: Sequence[EntityRow]) -> set[str]:
    """The conversions whose marks the window bears: fused kernels, narrow operands, nodes."""
    codes = np.flatnonzero(np.bincount(events.name[in_window[: len(events)]]))
    found: set[str] = set()
    if any(is_fused(events.names[code]) for code in codes):
        found |= {"inductor", "aot_inductor"}
    if (events.category[in_window[: len(events)]] == Category.NODE).any():
        found |= {"onnxruntime", "onnxruntime_cuda", "inductor_reduce_overhead", "cudagraphs"}
    widest = max((row for row in rows if row.dtype), key=lambda row: row.on_path_ns, default=None)
    if widest is not None and widest.dtype.startswith(("bfloat16", "float16", "int8")):
        found |= {"bf16", "fp16"}
    return found


def _by_class(path: CriticalPath) -> dict[str, int]:
    """Path time by class, the classes that occur; it sums to the makespan."""
    times = {one.value: path.duration_ns[path.label == code] for code, one in enumerate(CLASSES)}
    return {name: int(time.sum()) for name, time in times.items() if len(time)}


def _by_tier(path: CriticalPath) -> dict[str, int]:
    """Path time by how well it is known; it sums to the makespan."""
    return {one.name.lower(): int(path.duration_ns[path.tier == one].sum()) for one in Tier}


def _busy_ns(dag: Dag, device: bool) -> int:
    """How long at least one stream worked or, without a device, at least one thread."""
    chosen = (dag.kind == EdgeKind.WORK) if device else (dag.weight_ns > 0)
    start_ns = dag.time_ns[dag.tail[chosen]]
    order = np.argsort(start_ns, kind="stable")
    start_ns = start_ns[order]
    end_ns = start_ns + dag.weight_ns[chosen][order]
    if not len(start_ns):
        return 0
    reached = np.maximum.accumulate(np.append(start_ns[0], end_ns[:-1]))
    return int(np.maximum(end_ns - np.maximum(start_ns, reached), 0).sum())


def _overlap(makespan_ns: int, saved_ns: Mapping[str, int]) -> float | None:
    """How much of the shorter of host and device runs beside the other, 0 to 1."""
    device_ns = makespan_ns - saved_ns.get("host", 0)  # what is left without the host
    host_ns = makespan_ns - saved_ns.get("device", 0)
    shorter = min(device_ns, host_ns)
    return (device_ns + host_ns - makespan_ns) / shorter if shorter > 0 else None


def _launches(dag: Dag) -> dict[str, int]:
    """From the call to the kernel's start, summed (TKLQT): what no launch avoids, and queueing."""
    launches = dag.kind == EdgeKind.LAUNCH
    if not launches.any():
        return {}
    waited = int((dag.time_ns[dag.head] - dag.time_ns[dag.tail])[launches].sum())
    least = int(dag.weight_ns[launches].sum())
    return {"tklqt_ns": waited, "irreducible_ns": least, "queueing_ns": waited - least}


def _observed(
    events: Events, by_node: Entities, owner_times: OwnerTimes
) -> tuple[dict[str, int], dict[str, list[Interval]]]:
    """Of every node the median time of its runs in the window, and when it ran.

    A run's time is its own share of what it did, its device work included; where several nodes
    share a kernel, they ran when it did.
    """
    times: dict[str, list[float]] = {}
    ran: dict[str, list[Interval]] = {}
    found, times_ns = by_node.occurrences(owner_times)
    for event in found.tolist():
        start, end = int(events.start_ns[event]), int(events.end_ns[event])
        for row, share in by_node.shares[int(by_node.part[event])].items():
            times.setdefault(by_node.names[row], []).append(int(times_ns[event]) * share)
            ran.setdefault(by_node.names[row], []).append((start, end))
    return {name: round(statistics.median(found)) for name, found in times.items()}, ran


def _warnings(dag: Dag, dilation_ratio: float | None, peaks: Peaks | None) -> tuple[str, ...]:
    """Warnings for every page of the analysis."""
    found = []
    if dilation_ratio is not None and dilation_ratio > SIGNIFICANT_OVERHEAD_RATIO:
        found.append(
            f"Profiled, a call takes {dilation_ratio:.2f} times as long as without: gains hold "
            "for the profiled program, and host work is overstated."
        )
    residual = int(dag.residual_ns.sum())
    if dag.makespan_ns and residual > UNEXPLAINED_RATIO * dag.makespan_ns:
        found.append(
            f"{format_seconds(ns_to_s(residual))} of waiting on all lanes has no recorded cause; "
            "what-ifs keep it as it is."
        )
    if peaks is not None and peaks.source != "measured":
        found.append(f"Rooflines rest on peaks from a {peaks.source}, not measured here.")
    if peaks is not None and peaks.promised:
        found.append(f"Rooflines rest on what was measured here: {peaks.promised}.")
    return tuple(found)
