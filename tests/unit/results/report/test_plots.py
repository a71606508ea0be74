"""What is drawn: fronts, scales, and the marks of what has figures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchorch.results.report.plots import pareto_front, plots
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from benchorch.results.report.scatter import Mark, scatter_chart

NUMBERS = st.floats(1e-9, 1e12)
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1] and a != b


@given(POINTS)
def test_the_front_is_what_nothing_beats(points):
    front = pareto_front(points)
    assert set(front) == {one for one in points if not any(beats(o, one) for o in points)}
    assert front == sorted(front)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_every_mark_is_inside_the_chart(points):
    marks = [Mark(x=x, y=y, series="a", tip="t", y_ends=(y / 1e9, y * 1e9)) for x, y in points]
    drawn = scatter_chart("c", ("x", "y"), marks, ["a"])
    assert drawn.count("<circle") == len(points)
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_marks_are_those_that_have_figures_and_the_disqualified_are_hollow(run):
    rows = rows_of([run], prices_of([run]))
    latency, cost, build = plots(rows)
    assert latency.svg.count("<g>") == 3
    assert latency.svg.count("hollow") == 1
    assert "Hollow" in latency.sentence
    assert cost.svg == ""
    assert build.svg.count("<g>") == 1


def test_the_front_of_each_piece_of_work_is_its_own(swept):
    rows = rows_of([swept], prices_of([swept]))
    cost = next(plot for plot in plots(rows) if plot.title.startswith("Cost"))
    assert cost.svg.count("<g>") == 8
    assert cost.svg.count('class="front"') == 4
    assert cost.svg.count('class="ring"') == 4  # each work's fastest is its cheapest too
