"""Predicted makespan and critical path of a run with changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.trace.analysed import Replayable
from benchorch.trace.attribution.gains import gains
from benchorch.trace.critical_path.contraction import explained
from benchorch.trace.dag import CLASSES, Tier
from benchorch.trace.operators.roofline import Peaks
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.hypothesis import Hypothesis, unchanged
from benchorch.trace.whatif.prediction import Moved, Prediction
from benchorch.trace.whatif.simulation import (
    SegmentTimes,
    explained_ns,
    hypothesis_of,
    makespan_ns,
    outcome,
)
from benchorch.trace.whatif.sweep import sweep
from benchorch.trace.whatif.transforms import Speedup, Transform

MOST_MOVED = 20
UNNAMED = "(between events)"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A prediction and its hypothesis, of which `path_of` gives the path."""

    prediction: Prediction
    hypothesis: Hypothesis


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
    """The prediction with the hypothesis behind it.

    Args:
        basis: of the observed run.
        changes: in order; none at all gives the observed run again.
        name: of the what-if.
        swept: whether a what-if that is one speedup also predicts other speedups, which costs
            two dozen replays.

    Raises:
        TraceError: with every problem of the changes on this trace.
    """
    found = [
        f"{name}, change {number}: {problem}"
        for number, change in enumerate(changes, 1)
        for problem in change.problems(basis)
    ]
    if found:
        raise TraceError("\n".join(found))
    hypothesis = hypothesis_of(basis, changes)
    only = changes[0] if len(changes) == 1 else None
    prediction = replace(
        _prediction(basis, hypothesis),
        name=name,
        changes=tuple(map(str, changes)),
        sweep=sweep(basis, only.select) if swept and isinstance(only, Speedup) else None,
    )
    return Answer(prediction=prediction, hypothesis=hypothesis)


def _prediction(basis: Basis, hypothesis: Hypothesis) -> Prediction:
    """The prediction without its name and its changes."""
    result = outcome(basis, hypothesis)
    predicted_ns, more = result.makespan_ns, result.more
    possible_ns = (predicted_ns, *_alternatives_ns(basis, hypothesis, predicted_ns))
    path = basis.path
    classes = _sums(path.label, path.duration_ns, len(CLASSES))
    tiers = _sums(path.tier, path.duration_ns, len(Tier))
    return Prediction(
        name="",
        changes=(),
        makespan_ns=basis.dag.makespan_ns,
        predicted_ns=predicted_ns,
        low_ns=min(possible_ns),
        high_ns=max(possible_ns),
        classes=_by_class(classes),
        predicted_classes=_by_class(classes + _sums(more.label, more.ns, len(CLASSES))),
        tiers=_by_tier(tiers + _sums(more.tier, more.ns, len(Tier))),
        moved=_moved(basis, more),
        bound_path=_bound_path(basis, hypothesis),
        bound_work=_bound_work(basis, hypothesis),
        notes=hypothesis.notes,
    )


def _sums(column: NDArray[np.integer], ns: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Time by the value of a column; as doubles, which are exact up to a hundred days."""
    return np.bincount(column, weights=ns, minlength=size).astype(np.int64)


def _named(basis: Basis, owner: NDArray[np.int32], ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time by the name of its owner; the last entry is that of none."""
    unowned = len(basis.events.names)
    column = np.where(owner >= 0, basis.events.name[owner], unowned)
    return _sums(column, ns, unowned + 1)


def _by_class(sums: NDArray[np.int64]) -> Mapping[str, int]:
    """Time on a path by class, the largest first; what there is none of is left out."""
    found = dict(zip(map(str, CLASSES), sums.tolist(), strict=True))
    return {name: found[name] for name in sorted(found, key=lambda one: -found[one]) if found[name]}


def _by_tier(sums: NDArray[np.int64]) -> Mapping[str, int]:
    """Time on a path by how well its dependencies are known."""
    return {tier.name.lower(): int(sums[tier]) for tier in Tier}


def _alternatives_ns(basis: Basis, hypothesis: Hypothesis, predicted_ns: int) -> Iterator[int]:
    """What else it could be: without unexplained time, and if all goes well."""
    yield _without_residual(basis, hypothesis, predicted_ns)
    if hypothesis.best_ratio is not unchanged(basis.dag).best_ratio:
        best_ns = hypothesis.weight_ns * hypothesis.best_ratio
        yield makespan_ns(basis, replace(hypothesis, weight_ns=best_ns))


def _without_residual(basis: Basis, hypothesis: Hypothesis, predicted_ns: int) -> int:
    """The observed makespan times the change that a run without unexplained time would see."""
    if not basis.dag.residual_ns.any():
        return predicted_ns
    before = explained(basis.dag).makespan_ns
    after = explained_ns(basis, hypothesis)
    return round(basis.dag.makespan_ns * after / before) if before else predicted_ns


def _moved(basis: Basis, more: SegmentTimes) -> tuple[Moved, ...]:
    """The largest differences between the paths, by name."""
    before = _named(basis, basis.path.owner, basis.path.duration_ns)
    change = _named(basis, more.owner, more.ns)
    names = (*basis.events.names, UNNAMED)
    return tuple(
        Moved(
            name=names[code],
            before_ns=int(before[code]),
            after_ns=int(before[code] + change[code]),
        )
        for code in np.argsort(-np.abs(change), kind="stable")[:MOST_MOVED].tolist()
        if change[code]
    )


def _bound_path(basis: Basis, hypothesis: Hypothesis) -> float | None:
    """Amdahl's limit by what is saved on the old path, which is still there and as long as that."""
    is_on_path = gains(basis.dag).is_on_path
    if not len(basis.path) or (hypothesis.dropped.any() and hypothesis.dropped[is_on_path].any()):
        return None
    edges = hypothesis.reweighted
    edges = edges[is_on_path[edges]]
    saved_ns = (basis.dag.weight_ns[edges] - hypothesis.weight_ns[edges]).sum()
    rest_ns = unchanged(basis.dag).residual_ns
    if hypothesis.residual_ns is not rest_ns:
        saved_ns += (rest_ns - hypothesis.residual_ns)[basis.dag.head[is_on_path]].sum()
    left_ns = basis.dag.makespan_ns - float(saved_ns)
    return basis.dag.makespan_ns / left_ns if left_ns > 0 else None


def _bound_work(basis: Basis, hypothesis: Hypothesis) -> float | None:
    """The same by all that is saved anywhere, which is looser."""
    if hypothesis.dropped.any():
        return None
    edges, rest_ns = hypothesis.reweighted, unchanged(basis.dag).residual_ns
    saved = np.maximum(basis.dag.weight_ns[edges] - hypothesis.weight_ns[edges], 0.0).sum()
    if hypothesis.residual_ns is not rest_ns:
        saved += np.maximum(rest_ns - hypothesis.residual_ns, 0.0).sum()
    left = basis.dag.makespan_ns - float(saved)
    return basis.dag.makespan_ns / left if left > 0 else None
