from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.estimate import Estimate
from benchorch.pages.markup import plain
from benchorch.results.report.estimate_bars import bar_chart

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


def estimate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, level_ratio=0.95, n=5, unit="ms", method="")


@given(anything)
def test_any_name_is_text_and_nothing_else(name: str) -> None:
    drawn = ElementTree.fromstring(bar_chart(name, {name: estimate(1.0, None, None)}).svg)
    texts = [each.text or "" for each in drawn.findall(".//{*}text")]
    line = plain(name).replace("\r\n", "\n").replace("\r", "\n")
    assert texts == [line, line, "1"]


def test_an_interval_that_is_known_is_drawn_across_the_end_of_its_bar() -> None:
    bars = {"known": estimate(5.0, 4.0, 7.0), "unknown": estimate(2.0, 0.001, 900.0)}
    drawn = ElementTree.fromstring(bar_chart("t", bars).svg)
    widths = [
        each.get("width") for each in drawn.findall(".//{*}rect") if each.get("class") == "bar"
    ]
    assert widths == ["250.0", "100.0"]  # the longest end is at 350
    [interval] = [each.get("d") for each in drawn.findall(".//{*}path")]
    assert interval == "M200.0 0H350.0M200.0 -5v10M350.0 -5v10"
