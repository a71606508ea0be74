"""How long would it have taken?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from benchorch.errors import TraceError
from benchorch.trace.analysed import Replayable
from benchorch.trace.dag import CLASSES, Tier
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.prediction import Moved, Prediction
from benchorch.trace.whatif.scenario import Scenario, unchanged
from benchorch.trace.whatif.simulation import makespan_ns, outcome, scenario_of
from benchorch.trace.whatif.sweep import Sweep, sweep
from benchorch.trace.whatif.transforms import Speedup, Transform

if TYPE_CHECKING:
    from numpy import int8, int64
    from numpy.typing import NDArray

    from benchorch.trace.dag import CriticalPath
    from benchorch.trace.roofline import Peaks

_Said = TypeVar("_Said")

MOST_MOVED = 20
UNNAMED = "(between events)"


def predict(
    analysis: Replayable | Basis,
    changes: Sequence[Transform],
    *,
    name: str = "what-if",
    peaks: Peaks | None = None,
    others: Mapping[str, Replayable] | None = None,
    swept: bool = False,
) -> Prediction:
    """The run with the changes made one after another.

    Args:
        analysis: of the observed run; what `prepare` made of it, if several are to be asked.
        changes: in order; none at all gives the observed run again.
        name: of the what-if.
        peaks: what the machine can do, for changes that need to know.
        others: trials by name, for changes that take times from them.
        swept: whether a what-if that is one speedup also says what others would bring, which
            costs two dozen replays.

    Raises:
        TraceError: with everything that cannot be asked of this trace.
    """
    basis = prepare(analysis, peaks, others)
    found = [
        f"{name}, change {number}: {problem}"
        for number, change in enumerate(changes, 1)
        for problem in change.problems(basis)
    ]
    if found:
        raise TraceError("\n".join(found))
    scenario = scenario_of(basis, changes)
    predicted_ns, path = outcome(basis, scenario)
    possible_ns = (predicted_ns, *_otherwise(basis, scenario, predicted_ns))
    return Prediction(
        name=name,
        changes=tuple(map(str, changes)),
        makespan_ns=basis.dag.makespan_ns,
        predicted_ns=predicted_ns,
        low_ns=min(possible_ns),
        high_ns=max(possible_ns),
        classes=_once(basis, by_class),
        predicted_classes=by_class(path),
        tiers=by_tier(path),
        moved=_moved(basis, path),
        bound_path=_bound_path(basis, scenario),
        bound_work=_bound_work(basis, scenario),
        notes=scenario.notes,
        sweep=_curve(basis, changes) if swept else None,
    )


def _once(basis: Basis, of: Callable[[CriticalPath], _Said]) -> _Said:
    """What a function says of the observed path, which every what-if is compared with."""
    if of not in basis.known:
        basis.known[of] = of(basis.path)
    said: _Said = basis.known[of]
    return said


def _curve(basis: Basis, changes: Sequence[Transform]) -> Sweep | None:
    """What any speedup of the work would bring, if that is all that was asked about."""
    if len(changes) == 1 and isinstance(changes[0], Speedup):
        return sweep(basis, changes[0].select)
    return None


def by_class(path: CriticalPath) -> Mapping[str, int]:
    """Time on a path by class, the largest first; what there is none of is left out."""
    sums = {str(one): total for one, total in zip(CLASSES, _sums(path, path.label), strict=True)}
    return {name: sums[name] for name in sorted(sums, key=lambda one: -sums[one]) if sums[name]}


def by_tier(path: CriticalPath) -> Mapping[str, int]:
    """Time on a path by how well its dependencies are known."""
    sums = _sums(path, path.tier)
    return {tier.name.lower(): sums[tier] for tier in Tier}


def _sums(path: CriticalPath, column: NDArray[int8]) -> list[int]:
    """Time by the value of a column; as doubles, which are exact up to a hundred days."""
    import numpy as np

    totals = np.bincount(column, weights=path.duration_ns, minlength=len(CLASSES))
    return [int(total) for total in totals]


def _otherwise(basis: Basis, scenario: Scenario, predicted_ns: int) -> Iterator[int]:
    """What else it could be: without unexplained time, and if all goes well."""
    yield _without_residual(basis, scenario, predicted_ns)
    best_ns = scenario.weight_ns * scenario.best_ratio
    if (best_ns != scenario.weight_ns).any():
        yield makespan_ns(basis, replace(scenario, weight_ns=best_ns))


def _without_residual(basis: Basis, scenario: Scenario, predicted_ns: int) -> int:
    """The observed makespan times the change that a run without unexplained time would see."""
    if not basis.dag.residual_ns.any():
        return predicted_ns
    none = scenario.residual_ns * 0.0
    before = makespan_ns(basis, replace(unchanged(basis.dag), residual_ns=none))
    after = makespan_ns(basis, replace(scenario, residual_ns=none))
    return round(basis.dag.makespan_ns * after / before) if before else predicted_ns


def _moved(basis: Basis, path: CriticalPath) -> tuple[Moved, ...]:
    """What gained and lost time on the path, by name."""
    import numpy as np

    size = len(basis.events.names) + 1

    def on(one: CriticalPath) -> NDArray[int64]:
        """As doubles, which are exact up to a hundred days."""
        named = np.append(basis.events.name, size - 1)[one.owner]
        return np.bincount(named, weights=one.duration_ns, minlength=size).astype(np.int64)

    if "named" not in basis.known:
        basis.known["named"] = on(basis.path)
    before, after = basis.known["named"], on(path)
    order = np.argsort(-np.abs(after - before), kind="stable")[:MOST_MOVED].tolist()
    names = (*basis.events.names, UNNAMED)
    return tuple(
        Moved(name=names[code], before_ns=int(before[code]), after_ns=int(after[code]))
        for code in order
        if before[code] != after[code]
    )


def _bound_path(basis: Basis, scenario: Scenario) -> float | None:
    """Amdahl's limit by what is saved on the old path, which is still there and as long as that."""
    dropped = scenario.dropped
    if not len(basis.path) or dropped[basis.path.edge].any():
        return None
    left_ns = scenario.weight_ns[basis.path_edges].sum()
    left_ns += scenario.residual_ns[basis.path_points].sum()
    return basis.dag.makespan_ns / float(left_ns) if left_ns > 0 else None


def _bound_work(basis: Basis, scenario: Scenario) -> float | None:
    """The same by all that is saved anywhere, which is looser."""
    import numpy as np

    if scenario.dropped.any():
        return None
    saved = np.maximum(basis.dag.weight_ns - scenario.weight_ns, 0.0).sum()
    saved += np.maximum(basis.dag.residual_ns - scenario.residual_ns, 0.0).sum()
    left = basis.dag.makespan_ns - float(saved)
    return basis.dag.makespan_ns / left if left > 0 else None
