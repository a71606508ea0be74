"""The throughput–latency curve for people: a figure that needs nothing else, and a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.results.metrics.ideal_queue import response_quantile
from benchorch.results.metrics.load_curve import LoadPoint, load_points
from benchorch.units import format_ms

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 56, 64
COLOURS = {"p50": "#1f5fa8", "p99": "#b3421f"}
SHIFTS = {"p50": -2, "p99": 2}
UNSTABLE_COLOUR = "#777777"
# Nearer to its capacity a queue's theory is of runs longer than anyone measures.
MOST_IDEAL_RATIO = 0.97
MOST_BEYOND = 3.0

HEADERS = ("rate /s", "of capacity", "achieved /s", "p50 ms [95 %]", "p99 ms [95 %]", "queries")


def load_files(processes: Sequence[ProcessRecord], *, title: str) -> dict[str, str]:
    """A trial's curve as files, each by its name; none where fewer than two rates were offered."""
    loads = [load for process in processes for load in process.observations.loads]
    points = load_points(processes) if loads else ()
    if len(points) < 2:
        return {}
    figure = load_figure(points, title=title, target_ms=loads[-1].target_ms)
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
        "unstable" if point.unstable else _interval(point.p50),
        "unstable" if point.unstable else _interval(point.p99),
        str(point.queries),
    )


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return format_ms(estimate.value)
    low, high = format_ms(estimate.low), format_ms(estimate.high)
    return f"{format_ms(estimate.value)} [{low}, {high}]"


def load_figure(
    points: Sequence[LoadPoint],
    *,
    title: str = "Response under load",
    target_ms: float | None = None,
) -> str:
    """Responses over the rate as an SVG file: p50 and p99 with their intervals.

    Dashed is what p99 would be if every call took the mean time of service, where arrivals are
    Poisson and queries are served one by one. Rates that were not sustained are marked at the top.
    """
    if not points:
        raise ValueError("a figure needs at least one point; there is none")
    frame = _Frame(points, target_ms)
    body = [
        *frame.axes(),
        *_ideal(points, frame),
        *_target(target_ms, frame),
        *(line for name in COLOURS for line in _series(points, name, frame)),
        *_unstable(points, frame),
        *_legend(points),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" font-family="sans-serif" font-size="13">'
    )
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(_described(points))}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(LEFT, 24, title, size=16, anchor="start"),
            *body,
            "</svg>\n",
        ]
    )


def _described(points: Sequence[LoadPoint]) -> str:
    """The figure in words, for those who do not see it."""
    said = [
        f"{point.rate_per_s:.4g} per second: "
        + ("unstable" if point.unstable else f"p50 {_interval(point.p50)} ms")
        for point in points
    ]
    return "; ".join(said)


class _Frame:
    """Where rates and times lie on the page; times on a logarithmic scale."""

    def __init__(self, points: Sequence[LoadPoint], target_ms: float | None) -> None:
        found = [e for point in points for e in (point.p50, point.p99) if e is not None]
        shown = [e.value for e in found] + [point.service_ms for point in points]
        shown += [target_ms] if target_ms else []
        ends = [end for e in found for end in (e.low, e.high) if end]
        # Few processes have intervals over powers of ten: those reach beyond the edge.
        self._low = math.log10(max(min([*shown, *ends]), min(shown) / MOST_BEYOND)) - 0.1
        self._high = math.log10(min(max([*shown, *ends]), max(shown) * MOST_BEYOND)) + 0.1
        self._most = 1.05 * max(point.rate_per_s for point in points)

    def x(self, rate_per_s: float) -> float:
        """Pixels from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * rate_per_s / self._most

    def y(self, time_ms: float) -> float:
        """Pixels from the top; times off the scale lie on its edge."""
        share = (math.log10(time_ms) - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0.0), 1.0)

    def axes(self) -> Iterator[str]:
        """Both axes with ticks at round numbers, and what they mean."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for rate in round_steps(self._most):
            yield _line(self.x(rate), TOP, self.x(rate), bottom, "#e4e4e4")
            yield _text(self.x(rate), bottom + 18, f"{rate:.4g}")
        for time in round_decades(self._low, self._high):
            yield _line(LEFT, self.y(time), right, self.y(time), "#e4e4e4")
            yield _text(LEFT - 8, self.y(time) + 4, f"{time:.4g}", anchor="end")
        yield _line(LEFT, bottom, right, bottom, "#333333")
        yield _line(LEFT, TOP, LEFT, bottom, "#333333")
        yield _text((LEFT + right) / 2, HEIGHT - 20, "queries offered a second")
        yield _text(LEFT, TOP - 10, "response, ms (logarithmic)", anchor="start")


def round_steps(most: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 up to `most`: at most ten of them."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(s * power for s in (0.1, 0.2, 0.5, 1.0, 2.0) if most / (s * power) < 10)
    return [number * step for number in range(math.floor(most / step) + 1)]


def round_decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two of these, which are given as logarithms."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    return [step for step in steps if low <= math.log10(step) <= high]


def _series(points: Sequence[LoadPoint], name: str, frame: _Frame) -> Iterator[str]:
    """One quantile: a line through its points, each with its interval."""
    colour = COLOURS[name]
    known = [(point, getattr(point, name)) for point in points if getattr(point, name)]
    places = [(frame.x(point.rate_per_s), frame.y(found.value)) for point, found in known]
    yield _path(places, colour)
    for (x, y), (_, found) in zip(places, known, strict=True):
        if found.low is not None and found.high is not None:
            beside = x + SHIFTS[name]
            yield _line(beside, frame.y(found.low), beside, frame.y(found.high), colour, width=1.5)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def _ideal(points: Sequence[LoadPoint], frame: _Frame) -> Iterator[str]:
    """p99 of a queue whose calls all take the same time, that of all points together."""
    if not _has_ideal(points):
        return
    service_ms = statistics.median(point.service_ms for point in points)
    places = []
    for point in points:
        busy = point.rate_per_s * service_ms / 1000 / point.servers
        if busy < MOST_IDEAL_RATIO:
            ratio = response_quantile(busy, 0.99, point.servers)
            places.append((frame.x(point.rate_per_s), frame.y(ratio * service_ms)))
    yield _path(places, COLOURS["p99"], dashes="5 5")


def _has_ideal(points: Sequence[LoadPoint]) -> bool:
    return all(point.arrivals == "poisson" and point.max_batch == 1 for point in points)


def _target(target_ms: float | None, frame: _Frame) -> Iterator[str]:
    if target_ms is not None:
        y = frame.y(target_ms)
        yield _line(LEFT, y, WIDTH - RIGHT, y, "#2c7a3f", dashes="2 4")
        yield _text(LEFT + 6, y - 5, f"target {format_ms(target_ms)} ms", anchor="start")


def _unstable(points: Sequence[LoadPoint], frame: _Frame) -> Iterator[str]:
    for point in points:
        if point.unstable:
            x = frame.x(point.rate_per_s)
            yield _line(x, TOP, x, HEIGHT - BOTTOM, UNSTABLE_COLOUR, dashes="1 4")
            yield _text(x, TOP + 10, "×", size=18)


def _legend(points: Sequence[LoadPoint]) -> Iterator[str]:
    """What each mark means, in one row at the top right."""
    entries: Mapping[str, bool] = {
        "p50": True,
        "p99": True,
        "p99 ideal (M/D/c)": _has_ideal(points),
        "× unstable": any(point.unstable for point in points),
    }
    x = float(WIDTH - RIGHT)
    for name in reversed([name for name, wanted in entries.items() if wanted]):
        yield _text(x, TOP - 10, name, anchor="end", fill=_colour_of(name))
        x -= 14 + 7.0 * len(name)
        if name.startswith("p"):
            dashes = "5 5" if " " in name else ""
            yield _line(x - 16, TOP - 14, x + 6, TOP - 14, _colour_of(name), dashes=dashes)
            x -= 30


def _colour_of(name: str) -> str:
    return COLOURS.get(name.split()[0], UNSTABLE_COLOUR)


def _path(places: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> str:
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1, dashes: str = ""
) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "middle",
    size: int = 13,
    fill: str = "#222222",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{fill}">{escape(words)}</text>'
    )
