"""The plots of a report: latency, throughput, cost, build time and scaling over sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text
from benchorch.pages.markup import shortened
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.scatter import Mark, scatter_chart
from benchorch.results.report.tables import serving_case
from benchorch.units import format_seconds

SIZES = {"batch_size": "batch size", "seq_len": "sequence length"}
"""Symbols of a workload over which there are plots wherever they were swept."""
_LONGEST = 90

Quantity = Callable[[ReportRow], Estimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot.

    Attributes:
        sentence: how to read it, or why there is none.
        svg: empty where there is nothing to draw.
        series: the names of those in it.
    """

    title: str
    sentence: str
    svg: str = ""
    series: tuple[str, ...] = ()


def series_of(row: ReportRow) -> str:
    """The name of what has one color in all plots: a conversion on a hardware."""
    return f"{row.labels.get('conversion', '')} on {row.hardware}"


def plots(rows: Sequence[ReportRow]) -> list[Plot]:
    """All plots in the order of the page."""
    names = list(dict.fromkeys(map(series_of, rows)))
    return [
        _plot(
            "Latency against throughput",
            "Best is the top left: short calls and many items. Lines are 95 % intervals.",
            "No trial has both a latency and a throughput.",
            ("median latency, ms", "items a second"),
            list(_marks(rows, lambda row: row.latency, lambda row: row.throughput)),
            names,
        ),
        _cost(rows, names),
        _plot(
            "Build time against gain",
            "What a conversion takes to build, and how many times as fast as its baseline it is: "
            "above 1 is faster.",
            "No trial has both a build and a speed-up over a baseline.",
            ("build, seconds", "speed-up over the baseline"),
            list(_marks(rows, _build_s, _gain)),
            names,
        ),
        *(plot for symbol in SIZES for plot in _scaling(rows, names, symbol)),
    ]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points than which no other is better in both, where less is better.

    From left to right; of equal ones, one. At n = 0 nothing, at n = 1 the point itself; O(n log n).
    """
    front: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front


def _build_s(row: ReportRow) -> Estimate | None:
    return row.metrics.get("original_build_s/total")


def _gain(row: ReportRow) -> Estimate | None:
    return None if row.speedup is None else row.speedup.ratio


def _cost(rows: Sequence[ReportRow], names: Sequence[str]) -> Plot:
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.usd_per_million is not None and row.latency and not row.disqualified:
            point = row.latency.value, row.usd_per_million.value
            groups.setdefault(serving_case(row.stored.trial), []).append(point)
    unpriced = sorted({row.hardware or "this machine" for row in rows if row.price is None})
    unknown = f" No price is known for {', '.join(unpriced)}." if unpriced else ""
    return _plot(
        "Cost against latency",
        "Best is the bottom left. Ringed, and joined by dashes: the Pareto front, where nothing is "
        "both cheaper and faster for the same work. Every machine is taken to be busy all the "
        f"time.{unknown}",
        f"There is nothing to draw:{unknown or ' no trial has both a price and a throughput.'}",
        ("median latency, ms", "USD a million items"),
        list(_marks(rows, lambda row: row.latency, lambda row: row.usd_per_million)),
        names,
        [pareto_front(points) for points in groups.values()],
    )


def _scaling(rows: Sequence[ReportRow], names: Sequence[str], symbol: str) -> Iterator[Plot]:
    """Latency and throughput over a size; nothing where no series has two of it."""
    groups: dict[str, list[ReportRow]] = {}
    for row in rows:
        if row.size(symbol) is not None and row.ran:
            groups.setdefault(_all_else(row, symbol), []).append(row)
    quantities: Mapping[str, tuple[str, Quantity]] = {
        "Latency": ("median latency, ms", lambda row: row.latency),
        "Throughput": ("items a second", lambda row: row.throughput),
    }
    for name, (unit, quantity) in quantities.items():
        marks = [
            mark
            for key, found in groups.items()
            if len({row.size(symbol) for row in found}) > 1
            for mark in _marks(found, lambda row: _exactly(row.size(symbol)), quantity, group=key)
        ]
        if marks:
            yield _plot(
                f"{name} over {SIZES[symbol]}",
                "Joined: the same model, conversion and hardware, all else equal.",
                "",
                (SIZES[symbol], unit),
                marks,
                names,
                x_ticks=sorted({mark.x for mark in marks}),
            )


def _all_else(row: ReportRow, symbol: str) -> str:
    """Everything but one size: rows with an equal key may be joined by a line."""
    parts = [row.run.plan_id, *(row.labels.get(name, "") for name in ("model", "scenario"))]
    parts.append(series_of(row))
    for name in ("workload", "axes"):
        words = row.labels.get(name, "").split()
        parts += [word for word in words if word.partition("=")[0].rpartition(".")[2] != symbol]
    return " ".join(parts)


def _exactly(value: int | None) -> Estimate | None:
    if value is None:
        return None
    return Estimate(
        value=float(value), low=None, high=None, level_ratio=1, n=1, unit="", method="stated"
    )


def _marks(rows: Sequence[ReportRow], x: Quantity, y: Quantity, group: str = "") -> Iterator[Mark]:
    """A mark for each trial that has both quantities above 0, as logarithmic axes need it."""
    for row in rows:
        across, up = x(row), y(row)
        if across and up and across.value > 0 and up.value > 0:
            yield Mark(
                x=across.value,
                y=up.value,
                x_ends=_ends(across),
                y_ends=_ends(up),
                series=series_of(row),
                tip=_tip(row),
                hollow=row.disqualified,
                group=group,
            )


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    if estimate.low is None or estimate.high is None:
        return None
    return estimate.low, estimate.high


def _tip(row: ReportRow) -> str:
    """Name, place and every figure that a plot may show."""
    build, cost, gain = _build_s(row), row.usd_per_million, _gain(row)
    lines = [
        " ".join(filter(None, (row.labels.get("model"), row.labels.get("workload")))),
        f"{series_of(row)}{' (not the same model)' if row.disqualified else ''}",
        "" if row.latency is None else f"median latency {interval_text(row.latency)} ms",
        "" if row.throughput is None else f"{interval_text(row.throughput)} items/s",
        "" if cost is None else f"{interval_text(cost)} USD a million items",
        "" if build is None else f"build {format_seconds(build.value)}",
        "" if gain is None else f"{interval_text(gain)} times its baseline",
        f"plan {row.run.plan_id}",
    ]
    return "\n".join(shortened(line, _LONGEST) for line in lines if line)


def _plot(
    title: str,
    sentence: str,
    nothing: str,
    labels: tuple[str, str],
    marks: Sequence[Mark],
    names: Sequence[str],
    fronts: Sequence[Sequence[tuple[float, float]]] = (),
    x_ticks: Sequence[float] = (),
) -> Plot:
    if not marks:
        return Plot(title=title, sentence=nothing)
    shown = {mark.series for mark in marks}
    hollow = " Hollow: no longer the same model." if any(m.hollow for m in marks) else ""
    return Plot(
        title=title,
        sentence=f"{sentence}{hollow}",
        svg=scatter_chart(title, labels, marks, names, fronts, x_ticks),
        series=tuple(name for name in names if name in shown),
    )
