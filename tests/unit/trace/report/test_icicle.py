import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.report import icicle as icicles
from benchorch.trace.report.icicle import GREW, SHRANK, WIDTH_PX, icicle, icicle_change

names = st.sampled_from("abcdef")
paths = st.lists(
    st.tuples(st.lists(names, max_size=4).map(tuple), st.integers(0, 10**6), st.integers(0, 16)),
    max_size=30,
)


def cells(chart):
    """Left borders, tops and widths of the cells, and what they are called."""
    found = re.findall(
        r'<g><title>([^<\n]*)[^<]*</title><rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', chart
    )
    return [(name, float(x), float(y), float(width)) for name, x, y, width in found]


@given(paths)
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


def test_an_empty_path_is_an_empty_chart():
    assert "<svg" in icicle([])


def test_levels_that_would_be_too_many_cells_are_left_out(monkeypatch):
    monkeypatch.setattr(icicles, "MOST_CELLS", 50)
    chart = icicle([((f"module {i % 10}", f"call {i}"), 10, 0) for i in range(100)])
    assert len(cells(chart)) == 11


def test_a_change_is_red_where_the_path_got_longer_and_blue_where_shorter():
    before = [(("mm",), 800, 0), (("relu",), 200, 0)]
    after = [(("mm",), 200, 0), (("relu",), 200, 0), (("copy",), 100, 0)]
    chart = icicle_change(before, after)
    color = dict(re.findall(r'<title>(\w+)\n[^<]*</title><rect [^>]*fill="(#\w+)"', chart))
    assert (color["mm"], color["copy"]) == (SHRANK, GREW)
    assert color["relu"] not in {SHRANK, GREW}
