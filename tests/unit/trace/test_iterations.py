from __future__ import annotations

import pytest

from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import CriticalPath, Dag, Window
from benchorch.trace.graph.build import build_dag
from benchorch.trace.iterations import MOST_COMPARED, iterations, stability, typical
from benchorch.trace.windows import windows
from support.handmade_traces import note, op, trace


def lengths(*each: int) -> list[Window]:
    return [Window(start_ns=0, end_ns=one, iteration=place) for place, one in enumerate(each)]


def test_the_typical_call_is_the_one_nearest_to_the_median() -> None:
    assert typical(lengths(5, 100, 9, 8, 11)).iteration == 2
    assert typical(lengths(7)).iteration == 0
    with pytest.raises(ValueError, match="empty"):
        typical([])


def test_stability_is_the_mean_overlap_of_pairs() -> None:
    assert stability([{"a", "b"}, {"a", "b"}]) == 1
    assert stability([{"a"}, {"b"}]) == 0
    assert stability([{"a", "b"}, {"b", "c"}, {"a", "b"}]) == pytest.approx((1 / 3 + 1 / 3 + 1) / 3)
    assert stability([{"a"}]) is None
    assert stability([set(), set()]) == 1


def test_every_call_of_a_trace_counts() -> None:
    count = MOST_COMPARED + 5
    made = []
    for place in range(count):
        start = 1_000 * place
        made += [note("step", start, start + 100 + place), op("aten::mm", start, start + 90)]
    events = trace(made)
    found = windows(events, "step")
    built: list[Window] = []

    def analysed(window: Window) -> tuple[Dag, CriticalPath]:
        built.append(window)
        dag = build_dag(events, window)
        return dag, critical_path(dag)

    told = iterations(events, found, analysed)
    assert told.makespans_ns == tuple(100 + place for place in range(count))
    assert told.stability_ratio == 1
    assert len(built) == MOST_COMPARED
    assert (built[0], built[-1]) == (found[0], found[-1])
    assert told.mean is not None
    assert told.mean.value == pytest.approx(100 + (count - 1) / 2)
    assert told.mean.low is not None
    assert told.mean.low < told.mean.value
