"""The throughput-latency curve of a trial: a chart in a file of its own, and a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.formatting import interval_text
from benchorch.pages.charts import (
    CHARACTER_PX,
    Axis,
    axes,
    chart,
    color_class,
    line,
    log_axis,
    polyline,
    standalone,
    symbol,
    text,
)
from benchorch.results.metrics.ideal_queue import response_quantile
from benchorch.results.metrics.load_curve import LoadPoint, load_points
from benchorch.units import format_ms

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 56, 52
QUANTILES = ("p50", "p99")
SHIFTS_PX = (-2, 2)
"""So that intervals of both quantiles can be told apart."""

# Nearer to its capacity a queue's theory is of runs longer than anyone measures.
MOST_IDEAL_RATIO = 0.97

HEADERS = ("rate /s", "of capacity", "achieved /s", "p50 ms [95 %]", "p99 ms [95 %]", "queries")


def load_files(processes: Sequence[ProcessRecord], *, title: str) -> dict[str, str]:
    """A trial's curve as files, each by its name; none where fewer than two rates were offered."""
    loads = [load for process in processes for load in process.observations.loads]
    points = load_points(processes) if loads else ()
    if len(points) < 2:
        return {}
    figure = load_chart(points, title=title, target_ms=loads[-1].target_ms)
    return {"load.svg": figure, "load.md": load_table(points)}


def load_table(points: Sequence[LoadPoint]) -> str:
    """The points as a Markdown table; empty without any."""
    if not points:
        return ""
    rows = [HEADERS, *map(_cells, points)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---:|" * len(HEADERS), *lines[1:]]) + "\n"


def _cells(point: LoadPoint) -> tuple[str, ...]:
    share = point.utilisation_ratio
    return (
        f"{point.rate_per_s:.4g}",
        "–" if share is None else f"{100 * share:.3g} %",
        "–" if point.achieved_per_s is None else f"{point.achieved_per_s:.4g}",
        "unstable" if point.unstable else _interval_text(point.p50),
        "unstable" if point.unstable else _interval_text(point.p99),
        str(point.queries),
    )


def _interval_text(estimate: Estimate | None) -> str:
    return "–" if estimate is None else interval_text(estimate)


def load_chart(
    points: Sequence[LoadPoint],
    *,
    title: str = "Response under load",
    target_ms: float | None = None,
) -> str:
    """Response times over the offered rate as an SVG file: p50 and p99 with their intervals.

    Dashed is the p99 of a queue whose calls all take the mean service time, where arrivals are
    Poisson and queries are served one by one. Unsustained rates are marked at the top.
    """
    if not points:
        raise ValueError("a chart needs at least one point; there is none")
    found = [each for point in points for each in (point.p50, point.p99) if each is not None]
    shown = [each.value for each in found] + [point.service_ms for point in points]
    ends = [end for each in found for end in (each.low, each.high)]
    most = 1.05 * max(point.rate_per_s for point in points)
    x = Axis(low=0.0, high=most, start_px=LEFT, end_px=WIDTH - RIGHT, is_log=False)
    y = log_axis([*shown, *([target_ms] if target_ms else [])], ends, HEIGHT - BOTTOM, TOP)
    parts = [
        text(LEFT, 24, title, "title", "start"),
        *axes(x, y, "queries offered a second", "response, ms (logarithmic)"),
        *_ideal(points, x, y),
        *_target(target_ms, y),
        *(part for series in range(len(QUANTILES)) for part in _quantile(points, series, x, y)),
        *_unstable(points, x),
        *_legend(points),
    ]
    return standalone(chart(WIDTH, HEIGHT, title, parts), title, _description(points))


def _description(points: Sequence[LoadPoint]) -> str:
    """The chart in words, for those who do not see it."""
    return "; ".join(
        f"{point.rate_per_s:.4g} per second: "
        + ("unstable" if point.unstable else f"p50 {_interval_text(point.p50)} ms")
        for point in points
    )


def _quantile(points: Sequence[LoadPoint], series: int, x: Axis, y: Axis) -> Iterator[str]:
    """A line through the points of one quantile, each with its interval."""
    color = color_class(series)
    known = [(x.at(p.rate_per_s), e) for p in points if (e := getattr(p, QUANTILES[series]))]
    yield polyline([(at, y.at(estimate.value)) for at, estimate in known], f"join {color}")
    for at, estimate in known:
        if estimate.low is not None and estimate.high is not None:
            beside = at + SHIFTS_PX[series]
            ends = (beside, y.at(estimate.low)), (beside, y.at(estimate.high))
            yield line(*ends, f"interval {color}")
        yield symbol(at, y.at(estimate.value), series)


def _ideal(points: Sequence[LoadPoint], x: Axis, y: Axis) -> Iterator[str]:
    """The p99 of a queue with constant service time, that of all points together."""
    if not _has_ideal(points):
        return
    service_ms = statistics.median(point.service_ms for point in points)
    places = []
    for point in points:
        busy = point.rate_per_s * service_ms / 1000 / point.servers
        if busy < MOST_IDEAL_RATIO:
            ratio = response_quantile(busy, 0.99, point.servers)
            places.append((x.at(point.rate_per_s), y.at(ratio * service_ms)))
    yield polyline(places, f"dashed {color_class(1)}")


def _has_ideal(points: Sequence[LoadPoint]) -> bool:
    return all(point.arrivals == "poisson" and point.max_batch == 1 for point in points)


def _target(target_ms: float | None, y: Axis) -> Iterator[str]:
    if target_ms is not None:
        at = y.at(target_ms)
        yield line((LEFT, at), (WIDTH - RIGHT, at), f"limit {color_class(2)}")
        yield text(LEFT + 6, at - 5, f"target {format_ms(target_ms)} ms", anchor="start")


def _unstable(points: Sequence[LoadPoint], x: Axis) -> Iterator[str]:
    for at in (x.at(point.rate_per_s) for point in points if point.unstable):
        yield line((at, TOP), (at, HEIGHT - BOTTOM), f"limit {color_class(6)}")
        yield text(at, TOP + 12, "×", "title")


def _legend(points: Sequence[LoadPoint]) -> Iterator[str]:
    """The meaning of each mark, in one row at the top right."""
    entries = [
        ("p50", f"join {color_class(0)}", True),
        ("p99", f"join {color_class(1)}", True),
        ("p99 ideal (M/D/c)", f"dashed {color_class(1)}", _has_ideal(points)),
        ("× unstable", "", any(point.unstable for point in points)),
    ]
    right = float(WIDTH - RIGHT)
    for name, kind, _ in reversed([entry for entry in entries if entry[2]]):
        yield text(right, TOP - 10, name, "faint", "end")
        right -= 14 + CHARACTER_PX * len(name)
        if kind:
            yield line((right - 16, TOP - 14), (right + 6, TOP - 14), kind)
            right -= 30
