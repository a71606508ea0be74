"""Sensitivity of the makespan to further speedups of the same work, and its knee."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.errors import TraceError
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import unchanged
from benchorch.trace.whatif.selector import problems, select
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.simulation import makespan_ns

SPEEDUPS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, math.inf)
_HALVINGS = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivitySweep:
    """Makespans by how much of its time the chosen work still takes.

    Attributes:
        time_ratios: the part of its time, from 1 down to 0, which is an infinite speedup.
        makespans_ns: one for each.
        on_path_ns: the chosen work's time on the observed path.
        knee_ratio: the part down to which each saved nanosecond of it saves one of the makespan;
            below it another way is as long. None where the work is not on the path, 0 where the
            path never leaves it.
    """

    time_ratios: tuple[float, ...]
    makespans_ns: tuple[int, ...]
    on_path_ns: int
    knee_ratio: float | None

    @property
    def speedups(self) -> tuple[float, ...]:
        """The same as speedups, the last one infinite."""
        return tuple(1.0 / ratio if ratio else math.inf for ratio in self.time_ratios)

    @property
    def knee(self) -> float | None:
        """The speedup past which more brings less; infinite where it never does."""
        if self.knee_ratio is None:
            return None
        return 1.0 / self.knee_ratio if self.knee_ratio else math.inf


def sweep(
    basis: Basis, selector: Selector, speedups: Sequence[float] = SPEEDUPS
) -> SensitivitySweep:
    """The curve of a selection; TraceError where nothing fits it."""
    found = problems(basis, selector)
    if found:
        raise TraceError("\n".join(found))
    edges = select(basis, selector).edges
    start = unchanged(basis.dag)

    def at(ratio: float) -> int:
        return makespan_ns(basis, start.scaled(edges, ratio))

    path = basis.path
    chosen = edges[path.edge] & ~path.residual
    on_path_ns = int(path.duration_ns[chosen].sum())
    ratios = tuple(1.0 / speedup for speedup in speedups)
    return SensitivitySweep(
        time_ratios=ratios,
        makespans_ns=tuple(at(ratio) for ratio in ratios),
        on_path_ns=on_path_ns,
        knee_ratio=_knee(basis, on_path_ns, int(chosen.sum()), at) if on_path_ns else None,
    )


def _knee(basis: Basis, on_path_ns: int, stretches: int, at: Callable[[float], int]) -> float:
    """The least part of its time that still lies on the path, by halving.

    The makespan is convex in that part, and linear as long as the path is the observed one. Each
    of the `stretches` was rounded by less than a nanosecond.
    """
    observed_ns = basis.dag.makespan_ns

    def on_path(ratio: float) -> bool:
        return at(ratio) <= observed_ns - (1.0 - ratio) * on_path_ns + stretches

    if on_path(0.0):
        return 0.0
    off, on = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (off + on) / 2.0
        off, on = (off, middle) if on_path(middle) else (middle, on)
    return on
