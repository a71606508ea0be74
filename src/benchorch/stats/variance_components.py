"""Variance components of calls, processes and nodes, which show where to repeat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Variances of logarithms, so that their roots are shares of the time.

    Attributes:
        call: between the calls of one process.
        process: between the processes of one node; None where there is no second one.
        node: between nodes; None where there is no second one.
    """

    call: float
    process: float | None
    node: float | None


def components(nodes: Sequence[Sequence[ArrayLike]]) -> Components | None:
    """How much of the variance arises at each level.

    Estimator: nested analysis of variance with unequal numbers; a negative component is 0.

    Parameters
    ----------
    nodes : sequence of sequences of array_like, each shape (n,), float
        Times by node and process, all positive and in one unit.

    Returns
    -------
    Components or None
        None where no process has two calls.

    Source
    ------
    Searle, Casella and McCulloch, *Variance Components*, 1992, section 3.6; for benchmarks:
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, 2013.
    """
    groups = [[_summary(calls) for calls in node] for node in nodes]
    flat = [group for node in groups for group in node]
    freedom = sum(group.n for group in flat) - len(flat)
    if freedom < 1:
        return None
    call = math.fsum(group.squares for group in flat) / freedom
    process = _between_processes(groups, call)
    return Components(call=call, process=process, node=_between_nodes(groups, call, process))


class _LogSummary(NamedTuple):
    """The logarithms of one process or node: how many, their mean, squares about it."""

    n: int
    mean: float
    squares: float


def _summary(calls: ArrayLike) -> _LogSummary:
    logs = np.log(np.asarray(calls, dtype=np.float64))
    mean = float(logs.mean())
    return _LogSummary(logs.size, mean, float(((logs - mean) ** 2).sum()))


def _joined(groups: Sequence[_LogSummary]) -> _LogSummary:
    """Several as one; its squares are those of the groups' means about its own."""
    n = sum(group.n for group in groups)
    mean = math.fsum(group.n * group.mean for group in groups) / n
    return _LogSummary(n, mean, math.fsum(group.n * (group.mean - mean) ** 2 for group in groups))


def _between_processes(nodes: Sequence[Sequence[_LogSummary]], call: float) -> float | None:
    freedom = sum(len(node) - 1 for node in nodes)
    if freedom < 1:
        return None
    joined = [_joined(node) for node in nodes]
    spread = math.fsum(node.squares for node in joined) / freedom
    shared = [_shared(node) / whole.n for node, whole in zip(nodes, joined, strict=True)]
    calls_each = (sum(node.n for node in joined) - math.fsum(shared)) / freedom
    return max(0.0, (spread - call) / calls_each)


def _between_nodes(
    nodes: Sequence[Sequence[_LogSummary]], call: float, process: float | None
) -> float | None:
    freedom = len(nodes) - 1
    if freedom < 1:
        return None
    joined = [_joined(node) for node in nodes]
    whole = _joined(joined)
    shares = [1.0 / node.n - 1.0 / whole.n for node in joined]
    per_process = math.fsum(_shared(n) * share for n, share in zip(nodes, shares, strict=True))
    expected = call + (process or 0.0) * per_process / freedom
    calls_each = (whole.n - _shared(joined) / whole.n) / freedom
    return max(0.0, (whole.squares / freedom - expected) / calls_each)


def _shared(groups: Sequence[_LogSummary]) -> int:
    return sum(group.n**2 for group in groups)


def calls_worth_taking(found: Components, *, call_s: float, process_s: float) -> int | None:
    """How many calls of one process pay off before another process teaches more.

    Estimator: ``sqrt(process_s / call_s * call / process)``, rounded up.

    Parameters
    ----------
    call_s, process_s : float, in seconds
        What a further call costs, and what a further process costs before its first call.

    Returns
    -------
    int or None
        None where processes do not differ: then calls alone teach, and any number is right.

    Source
    ------
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, 2013.
    """
    if not found.process:
        return None
    return math.ceil(math.sqrt(process_s / call_s * found.call / found.process))
