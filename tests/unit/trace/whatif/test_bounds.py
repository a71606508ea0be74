"""What holds of every prediction, whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.trace.attribution.owners import Owners
from benchorch.trace.critical_path.contraction import whole
from benchorch.trace.critical_path.path import critical_path, path_along
from benchorch.trace.critical_path.replay import replay, steps
from benchorch.trace.dag import Class, Dag, Tier
from benchorch.trace.events import NOTHING, Category, Events, Lane
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import unchanged
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.simulation import hypothesis_of, makespan_ns, outcome, path_of
from benchorch.trace.whatif.transforms import AddTime, Residual, SetTime, Speedup, Transform
from support.random_graphs import dags

OPERATORS = 5
ALL = tuple(Class)


def basis_on(dag: Dag) -> Basis:
    """The graph as of a trace with an operator for each owner, ``op0`` to ``op4``."""
    nothing = np.full(OPERATORS, NOTHING, dtype=np.int64)
    own = np.arange(OPERATORS)
    events = Events(
        start_ns=own * 10,
        duration_ns=np.full(OPERATORS, 10),
        name=own.astype(np.int32),
        lane=np.zeros(OPERATORS, dtype=np.int32),
        category=np.full(OPERATORS, Category.OPERATOR, dtype=np.int8),
        correlation=nothing,
        external_id=nothing,
        sequence=nothing,
        forward_lane=nothing.astype(np.int32),
        stream=nothing.astype(np.int32),
        awaited=nothing,
        graph_node=nothing,
        names=tuple(f"op{number}" for number in range(OPERATORS)),
        lanes=(Lane(process="1", thread="1"),),
    )
    owned = Owners(
        parent=nothing,
        operator=own,
        module=nothing,
        backward=np.zeros(OPERATORS, dtype=np.bool_),
    )
    return Basis(
        events=events,
        dag=dag,
        path=critical_path(dag),
        graph=None,
        owned=owned,
        module=nothing,
        modules=(),
    )


bases = dags(owners=OPERATORS).map(basis_on)


def of(number: int) -> Selector:
    return Selector(op=f"op{number}", classes=ALL)


def total_ns(basis: Basis, *changes: Transform) -> int:
    return makespan_ns(basis, hypothesis_of(basis, changes))


@settings(max_examples=60)
@given(basis=bases, number=st.integers(0, 4), ratio=st.floats(0.0, 1.5))
def test_a_simulation_on_what_can_matter_is_the_replay(
    basis: Basis, number: int, ratio: float
) -> None:
    hypothesis = unchanged(basis.dag).scaled(basis.dag.owner == number, ratio)
    changed = np.rint(hypothesis.weight_ns).astype(np.int64)
    said, path = outcome(basis, hypothesis), path_of(basis, hypothesis)
    total_ns = said.makespan_ns
    times = replay(basis.dag, changed)
    assert makespan_ns(basis, hypothesis) == total_ns == times[-1] - times[0]
    whole_ns, edges = whole(basis.dag).longest(steps(basis.dag, changed))
    assert whole_ns == total_ns
    along = path_along(basis.dag, edges, changed, basis.dag.residual_ns)
    assert path.length_ns == along.length_ns == total_ns
    assert path.start_ns.tolist() == (
        (basis.dag.time_ns[0] + np.cumsum(path.duration_ns) - path.duration_ns).tolist()
    )
    assert (path.duration_ns[~path.residual] == changed[path.edge[~path.residual]]).all()
    for column, size in (("label", len(ALL)), ("tier", len(Tier)), ("owner", OPERATORS + 1)):
        shift = column == "owner"  # nobody is -1
        before, more, after = (
            np.bincount(getattr(one, column) + shift, weights=ns, minlength=size)
            for one, ns in (
                (basis.path, basis.path.duration_ns),
                (said.more, said.more.ns),
                (path, path.duration_ns),
            )
        )
        assert (before + more).tolist() == after.tolist()
    if len(basis.path) and path.edge.tolist() != along.edge.tolist():  # two are equally long
        assert set(path.edge.tolist()) <= set(basis.path.edge.tolist())


@settings(max_examples=30)
@given(basis=bases, number=st.integers(0, 4), speedup=st.floats(0.1, 50.0))
def test_i9_faster_is_no_slower(basis: Basis, number: int, speedup: float) -> None:
    changed = total_ns(basis, Speedup(select=of(number), speedup=speedup))
    observed = basis.dag.makespan_ns
    assert changed <= observed if speedup >= 1.0 else changed >= observed
    assert total_ns(basis, Speedup(select=of(number), speedup=1.0)) == observed


@settings(max_examples=30)
@given(basis=bases, number=st.integers(0, 4), speedup=st.floats(1.0, 50.0))
def test_i11_no_prediction_beats_amdahls_bound(basis: Basis, number: int, speedup: float) -> None:
    path = basis.path
    on_path = int(path.duration_ns[path.owner == number].sum())
    changed = total_ns(basis, Speedup(select=of(number), speedup=speedup))
    rounding = 0.5 * basis.dag.edges
    least = basis.dag.makespan_ns - (1.0 - 1.0 / speedup) * on_path
    assert changed >= least - rounding - 1e-6


@settings(max_examples=30)
@given(basis=bases, number=st.integers(0, 4))
def test_i12_the_bound_by_all_work_is_looser_than_that_by_the_path(
    basis: Basis, number: int
) -> None:
    if not (basis.dag.owner == number).any():
        return
    said = predict(basis, [Speedup(select=of(number), speedup=3.0)])
    if said.bound_path is not None and said.bound_work is not None:
        assert said.bound_path <= said.bound_work + 1e-9
    path = basis.path
    assert path.duration_ns[path.owner == number].sum() <= (
        basis.dag.weight_ns[basis.dag.owner == number].sum()
    )


@settings(max_examples=30)
@given(basis=bases, one=st.integers(0, 1), other=st.integers(2, 3), share=st.floats(0.0, 3.0))
def test_i20_disjoint_changes_come_to_the_same_in_any_order(
    basis: Basis, one: int, other: int, share: float
) -> None:
    faster = Speedup(select=of(one), speedup=1.0 / max(share, 0.01))
    later = AddTime(select=of(other), add_ns=30)
    there = SetTime(select=of(4), set_ns=17)
    assert total_ns(basis, faster, later, there) == total_ns(basis, there, later, faster)


@settings(max_examples=30)
@given(basis=bases, number=st.integers(0, 4), first=st.sampled_from([0.5, 2.0, 4.0]))
def test_i20_two_scalings_are_their_product(basis: Basis, number: int, first: float) -> None:
    one, two = (Speedup(select=of(number), speedup=speedup) for speedup in (first, 3.0))
    both = Speedup(select=of(number), speedup=first * 3.0)
    apart = total_ns(basis, one, two)
    assert apart == pytest.approx(total_ns(basis, both), abs=basis.dag.edges)


@settings(max_examples=30)
@given(basis=bases)
def test_the_interval_holds_the_prediction(basis: Basis) -> None:
    said = predict(basis, [Residual(ratio=0.5)])
    assert said.low_ns <= said.predicted_ns <= said.high_ns
    assert sum(said.predicted_classes.values()) == said.predicted_ns
    assert sum(said.tiers.values()) == said.predicted_ns
    assert 0.0 <= said.confidence_ratio <= 1.0
