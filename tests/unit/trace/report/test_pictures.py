import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report import icicle as icicles
from benchorch.trace.report.branch_shares import branch_times
from benchorch.trace.report.graph_picture import Card, Wire, graph_picture
from benchorch.trace.report.icicle import GREW, SHRANK, WIDTH_PX, icicle, icicle_change

names = st.sampled_from("abcdef")
pieces = st.lists(
    st.tuples(st.lists(names, max_size=4).map(tuple), st.integers(0, 10**6), st.integers(0, 16)),
    max_size=30,
)


def cells(picture):
    """Left borders, tops and widths of the cells, and what they are called."""
    found = re.findall(
        r'<g><title>([^<\n]*)[^<]*</title><rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', picture
    )
    return [(name, float(x), float(y), float(width)) for name, x, y, width in found]


@given(pieces)
def test_a_cell_is_as_wide_as_its_time_and_lies_within_the_one_above(listed):
    drawn = cells(icicle(listed))
    assert drawn[0][0] == "all"
    assert drawn[0][3] == WIDTH_PX
    whole_ns = sum(ns for _, ns, _ in listed)
    for name in "abcdef":
        own_ns = sum(ns for stack, ns, _ in listed if stack[:1] == (name,))
        top = [width for cell, _, y, width in drawn if cell == name and y == drawn[0][2] + 23]
        if top:
            assert top[0] == pytest.approx(own_ns / whole_ns * WIDTH_PX, abs=0.011)
    for _, x, y, width in drawn[1:]:
        above = [one for one in drawn if one[2] == y - 23]
        assert any(o[1] - 0.02 <= x and x + width <= o[1] + o[3] + 0.02 for o in above)


def test_an_empty_path_is_an_empty_picture():
    assert "<svg" in icicle([])


def test_levels_that_would_be_too_many_cells_are_left_out(monkeypatch):
    monkeypatch.setattr(icicles, "MOST_CELLS", 50)
    picture = icicle([((f"module {i % 10}", f"call {i}"), 10, 0) for i in range(100)])
    assert len(cells(picture)) == 11


def test_a_change_is_red_where_the_path_got_longer_and_blue_where_shorter():
    before = [(("mm",), 800, 0), (("relu",), 200, 0)]
    after = [(("mm",), 200, 0), (("relu",), 200, 0), (("copy",), 100, 0)]
    picture = icicle_change(before, after)
    colour = dict(re.findall(r'<title>(\w+)\n[^<]*</title><rect [^>]*fill="(#\w+)"', picture))
    assert (colour["mm"], colour["copy"]) == (SHRANK, GREW)
    assert colour["relu"] not in {SHRANK, GREW}


def test_the_path_is_outlined_and_a_branch_is_labelled():
    cards = [Card(title="fork", on_path=True), Card(title="a"), Card(title="join", on_path=True)]
    wires = {(0, 1): Wire(), (1, 2): Wire(label="63 %"), (0, 2): Wire(on_path=True, label="0 %")}
    picture = graph_picture("g", cards, wires, "10 %", "less")
    assert picture.count('class="box none onpath"') == 2
    assert picture.count('class="wire onpath"') == 1
    assert "63 %" in picture


def graph(**reads):
    nodes = [OperatorNode(name=name, op=name, inputs=tuple(r.split())) for name, r in reads.items()]
    return OperatorGraph(name="g", nodes=tuple(nodes), source="onnx")


def test_a_branch_has_what_only_leads_through_it():
    diamond = graph(fork="", a="fork", b="a", c="fork", join="b c fork")
    times = {"fork": 100, "a": 1, "b": 2, "c": 4, "join": 1000}
    assert branch_times(diamond, times) == {
        ("b", "join"): 3,
        ("c", "join"): 4,
        ("fork", "join"): 0,
    }


def test_a_fork_within_a_branch_counts_once():
    nested = graph(x="", a="x", b="a", c="a", d="b c", e="x", j="d e")
    times = dict.fromkeys("xabcdej", 1)
    assert branch_times(nested, times)["d", "j"] == 4
    assert branch_times(nested, times)["b", "d"] == 1
