"""Classes of the time that host threads and devices spend."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, NOBODY, Class
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category
from benchorch.trace.graph.scope_values import Scope

_LOADING = re.compile(r"data_?loader|wait:\s*data", re.IGNORECASE)
_COLLECTIVE = re.compile(
    r"^(nccl|rccl|oneccl)|_?all_?(reduce|gather|to_?all)|reduce_?scatter", re.I
)
_WAITING = re.compile(r"^wait:")
_BY_CATEGORY = {
    Category.OPERATOR: Class.CPU_COMPUTE,
    Category.RUNTIME: Class.CPU_RUNTIME,
    Category.KERNEL: Class.GPU_COMPUTE,
    Category.COPY: Class.GPU_COPY,
    Category.FILL: Class.GPU_COPY,
    Category.OVERHEAD: Class.PROFILER,
    Category.NODE: Class.CPU_COMPUTE,
    Category.SESSION: Class.CPU_FRAMEWORK,
}  # of others CPU_PYTHON
# Views and allocations: they arrange for others to compute and touch no values themselves.
_ARRANGING = re.compile(
    r"aten::(t|view|_unsafe_view|as_strided_?|expand|reshape|_reshape_alias|transpose|permute"
    r"|select|slice|squeeze_?|unsqueeze_?|unflatten|flatten|chunk|split|unbind|narrow|alias"
    r"|detach_?|empty|empty_strided|empty_like|new_empty|resize_|set_|lift_fresh|resolve_conj"
    r"|resolve_neg|item|_local_scalar_dense|size|stride|numel|is_.*|result_type)$"
)


def waiting(scope: Scope) -> NDArray[np.int64]:
    """The ranges that a program calls ``wait:<what>``."""
    return scope.named(_WAITING, Category.ANNOTATION, Category.OPERATOR)


def labels(scope: Scope) -> NDArray[np.int8]:
    """Of every event of the scope the class of its own time."""
    classes = [_BY_CATEGORY.get(category, Class.CPU_PYTHON) for category in Category]
    label = np.array([CLASSES.index(one) for one in classes], dtype=np.int8)[scope.category]
    label[np.flatnonzero(_dispatching(scope))] = CLASSES.index(Class.CPU_FRAMEWORK)
    loading = scope.named(_LOADING, Category.ANNOTATION, Category.OPERATOR)
    label[loading] = CLASSES.index(Class.DATA_LOADING)
    others = np.setdiff1d(waiting(scope), loading)
    label[others] = CLASSES.index(Class.LOCK)
    collective = scope.named(_COLLECTIVE, *DEVICE_WORK)
    label[collective] = CLASSES.index(Class.GPU_COMM)
    return label


def _dispatching(scope: Scope) -> NDArray[np.bool_]:
    """Of every host event whether its own time goes into having others compute.

    That is an operator or node which launches device work, itself or in what it calls; one that
    spends most of its time in operators it calls; and one that makes a view or an allocation. A
    matrix product that allocates its result on the way computes.
    """
    operators = scope.category[scope.host]
    operators = (operators == Category.OPERATOR) | (operators == Category.NODE)
    launching = np.zeros(scope.hosts + 1, dtype=np.int64)
    launches = scope.launch[scope.device]
    launching[launches[launches != NOTHING]] = 1
    before = np.cumsum(launching) - launching
    inside = before[scope.after] > before[: scope.hosts]
    arranging = np.zeros(scope.hosts, dtype=np.bool_)
    arranging[scope.named(_ARRANGING, Category.OPERATOR)] = True
    took = (scope.end_ns - scope.start_ns)[scope.host]
    caller = _callers(scope, operators)
    nested = operators & (caller != NOBODY)
    called = np.bincount(
        caller[nested], weights=took[nested].astype(np.float64), minlength=scope.hosts
    )
    calling = (2 * called > took) & (called > 0)
    dispatching: NDArray[np.bool_] = operators & (inside | arranging | calling)
    return dispatching


def _callers(scope: Scope, operators: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The operator around each host event, ranges and frames in between left out, or NOBODY."""
    caller = np.full(scope.hosts, NOBODY, dtype=np.int64)
    by_depth = np.argsort(scope.depth.astype(np.uint16), kind="stable")
    for level in np.split(by_depth, np.cumsum(np.bincount(scope.depth))[:-1])[1:]:
        parent = scope.parent[level]
        caller[level] = np.where(operators[parent], parent, caller[parent])
    return caller


def gap_labels(scope: Scope) -> NDArray[np.int8]:
    """Of every lane what the time between its outermost events goes into.

    Python, on the main thread and where threads run Python; elsewhere what calls the operators.
    """
    python = np.zeros(len(scope.events.lanes) + 1, dtype=np.bool_)  # the last one is lane -1's
    python[scope.main_lane] = True
    python[scope.lane[scope.indices(Category.PYTHON, Category.ANNOTATION)]] = True
    return np.where(
        python, CLASSES.index(Class.CPU_PYTHON), CLASSES.index(Class.CPU_FRAMEWORK)
    ).astype(np.int8)
