"""Findings of a trace analysis: the values that tables, pictures and verdicts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """One entity of a table: an operator, module, kernel, graph node, class, or a fold of several.

    Three numbers of time, never one: how long it ran in all, how much of that lay on the critical
    path, and by how much the makespan would shrink if it took no time.

    Attributes:
        name: as people know it; of a fold, with ``*`` for what differs.
        op, module, shapes, dtype: what it is and where, empty where unknown.
        count: events.
        total_ns: their own time, summed.
        on_path_ns: of it, on the critical path.
        near_path_ns: of it, on edges with less than a hundredth of the makespan to spare.
        drag_ns: the makespan less that of a replay in which all of it takes no time.
        blame_ns: time that other lanes spent waiting for it.
        speedup_2x, speedup_max: makespan over that of a replay with it twice as fast, and free.
        bound_path, bound_work: Amdahl's limits of that gain, by its path time and its total time.
        bound_busy: the same against busy device time, as Amdahl4ML has it; 0 where no device.
        flops, bytes: work per event, None where no rule is known.
        efficiency_ratio: attained over what the roofline allows; None where unknown.
        bound: ``compute``, ``memory``, ``latency``, or empty.
        mean_ns, least_ns, most_ns, variation_ratio: over its events.
        outlier: the event farthest from the others.
        events: indices of up to a few of its events, the longest first.
    """

    name: str
    count: int
    total_ns: int
    on_path_ns: int
    near_path_ns: int
    drag_ns: int
    blame_ns: int
    speedup_2x: float
    speedup_max: float
    bound_path: float
    bound_work: float
    bound_busy: float = 0.0
    op: str = ""
    module: str = ""
    shapes: str = ""
    dtype: str = ""
    flops: float | None = None
    bytes: float | None = None
    efficiency_ratio: float | None = None
    bound: str = ""
    mean_ns: float = 0.0
    least_ns: int = 0
    most_ns: int = 0
    variation_ratio: float = 0.0
    outlier: int = -1
    events: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One of the ways between a fork of an operator graph and where its ways join again.

    Attributes:
        fork, join: nodes.
        nodes: those strictly between.
        total_ns: their time; `share_ratio` is it over that of all branches of the fork.
        longest_ns: the longest path through it.
        slack_ns: by how much the slowest sibling is longer.
        on_path: whether the dataflow path runs through it.
        overlapped_ratio: how much of it ran beside a sibling in the observed run.
    """

    fork: str
    join: str
    nodes: tuple[str, ...]
    total_ns: int
    share_ratio: float
    longest_ns: int
    slack_ns: int
    on_path: bool
    overlapped_ratio: float
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The limit of the run, in words, and the counterfactuals that show it.

    Attributes:
        limit: ``launch-bound`` (the device waits for launches), ``idle-bound`` (for Python),
            ``host-bound`` (for operators on the host), ``sync-bound`` (threads for each other or
            for the device), ``data-bound`` (the model for its data), ``transfer-bound`` (copies),
            ``overhead-bound`` (without a device: calling operators takes longer than their work),
            ``compute-bound`` or ``memory-bound`` (by the roofline of what is on the path),
            ``kernel-bound`` (too little of it has a known roofline), ``balanced`` or
            ``inconclusive``.
        sentence: the same for a person, with the numbers.
        advice: what to try next, in one sentence; empty where nothing would help.
        gains: share of the makespan saved if the named cost were gone: ``host``, ``device``,
            ``launch``, ``sync``, ...
        evidence: share of the path on each tier, by its name in lower case.
        largest: name of the row with the largest single gain.
        largest_gain_ratio: its drag over the makespan.
    """

    limit: str
    sentence: str
    advice: str
    gains: Mapping[str, float]
    evidence: Mapping[str, float]
    largest: str = ""
    largest_gain_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFindings:
    """The findings of one window of a trace; times are integer nanoseconds.

    Attributes:
        makespan_ns, path_ns: equal, or the analysis is broken and `invariants` shows it.
        busy_ns: union of device work (of a trace without a device, of the lanes' own work).
        work_ns: sum of all work (T1); `dataflow_ns`: longest path of data alone (Tinf), None
            where no operator graph is known.
        classes: path time by class; sums to the makespan, as do `tiers` and every table's
            `on_path_ns` with its row ``unattributed``.
        invariants: I1 to I5 by name, each whether it holds.
        operators, modules, kernels, graph_nodes, folds: tables, the greatest drag first.
        near_critical: share of edges within a hundredth of the makespan of being critical.
        overlap_ratio: how much host and device worked at the same time; None without a device.
        launch: ``tklqt_ns``, ``irreducible_ns``, ``queueing_ns``; empty without a device.
        iterations: makespan of every iteration of the window's range.
        stability_ratio: mean overlap of what is critical between iterations; None for one.
        dilation_ratio: profiled over unprofiled latency; None where it was not measured.
        repairs: what had to be mended, each with how often.
        warnings: sentences that belong on every page made of this.
    """

    makespan_ns: int
    path_ns: int
    busy_ns: int
    work_ns: int
    dataflow_ns: int | None
    classes: Mapping[str, int]
    tiers: Mapping[str, int]
    invariants: Mapping[str, bool]
    diagnosis: Diagnosis
    operators: tuple[EntityRow, ...] = ()
    modules: tuple[EntityRow, ...] = ()
    kernels: tuple[EntityRow, ...] = ()
    graph_nodes: tuple[EntityRow, ...] = ()
    folds: tuple[EntityRow, ...] = ()
    branches: tuple[Branch, ...] = ()
    near_critical: float = 0.0
    overlap_ratio: float | None = None
    launch: Mapping[str, int] = field(default_factory=dict)
    iterations: tuple[int, ...] = ()
    stability_ratio: float | None = None
    dilation_ratio: float | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
