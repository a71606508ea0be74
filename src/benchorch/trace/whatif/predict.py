"""How long would it have taken?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy import int8, int32, int64
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.trace.analysed import Replayable
from benchorch.trace.attribution.gains import gains
from benchorch.trace.critical_path.explained import explained
from benchorch.trace.dag import CLASSES, Tier
from benchorch.trace.operators.roofline import Peaks
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.prediction import Moved, Prediction
from benchorch.trace.whatif.scenario import Hypothesis, unchanged
from benchorch.trace.whatif.simulation import (
    PieceTimes,
    explained_ns,
    makespan_ns,
    outcome,
    scenario_of,
)
from benchorch.trace.whatif.sweep import SensitivitySweep, sweep
from benchorch.trace.whatif.transforms import Speedup, Transform

MOST_MOVED = 20
UNNAMED = "(between events)"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A prediction, and the scenario that it is of, whose path `path_of` tells."""

    prediction: Prediction
    scenario: Hypothesis


def predict(
    analysis: Replayable | Basis,
    changes: Sequence[Transform],
    *,
    name: str = "what-if",
    peaks: Peaks | None = None,
    others: Mapping[str, Replayable] | None = None,
    swept: bool = False,
) -> Prediction:
    """The run with the changes made one after another; arguments are those of `answer`.

    Args:
        analysis: of the observed run; what `prepare` made of it, if several are to be asked.
        peaks: what the machine can do, for changes that need to know.
        others: trials by name, for changes that take times from them.
    """
    basis = prepare(analysis, peaks, others)
    return answer(basis, changes, name=name, swept=swept).prediction


def answer(
    basis: Basis, changes: Sequence[Transform], *, name: str = "what-if", swept: bool = False
) -> Answer:
    """The same with what it rests on.

    Args:
        basis: of the observed run.
        changes: in order; none at all gives the observed run again.
        name: of the what-if.
        swept: whether a what-if that is one speedup also says what others would bring, which
            costs two dozen replays.

    Raises:
        TraceError: with everything that cannot be asked of this trace.
    """
    found = [
        f"{name}, change {number}: {problem}"
        for number, change in enumerate(changes, 1)
        for problem in change.problems(basis)
    ]
    if found:
        raise TraceError("\n".join(found))
    scenario = scenario_of(basis, changes)
    prediction = replace(
        _prediction(basis, scenario),
        name=name,
        changes=tuple(map(str, changes)),
        sweep=_curve(basis, changes) if swept else None,
    )
    return Answer(prediction=prediction, scenario=scenario)


def _prediction(basis: Basis, scenario: Hypothesis) -> Prediction:
    """What the scenario alone says, without a name."""
    said = outcome(basis, scenario)
    predicted_ns, more = said.makespan_ns, said.more
    possible_ns = (predicted_ns, *_otherwise(basis, scenario, predicted_ns))
    before = _observed(basis)
    return Prediction(
        name="",
        changes=(),
        makespan_ns=basis.dag.makespan_ns,
        predicted_ns=predicted_ns,
        low_ns=min(possible_ns),
        high_ns=max(possible_ns),
        classes=_by_class(before.classes),
        predicted_classes=_by_class(before.classes + _sums(more.label, more.ns, len(CLASSES))),
        tiers=_by_tier(before.tiers + _sums(more.tier, more.ns, len(Tier))),
        moved=_moved(basis, before.names, more),
        bound_path=_bound_path(basis, scenario),
        bound_work=_bound_work(basis, scenario),
        notes=scenario.notes,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """Time on the observed path, which every what-if is compared with, by each of three columns."""

    classes: NDArray[int64]
    tiers: NDArray[int64]
    names: NDArray[int64]


def _observed(basis: Basis) -> _Observed:
    """Once for each basis."""
    if "observed" not in basis.known:
        path = basis.path
        basis.known["observed"] = _Observed(
            classes=_sums(path.label, path.duration_ns, len(CLASSES)),
            tiers=_sums(path.tier, path.duration_ns, len(Tier)),
            names=_named(basis, path.owner, path.duration_ns),
        )
    found: _Observed = basis.known["observed"]
    return found


def _sums(column: NDArray[int8], ns: NDArray[int64], size: int) -> NDArray[int64]:
    """Time by the value of a column; as doubles, which are exact up to a hundred days."""
    return np.bincount(column, weights=ns, minlength=size).astype(np.int64)


def _named(basis: Basis, owner: NDArray[int32], ns: NDArray[int64]) -> NDArray[int64]:
    """Time by the name of its owner; the last entry is that of none."""
    nobody = len(basis.events.names)
    column = np.where(owner >= 0, basis.events.name[owner], nobody)
    return np.bincount(column, weights=ns, minlength=nobody + 1).astype(np.int64)


def _curve(basis: Basis, changes: Sequence[Transform]) -> SensitivitySweep | None:
    """What any speedup of the work would bring, if that is all that was asked about."""
    if len(changes) == 1 and isinstance(changes[0], Speedup):
        return sweep(basis, changes[0].select)
    return None


def _by_class(sums: NDArray[int64]) -> Mapping[str, int]:
    """Time on a path by class, the largest first; what there is none of is left out."""
    found = dict(zip(map(str, CLASSES), sums.tolist(), strict=True))
    return {name: found[name] for name in sorted(found, key=lambda one: -found[one]) if found[name]}


def _by_tier(sums: NDArray[int64]) -> Mapping[str, int]:
    """Time on a path by how well its dependencies are known."""
    return {tier.name.lower(): int(sums[tier]) for tier in Tier}


def _otherwise(basis: Basis, scenario: Hypothesis, predicted_ns: int) -> Iterator[int]:
    """What else it could be: without unexplained time, and if all goes well."""
    yield _without_residual(basis, scenario, predicted_ns)
    if scenario.best_ratio is not unchanged(basis.dag).best_ratio:
        best_ns = scenario.weight_ns * scenario.best_ratio
        yield makespan_ns(basis, replace(scenario, weight_ns=best_ns))


def _without_residual(basis: Basis, scenario: Hypothesis, predicted_ns: int) -> int:
    """The observed makespan times the change that a run without unexplained time would see."""
    if not basis.dag.residual_ns.any():
        return predicted_ns
    before = explained(basis.dag).makespan_ns
    after = explained_ns(basis, scenario)
    return round(basis.dag.makespan_ns * after / before) if before else predicted_ns


def _moved(basis: Basis, before: NDArray[int64], more: PieceTimes) -> tuple[Moved, ...]:
    """What gained and lost time on the path, by name."""
    change = _named(basis, more.owner, more.ns)
    order = np.argsort(-np.abs(change), kind="stable")[:MOST_MOVED].tolist()
    names = (*basis.events.names, UNNAMED)
    return tuple(
        Moved(
            name=names[code],
            before_ns=int(before[code]),
            after_ns=int(before[code] + change[code]),
        )
        for code in order
        if change[code]
    )


def _bound_path(basis: Basis, scenario: Hypothesis) -> float | None:
    """Amdahl's limit by what is saved on the old path, which is still there and as long as that."""
    is_on_path = gains(basis.dag).is_on_path
    if not len(basis.path) or (scenario.dropped.any() and scenario.dropped[is_on_path].any()):
        return None
    edges = scenario.reweighted
    edges = edges[is_on_path[edges]]
    saved_ns = (basis.dag.weight_ns[edges] - scenario.weight_ns[edges]).sum()
    rest_ns = unchanged(basis.dag).residual_ns
    if scenario.residual_ns is not rest_ns:
        saved_ns += (rest_ns - scenario.residual_ns)[basis.dag.head[is_on_path]].sum()
    left_ns = basis.dag.makespan_ns - float(saved_ns)
    return basis.dag.makespan_ns / left_ns if left_ns > 0 else None


def _bound_work(basis: Basis, scenario: Hypothesis) -> float | None:
    """The same by all that is saved anywhere, which is looser."""
    if scenario.dropped.any():
        return None
    edges, rest_ns = scenario.reweighted, unchanged(basis.dag).residual_ns
    saved = np.maximum(basis.dag.weight_ns[edges] - scenario.weight_ns[edges], 0.0).sum()
    if scenario.residual_ns is not rest_ns:
        saved += np.maximum(rest_ns - scenario.residual_ns, 0.0).sum()
    left = basis.dag.makespan_ns - float(saved)
    return basis.dag.makespan_ns / left if left > 0 else None
