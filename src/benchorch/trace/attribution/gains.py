"""By how much would the makespan shrink if some events took less time? Exactly, by replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from benchorch.trace.contraction import Contracted, contract, whole
from benchorch.trace.dag import Dag
from benchorch.trace.replay import steps

LEVELS = 8
"""By how much a graph for small savings reaches less far than the next larger one."""

if TYPE_CHECKING:
    from numpy import bool_, float64, int64
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Counterfactuals on one graph.

    Where all that is saved on the path fits into what every other way has to spare, the path
    stays the longest way and the answer is that sum: no replay is needed. So a trace of one
    thread needs none at all.

    Attributes:
        dag: the graph.
        path_edges: edges on its critical path.
        slack_ns: (E,) of every edge.
        spare_ns: the least slack of all edges beside the path.
    """

    dag: Dag
    path_edges: NDArray[int64]
    slack_ns: NDArray[int64]
    spare_ns: int
    _contracted: dict[int, Contracted] = field(default_factory=dict)

    def saved_ns(self, cut_ns: NDArray[int64]) -> int:
        """The makespan less that with each edge's weight shortened; `cut_ns` is (E,), >= 0."""
        on_path = int(cut_ns[self.path_edges].sum())
        if on_path <= self.spare_ns:
            return on_path
        shortened = steps(self.dag, self.dag.weight_ns - cut_ns)
        return self.dag.makespan_ns - self.contracted(on_path).makespan_ns(shortened)

    def contracted(self, saved_ns: int) -> Contracted:
        """A graph whose replays are exact as long as they save at most so much.

        Ways with more to spare than that can never become the longest. So a small saving is
        asked of the few edges near the path: of those with up to an eighth of the makespan to
        spare, an eighth of that, and so on.
        """
        level_ns = self.dag.makespan_ns
        while level_ns // LEVELS > saved_ns:
            level_ns //= LEVELS
        if level_ns not in self._contracted:
            near = self.slack_ns <= level_ns
            known = (one for one in self._contracted.values() if len(one.edges) == near.sum())
            every = whole(self.dag) if near.all() else None
            self._contracted[level_ns] = every or next(known, None) or contract(self.dag, near)
        return self._contracted[level_ns]

    def saved_by_removing(self, chosen: NDArray[bool_]) -> int:
        """The same where the chosen edges, (E,), have no weight."""
        import numpy as np

        return self.saved_ns(np.where(chosen, self.dag.weight_ns, 0))

    def saved_by_not_waiting(self, dropped: NDArray[bool_]) -> int:
        """The makespan less that of a replay without the dropped dependencies, (E,).

        What nobody waits for any more has to be finished all the same: the replay ends with the
        last point, not with the sink.
        """
        if not dropped.any():
            return 0
        step_ns = steps(self.dag, dropped=dropped)
        rest = contract(self.dag, step_ns >= 0)
        return self.dag.makespan_ns - max(rest.elapsed(rest.lengths(step_ns)))


def gains(dag: Dag, slack_ns: NDArray[int64]) -> Gains:
    """What can be asked of a graph whose slack is known."""
    import numpy as np

    # Not those of the path's stretches: edges of no length have none, but belong to it too.
    _, along = whole(dag).longest(steps(dag))
    others = np.ones(dag.edges, dtype=np.bool_)
    others[along] = False
    spare = int(slack_ns[others].min()) if others.any() else dag.makespan_ns
    return Gains(dag=dag, path_edges=np.flatnonzero(~others), slack_ns=slack_ns, spare_ns=spare)


def part_of(weight_ns: NDArray[int64], share: NDArray[float64] | float) -> NDArray[int64]:
    """A share of each weight, rounded down: (E,) in ns, never more than the weight."""
    import numpy as np

    part: NDArray[int64] = np.floor(weight_ns * share).astype(np.int64)
    return part
