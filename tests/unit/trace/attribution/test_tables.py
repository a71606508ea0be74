from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import gains, part_of
from benchorch.trace.attribution.measured import measured
from benchorch.trace.attribution.tables import UNATTRIBUTED, Ledger, divided
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.critical_path.replay import replay
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.dag import Dag, EdgeKind
from benchorch.trace.events import NOTHING
from support.random_graphs import Edge, dag_of, dags, lane_dags

EVENTS = 16


def ledger(dag: Dag) -> Ledger:
    path, slack_ns = critical_path(dag), slack(dag)
    return Ledger(
        measured=measured(dag, path, slack_ns, EVENTS),
        gains=gains(dag),
        workloads={},
    )


@st.composite
def entities(draw: st.DrawFn) -> Entities:
    """Rows, some of which share parts; some events belong to none."""
    rows = draw(st.integers(1, 4))
    shares = [{row: 1.0} for row in range(rows)]
    if rows > 1:
        share = draw(st.sampled_from([0.5, 0.25, 1 / 3]))
        shares.append({0: share, 1: 1 - share})
    part = draw(st.lists(st.integers(NOTHING, len(shares) - 1), min_size=EVENTS, max_size=EVENTS))
    parts = np.array(part, dtype=np.int64)
    return Entities(
        names=tuple(f"row {row}" for row in range(rows)),
        part=parts,
        shares=tuple(shares),
        instance=np.where(parts >= 0, np.arange(EVENTS), NOTHING),
    )


@settings(deadline=None, max_examples=60)
@given(dag=dags(owners=EVENTS) | lane_dags(), rows=entities())
def test_i4_a_table_sums_to_the_makespan(dag: Dag, rows: Entities) -> None:
    table = ledger(dag).table(rows)
    assert not table or sum(row.on_path_ns for row in table) == dag.makespan_ns
    assert not table or sum(row.total_ns for row in table) == int(dag.weight_ns.sum())
    assert not table or table[-1].name == UNATTRIBUTED


@settings(deadline=None, max_examples=60)
@given(dag=dags(owners=EVENTS) | lane_dags(), rows=entities())
def test_i11_and_i12_gains_keep_within_amdahls_bounds(dag: Dag, rows: Entities) -> None:
    for row in ledger(dag).table(rows)[:-1]:
        assert 0 <= row.drag_ns <= row.on_path_ns
        assert 1 <= row.speedup_2x <= row.speedup_max <= row.bound_path
        shared = row.name in ("row 0", "row 1")  # by which a path's odd nanosecond is rounded
        assert row.on_path_ns <= row.total_ns + shared


@settings(deadline=None, max_examples=60)
@given(dag=dags(owners=EVENTS) | lane_dags(), rows=entities())
def test_the_drag_of_a_row_is_that_of_all_of_it_together(dag: Dag, rows: Entities) -> None:
    part = np.append(rows.part, NOTHING)[dag.owner]
    for row in ledger(dag).table(rows)[:-1]:
        number = rows.names.index(row.name)
        shares = np.array([*(one.get(number, 0.0) for one in rows.shares), 0.0])
        times = replay(dag, dag.weight_ns - part_of(dag.weight_ns, shares[part]))
        saved = dag.makespan_ns - int(times[-1] - times[0])
        assert row.drag_ns == (saved if row.on_path_ns else 0)


@settings(deadline=None, max_examples=60)
@given(dag=dags(owners=EVENTS), rows=entities())
def test_rows_are_in_order_of_their_drag(dag: Dag, rows: Entities) -> None:
    drags = [row.drag_ns for row in ledger(dag).table(rows)[:-1]]
    assert drags == sorted(drags, reverse=True)


@given(
    total=st.integers(0, 10**9),
    parts=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6),
)
def test_a_division_loses_no_nanosecond(total: int, parts: list[float]) -> None:
    shares = {row: part / sum(parts) for row, part in enumerate(parts)}
    pieces = divided(total, shares)
    assert sum(pieces.values()) == total
    assert all(abs(piece - total * shares[row]) < 1.0001 for row, piece in pieces.items())


def test_of_equal_remainders_the_first_row_gets_the_unit() -> None:
    assert divided(5, {3: 0.5, 1: 0.5}) == {3: 2, 1: 3}


def test_waiting_is_charged_to_what_ended_it() -> None:
    dag = dag_of(
        [0, 10, 30, 30, 35],
        [
            Edge(tail=0, head=1, weight_ns=10, owner=1),
            Edge(tail=0, head=2, weight_ns=30, owner=0),
            Edge(tail=1, head=3, weight_ns=0, kind=EdgeKind.STREAM),
            Edge(tail=2, head=3, weight_ns=0, kind=EdgeKind.SYNC),
            Edge(tail=3, head=4, weight_ns=5, owner=2),
        ],
        lane=[-1, 1, 0, 1, -1],
        event=[-1, 1, 0, 2, -1],
    )
    own = np.arange(EVENTS)
    rows = Entities(
        names=("late", "early", "after"),
        part=np.where(own < 3, own, NOTHING),
        shares=({0: 1.0}, {1: 1.0}, {2: 1.0}),
        instance=np.where(own < 3, own, NOTHING),
    )
    table = {row.name: row for row in ledger(dag).table(rows)}
    assert table["late"].blame_ns == 20
    assert table["early"].blame_ns == table["after"].blame_ns == 0
    assert table["late"].drag_ns == 20
    assert table["late"].speedup_max == 35 / 15
    assert table["late"].bound_path == 35 / 5


def test_what_is_everything_has_no_limit() -> None:
    dag = dag_of([0, 10], [Edge(tail=0, head=1, weight_ns=10, owner=0)], event=[-1, -1])
    part = np.where(np.arange(EVENTS) == 0, 0, NOTHING)
    rows = Entities(names=("all",), part=part, shares=({0: 1.0},), instance=part)
    (row, rest) = ledger(dag).table(rows)
    assert math.isinf(row.speedup_max)
    assert row.speedup_2x == 2
    assert rest.on_path_ns == 0
