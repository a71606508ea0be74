from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.domain.codec import decode, encode
from benchorch.trace.critical_path.replay import replay
from benchorch.trace.dag import CLASSES, Class, Dag
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.export import Exported, Grouping, exported
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.simulation import hypothesis_of, makespan_ns
from benchorch.trace.whatif.transforms import Speedup
from support.random_graphs import dags, lane_dags
from support.whatif_programs import basis_of, layer, mm, relu


def swept(page: Exported, scales: dict[str, list[float]]) -> float:
    """What a page's script does with the arrays, line for line."""
    scale = [
        math.prod(
            scales[name][row[atom]] if row[atom] >= 0 else 1.0
            for name, row in page.row_of_atom.items()
        )
        for atom in range(len(next(iter(page.row_of_atom.values()))))
    ]
    times = [0.0] * page.junctions
    for k, (tail, head) in enumerate(zip(page.tail, page.head, strict=True)):
        length = float(page.fixed_ns[k])
        for i in range(page.first[k], page.first[k + 1]):
            length += page.ns[i] * scale[page.atom[i]]
        times[head] = max(times[head], times[tail] + length)
    return times[-1]


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Dag, dict[str, Grouping], dict[str, list[float]]]:
    dag = draw(dags() | lane_dags())
    groups, scales = {}, {}
    for name, count in (("operator", 3), ("class", 2)):
        rows = st.lists(st.integers(-1, count - 1), min_size=dag.edges, max_size=dag.edges)
        groups[name] = ([str(row) for row in range(count)], np.array(draw(rows), dtype=np.int64))
        scales[name] = draw(st.lists(st.floats(0.0, 1.0), min_size=count, max_size=count))
    return dag, groups, scales


@given(case=grouped(), most=st.integers(2, 8))
@settings(max_examples=30)
def test_a_page_says_what_a_replay_says_up_to_what_was_left_out(
    case: tuple[Dag, dict[str, Grouping], dict[str, list[float]]], most: int
) -> None:
    dag, groups, scales = case
    ratio = np.ones(dag.edges)
    for name, (_, row) in groups.items():
        ratio *= np.append(scales[name], 1.0)[row]
    times = replay(dag, np.rint(dag.weight_ns * ratio).astype(np.int64))
    exact = float(times[-1] - times[0])
    page = exported(dag, groups, most)
    said = swept(page, scales)
    rounding = 0.5 * dag.edges + 1e-6
    kept = -math.inf if page.exact_gain_ns is None else dag.makespan_ns - page.exact_gain_ns
    assert said - rounding <= exact <= max(said, kept) + rounding


@given(case=grouped(), most=st.integers(2, 8))
@settings(max_examples=30)
def test_unscaled_it_is_the_observed_run(
    case: tuple[Dag, dict[str, Grouping], dict[str, list[float]]], most: int
) -> None:
    dag, groups, scales = case
    ones = {name: [1.0] * len(row) for name, row in scales.items()}
    assert swept(exported(dag, groups, most), ones) == dag.makespan_ns


def by_class(basis: Basis) -> dict[str, Grouping]:
    return {"class": ([str(one) for one in CLASSES], basis.dag.label.astype(np.int64))}


def test_rows_of_a_trace_scale_as_a_what_if_does(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(), relu(), mm(), relu()), tmp_path)
    groups = by_class(basis)
    page = exported(basis.dag, groups)
    assert page.exact_gain_ns is None
    for number, name in enumerate(page.rows["class"]):
        scales = [1.0] * len(CLASSES)
        scales[number] = 0.5
        scenario = hypothesis_of(
            basis, [Speedup(select=Selector(classes=(Class(name),)), speedup=2)]
        )
        assert swept(page, {"class": scales}) == makespan_ns(basis, scenario)


def test_a_page_gets_it_as_json(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(), relu()), tmp_path)
    page = exported(basis.dag, by_class(basis))
    assert decode(Exported, json.loads(json.dumps(encode(page)))) == page
