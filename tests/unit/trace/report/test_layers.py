import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from benchorch.trace.report.graph_layout import LONGEST_ROUTED, arrange, ascending, levels


@st.composite
def graphs(draw):
    boxes = draw(st.integers(1, 14))
    pairs = [(tail, head) for head in range(boxes) for tail in range(head)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=24)) if pairs else []
    size = st.tuples(st.floats(10, 200), st.floats(10, 60))
    return draw(st.lists(size, min_size=boxes, max_size=boxes)), edges


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_no_box_lies_on_another_and_every_edge_leads_down(graph):
    sizes, edges = graph
    layout = arrange(sizes, edges)
    boxes = [
        (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
        for (x, y), (w, h) in zip(layout.centres, sizes, strict=True)
    ]
    for index, (left, right, top, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= layout.width_px + 1e-6
        assert bottom <= layout.height_px + 1e-6
        for other in boxes[:index]:
            apart = right <= other[0] or left >= other[1] or bottom <= other[2] or top >= other[3]
            assert apart
    for tail, head in edges:
        assert boxes[tail][3] < boxes[head][2]


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_edges_go_from_border_to_border_and_never_up(graph):
    sizes, edges = graph
    layout = arrange(sizes, edges)
    assert set(layout.routes) == set(edges)
    for (tail, head), route in layout.routes.items():
        (tail_x, tail_y), (head_x, head_y) = layout.centres[tail], layout.centres[head]
        assert route[0] == (tail_x, tail_y + sizes[tail][1] / 2)
        assert route[-1] == (head_x, head_y - sizes[head][1] / 2)
        heights = [y for _, y in route]
        assert heights == sorted(heights)


def test_nothing_and_one_box_have_a_place():
    assert arrange([], []).centres == ()
    assert arrange([(10.0, 10.0)], []).centres == ((17.0, 17.0),)


def test_a_chain_is_straight():
    layout = arrange([(50.0, 20.0)] * 30, [(i, i + 1) for i in range(29)])
    assert max(x for x, _ in layout.centres) - min(x for x, _ in layout.centres) < 1e-6


def test_what_only_feeds_one_box_stands_right_above_it():
    assert levels(5, [(0, 1), (1, 2), (2, 4), (3, 4)]) == [0, 1, 2, 2, 3]


def test_an_edge_over_many_layers_is_not_routed_around_all_of_them():
    boxes = LONGEST_ROUTED + 3
    chain = [(i, i + 1) for i in range(boxes - 1)]
    layout = arrange([(50.0, 20.0)] * boxes, [*chain, (0, boxes - 1)])
    assert layout.far == {(0, boxes - 1)}
    assert len(layout.routes[0, boxes - 1]) == 2


def test_edges_that_would_lead_up_are_left_out():
    assert arrange([(10.0, 10.0)] * 2, [(1, 0), (1, 1)]).routes == {}


@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(0.1, 9)), min_size=1, max_size=30))
def test_values_that_never_fall_are_those_of_isotonic_regression(rows):
    wanted, weights = ([row[column] for row in rows] for column in (0, 1))
    expected = isotonic_regression(wanted, weights=weights).x
    assert ascending(wanted, weights) == pytest.approx(expected.tolist(), abs=1e-6)
