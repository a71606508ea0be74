"""The curve as a figure and a table."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchorch.domain.estimate import Estimate
from benchorch.results.metrics.load_curve import LoadPoint
from benchorch.results.report.load_curve import (
    load_chart,
    load_files,
    load_table,
)
from benchorch.scenarios.server import Server
from benchorch.scenarios.single_stream import SingleStream
from benchorch.scenarios.throughput_latency import ThroughputLatency
from support.load_runs import process, run

SVG = "{http://www.w3.org/2000/svg}"


def estimate(value: float) -> Estimate:
    return Estimate(
        value=value,
        low=0.9 * value,
        high=1.2 * value,
        level_ratio=0.95,
        n=5,
        unit="ms",
        method="",
    )


def point(share: float, value: float | None) -> LoadPoint:
    return LoadPoint(
        rate_per_s=1000 * share,
        utilisation_ratio=share,
        achieved_per_s=990 * share,
        p50=None if value is None else estimate(value),
        p99=None if value is None else estimate(5 * value),
        unstable=value is None,
        queries=1234,
        runs=2,
        service_ms=1.0,
        servers=1,
        max_batch=1,
        arrivals="poisson",
    )


POINTS = (point(0.3, 1.0), point(0.6, 1.4), point(0.9, 3.8), point(1.0, None))


def squares(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [one for one in root.iter(f"{SVG}polygon") if "mark" in one.get("class", "")]


def first_corner(polygon: ElementTree.Element) -> tuple[float, float]:
    x, y = polygon.get("points", "").split()[0].split(",")
    return float(x), float(y)


def words(figure: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(figure).iter(f"{SVG}text")]


def test_the_figure_is_a_file_of_its_own_with_a_title_and_its_content_in_words() -> None:
    figure = load_chart(POINTS, title="mlp <eager> & more", target_ms=10)
    root = ElementTree.fromstring(figure)
    assert root.findtext(f"{SVG}title") == "mlp <eager> & more"
    assert "1000 per second: unstable" in (root.findtext(f"{SVG}desc") or "")
    assert "href" not in figure
    assert len(figure) < 20_000


def test_every_mark_lies_on_the_page_and_higher_rates_lie_to_the_right() -> None:
    root = ElementTree.fromstring(load_chart(POINTS, target_ms=0.01))
    p50 = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.iter(f"{SVG}circle")]
    p99 = [first_corner(square) for square in squares(root)]
    assert (len(p50), len(p99)) == (3, 3)
    assert all(0 < x < 760 and 0 < y < 460 for x, y in (*p50, *p99))
    assert [x for x, _ in p50] == sorted(x for x, _ in p50)
    assert [y for _, y in p50] == sorted((y for _, y in p50), reverse=True)


def test_an_interval_over_powers_of_ten_does_not_squeeze_the_figure() -> None:
    wide = replace(POINTS[1], p50=replace(estimate(1.4), low=1e-6, high=1e9))
    root = ElementTree.fromstring(load_chart([POINTS[0], wide, POINTS[2]]))
    heights = [float(circle.get("cy", 0)) for circle in root.iter(f"{SVG}circle")]
    heights += [y for _, y in map(first_corner, squares(root))]
    assert max(heights) - min(heights) > 100


def test_what_is_not_there_is_not_in_the_legend() -> None:
    assert {"p50", "p99", "p99 ideal (M/D/c)", "× unstable"} <= set(words(load_chart(POINTS)))
    batched = [replace(one, max_batch=8) for one in POINTS[:3]]
    assert not {"p99 ideal (M/D/c)", "× unstable"} & set(words(load_chart(batched)))


def test_a_curve_of_nothing_but_unstable_rates_can_be_drawn() -> None:
    assert "× unstable" in words(load_chart([point(1.2, None)]))


def test_no_points_are_no_figure_and_no_table() -> None:
    assert load_table([]) == ""
    with pytest.raises(ValueError, match="at least one point"):
        load_chart([])


def test_a_trial_at_one_rate_has_no_curve_and_one_at_several_has_its_files() -> None:
    at_one = process(run(Server(rate_per_s=100, duration_s=5, seed=1)))
    curve = ThroughputLatency(fractions=(0.3, 0.6), duration_s=2, target_ms=3, seed=1)
    assert load_files([at_one], title="x") == {}
    assert load_files([process(run(SingleStream()))], title="x") == {}
    files = load_files([process(run(curve))], title="mlp")
    assert set(files) == {"load.svg", "load.md"}
    assert "target 3 ms" in words(files["load.svg"])


def test_the_table_shows_intervals_or_unstable() -> None:
    lines = load_table(POINTS).splitlines()
    assert lines[2] == "| 300 | 30 % | 297 | 1 [0.9, 1.2] | 5 [4.5, 6] | 1234 |"
    assert lines[-1] == "| 1000 | 100 % | 990 | unstable | unstable | 1234 |"
    assert len(lines) == 6
