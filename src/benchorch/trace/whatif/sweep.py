"""How much does each further speedup of the same work bring, and where does it stop to?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.errors import TraceError
from benchorch.trace.whatif.predict import makespan_ns
from benchorch.trace.whatif.scenario import unchanged
from benchorch.trace.whatif.selector import problems, select

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchorch.trace.whatif.basis import Basis
    from benchorch.trace.whatif.selector import Selector

SPEEDUPS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, math.inf)
_HALVINGS = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Makespans by speedup of the chosen work.

    Attributes:
        speedups: ascending, the last one infinite, which JSON spells as null.
        makespans_ns: one for each.
        on_path_ns: the chosen work's time on the observed path.
        knee: the speedup up to which each saved nanosecond of it saves one of the makespan; past
            it another way is as long. None where the work is not on the path, infinite where the
            path never leaves it.
    """

    speedups: tuple[float, ...]
    makespans_ns: tuple[int, ...]
    on_path_ns: int
    knee: float | None


def sweep(basis: Basis, selector: Selector, speedups: Sequence[float] = SPEEDUPS) -> Sweep:
    """The curve of a selection; TraceError where nothing fits it."""
    found = problems(basis, selector)
    if found:
        raise TraceError("\n".join(found))
    edges = select(basis, selector).edges
    start = unchanged(basis.dag)

    def at(left: float) -> int:
        return makespan_ns(basis, start.scaled(edges, left))

    path = basis.path
    chosen = edges[path.edge] & ~path.residual
    on_path_ns = int(path.duration_ns[chosen].sum())
    return Sweep(
        speedups=tuple(speedups),
        makespans_ns=tuple(at(1.0 / speedup) for speedup in speedups),
        on_path_ns=on_path_ns,
        knee=_knee(basis, on_path_ns, int(chosen.sum()), at) if on_path_ns else None,
    )


def _knee(basis: Basis, on_path_ns: int, stretches: int, at: Callable[[float], int]) -> float:
    """The least part of its time that still lies on the path, by halving; its inverse.

    The makespan is convex in that part, and linear as long as the path is the observed one.
    """
    observed_ns = basis.dag.makespan_ns

    def on_path(left: float) -> bool:
        return at(left) <= observed_ns - (1.0 - left) * on_path_ns + stretches

    if on_path(0.0):
        return math.inf
    off, on = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (off + on) / 2.0
        off, on = (off, middle) if on_path(middle) else (middle, on)
    return 1.0 / on
