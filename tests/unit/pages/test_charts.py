from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.pages.charts import (
    COLORS,
    SHAPES,
    Axis,
    axes,
    chart,
    log_axis,
    standalone,
    swatch,
    text,
)

POSITIVE = st.floats(1e-9, 1e12)


def linear(low, high):
    return Axis(low=low, high=high, start_px=0, end_px=100, is_log=False)


@given(POSITIVE, st.floats(1.0001, 1e9), st.booleans())
def test_every_axis_has_a_few_ticks_on_it(low, ratio, is_log):
    axis = Axis(low=low, high=low * ratio, start_px=0, end_px=100, is_log=is_log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(low * (1 - 1e-6) <= tick <= low * ratio * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize("most", [0.013, 0.99, 7, 33, 123456])
def test_ticks_of_a_linear_axis_begin_at_zero(most):
    ticks = linear(0.0, most).ticks()
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 8


def test_ticks_are_round():
    assert linear(0.0, 1050).ticks() == [0, 200, 400, 600, 800, 1000]
    log = Axis(low=10**-1.05, high=10**0.4, start_px=0, end_px=100)
    assert log.ticks() == pytest.approx([0.1, 0.2, 0.5, 1, 2])


def test_values_off_the_scale_lie_on_its_edge():
    axis = Axis(low=1, high=100, start_px=10, end_px=30)
    assert [axis.at(value) for value in (0, 1, 10, 100, 1e9)] == [10, 10, 20, 30, 30]


def test_a_wide_interval_does_not_press_values_into_a_corner():
    axis = log_axis([1.0, 2.0], [1e-9, 1e9, None, 0.0], 0, 100)
    assert axis.at(2.0) - axis.at(1.0) > 20


def test_a_file_has_its_title_description_and_style_and_any_text():
    drawn = chart(
        100, 50, "<a>", [text(1, 2, "b & <c>"), *axes(linear(0, 1), linear(0, 1), "", "")]
    )
    root = ElementTree.fromstring(standalone(drawn, "t & u", "<d>"))
    found = {one.tag.rpartition("}")[2]: one.text for one in root if one.text}
    assert (found["title"], found["desc"]) == ("t & u", "<d>")
    assert "prefers-color-scheme: dark" in found["style"]
    assert "url(" not in found["style"]
    assert root.get("aria-label") == "<a>"


def test_series_differ_in_color_or_shape():
    assert len({swatch(series) for series in range(COLORS * SHAPES)}) == COLORS * SHAPES
