"""Charts of one quantity against another: throughput, cost, build time, sizes, load."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import axes_of, interval_text, is_unknown
from benchorch.pages.chart_script import Spec
from benchorch.results.metrics.load_curve import LoadPoint
from benchorch.results.report.chart import (
    PageChart,
    at,
    axis,
    ends,
    from_zero,
    interval,
    layer,
    tip,
)
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.series_figures import AllSeries, SeriesFigures
from benchorch.units import format_seconds

SIZES = {
    "batch_size": "batch size",
    "seq_len": "sequence length",
    "prompt_tokens": "prompt tokens",
    "new_tokens": "new tokens",
}
"""Symbols of a workload over which there are charts wherever they were swept."""

LATENCY, THROUGHPUT = "median latency, ms", "items a second"
_HEIGHT_PX = 280
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")

Quantity = Callable[[ReportRow], Estimate | None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """The point of one trial, both values above 0.

    Attributes:
        group: points of one group are joined from left to right; empty joins nothing.
    """

    x: Estimate
    y: Estimate
    row: ReportRow
    group: str = ""


def series_of(row: ReportRow) -> str:
    """The name of what has one color in all charts: a conversion on a hardware."""
    return f"{row.labels.get('conversion', '')} on {row.hardware}"


def tradeoffs(rows: Sequence[ReportRow], series: AllSeries) -> list[PageChart]:
    """Every chart that these rows allow; a panel for each model and piece of work."""
    works = _grouped(rows, work_of)
    several = len(works) > 1
    models = _grouped(rows, _model_of)
    return [
        *(one for name, own in works.items() for one in _work(own, f": {name}" if several else "")),
        *(
            chart
            for name, own in models.items()
            for symbol in SIZES
            for chart in _scaling(own, symbol, f": {name}" if len(models) > 1 else "")
        ),
        *(chart for name, own in models.items() for chart in _build(own, name, len(models) > 1)),
        *(chart for row in rows for chart in _load(row, series.get(row.stored.trial.trial_id))),
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


def work_of(row: ReportRow) -> str:
    """What is served, however it is batched and wherever: costs and times of it can be ranked."""
    compared = ("batch_size=", "conversion.", "hardware.", "workload.batch_size=")
    sizes = [*row.labels.get("workload", "").split(), *axes_of(row.labels)]
    others = [size for size in sizes if not size.startswith(compared)]
    return " ".join([_model_of(row), *others])


def _model_of(row: ReportRow) -> str:
    """A model under one scenario, of one run."""
    scenario = row.labels.get("scenario", "")
    names = (row.labels.get("model", ""), "" if scenario == "single_stream" else scenario)
    return " ".join(filter(None, (*names, f"({row.run.plan_id})")))


def _grouped(
    rows: Sequence[ReportRow], key: Callable[[ReportRow], str]
) -> Mapping[str, list[ReportRow]]:
    found: dict[str, list[ReportRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _work(rows: Sequence[ReportRow], name: str) -> Iterator[PageChart]:
    """Latency against throughput where they are not each other's inverse, and against cost."""
    dots = list(_dots(rows, attrgetter("throughput"), attrgetter("latency")))
    if len({(dot.row.size("batch_size"), dot.row.hardware) for dot in dots}) > 1:
        front = pareto_front([(-dot.x.value, dot.y.value) for dot in dots if _sound(dot)])
        yield PageChart(
            title=f"Latency against throughput{name}",
            sentence=_with_front("Best is the bottom right.", len(front)),
            spec=_scatter(dots, (THROUGHPUT, LATENCY), [(-x, y) for x, y in front]),
        )
    dots = list(_dots(rows, attrgetter("latency"), attrgetter("usd_per_million")))
    if dots:
        front = pareto_front([(dot.x.value, dot.y.value) for dot in dots if _sound(dot)])
        start = "Best is the bottom left. Every machine is taken to be busy all the time."
        yield PageChart(
            title=f"Cost against latency{name}",
            sentence=_with_front(start, len(front)),
            spec=_scatter(dots, (LATENCY, f"USD per million {dots[0].row.priced_unit}"), front),
        )


def _with_front(sentence: str, points: int) -> str:
    """With what the dashes are; one trial that is best in both makes no front."""
    if points < 2:
        return sentence
    return f"{sentence} Dashed: the Pareto front, where nothing is better in both."


def _sound(dot: _Dot) -> bool:
    return not dot.row.disqualified


def _build(rows: Sequence[ReportRow], model: str, several: bool) -> Iterator[PageChart]:
    dots = list(_dots(rows, _build_s, _gain))
    if len(dots) > 1:  # one alone is traded off against nothing
        yield PageChart(
            title=f"Gain against build time{f': {model}' if several else ''}",
            sentence="Speed relative to the baseline, and what it takes "
            "to build: best is the top left.",
            spec=_scatter(dots, ("build, seconds", "times as fast as the baseline")),
        )


def _scaling(rows: Sequence[ReportRow], symbol: str, name: str) -> Iterator[PageChart]:
    """What grows or falls with a size; nothing where no series has two of it."""
    sized = [row for row in rows if row.ran and row.size(symbol) is not None]
    groups = _grouped(sized, lambda row: _all_else(row, symbol))
    swept = {key: own for key, own in groups.items() if len({row.size(symbol) for row in own}) > 1}
    for what, unit, quantity in _SCALED:
        dots = [
            dot
            for key, own in swept.items()
            for dot in _dots(own, lambda row: _exactly(row.size(symbol)), quantity, key)
        ]
        if dots:
            yield PageChart(
                title=f"{what} over {SIZES[symbol]}{name}",
                sentence="Joined: the same conversion and hardware, all else equal.",
                spec=_scatter(dots, (SIZES[symbol], unit), ticks=[*{dot.x.value for dot in dots}]),
            )


def _all_else(row: ReportRow, symbol: str) -> str:
    """Everything but one size: rows with an equal key may be joined by a line."""
    words = [*row.labels.get("workload", "").split(), *axes_of(row.labels)]
    kept = [word for word in words if word.partition("=")[0].rpartition(".")[2] != symbol]
    return " ".join([_model_of(row), series_of(row), *kept])


def _metric(name: str) -> Quantity:
    return lambda row: row.metrics.get(name)


_SCALED: tuple[tuple[str, str, Quantity], ...] = (
    ("Latency", LATENCY, attrgetter("latency")),
    ("Throughput", THROUGHPUT, attrgetter("throughput")),
    ("Prefill", "prompt tokens a second", _metric("prefill_tokens_per_s/mean")),
    ("Decoding", "generated tokens a second", _metric("decode_tokens_per_s/mean")),
)
_build_s = _metric("original_build_s/total")


def _gain(row: ReportRow) -> Estimate | None:
    return None if row.speedup is None or row.disqualified else row.speedup.ratio


def _exactly(value: int | None) -> Estimate | None:
    if value is None:
        return None
    return Estimate(value=float(value), level_ratio=1, n=1, unit="", method="stated")


def _dots(rows: Sequence[ReportRow], x: Quantity, y: Quantity, group: str = "") -> Iterator[_Dot]:
    """Of each trial that has both quantities above 0, as logarithmic axes need it, and known."""
    for row in rows:
        across, up = x(row), y(row)
        if across and up and all(one.value > 0 and not is_unknown(one) for one in (across, up)):
            yield _Dot(x=across, y=up, row=row, group=group)


def _scatter(
    dots: Sequence[_Dot],
    titles: tuple[str, str],
    front: Sequence[tuple[float, float]] = (),
    ticks: Sequence[float] = (),
) -> Spec:
    """Points with whiskers, those of one group joined; a front of two points or more dashed."""
    names = list(dict.fromkeys(series_of(dot.row) for dot in dots))
    x = axis("x", titles[0], list(_places(dots, "x")), ticks)
    y = axis("y", titles[1], list(_places(dots, "y")))
    color = {"field": "series", "type": "nominal", "sort": names}
    shape = {**color, "scale": {"domain": names, "range": _cycled(names)}}
    opacity = {"condition": {"test": "datum.wrong", "value": 0.25}, "value": 0.9}
    point: Spec = {"type": "point", "filled": True, "size": 90}
    thin: Spec = {"type": "rule", "strokeWidth": 1.2, "opacity": 0.6}
    tip = {"field": "tip"}
    layers = [
        layer(thin, "x_low", x=at(x, "x_low"), x2={"field": "x_high"}, y=y, color=color),
        layer(thin, "y_low", x=x, y=at(y, "y_low"), y2={"field": "y_high"}, color=color),
        layer(point, x=x, y=y, color=color, shape=shape, fillOpacity=opacity, tooltip=tip),
    ]
    if any(dot.group for dot in dots):
        join: Spec = {"type": "line", "strokeWidth": 1.5, "opacity": 0.7}
        layers.insert(0, layer(join, "group", x=x, y=y, color=color, detail={"field": "group"}))
    if len(front) > 1:
        steps = {"values": [{"x": at, "y": up} for at, up in front]}
        dashed: Spec = {"type": "line", "interpolate": "step-after", "strokeDash": [5, 4]}
        layers.append({**layer({**dashed, "color": "#7d8a82"}, x=x, y=y), "data": steps})
    return {
        "data": {"values": [_dot_values(dot) for dot in dots]},
        "height": _HEIGHT_PX,
        "layer": layers,
    }


def _cycled(names: Sequence[str]) -> list[str]:
    return [_SHAPES[number % len(_SHAPES)] for number in range(len(names))]


def _places(dots: Sequence[_Dot], of: str) -> Iterator[float]:
    """Values and ends of intervals along one axis."""
    for estimate in (getattr(dot, of) for dot in dots):
        yield estimate.value
        yield from (end for end in interval(estimate) or () if end > 0)


def _dot_values(dot: _Dot) -> Spec:
    return {
        "x": dot.x.value,
        "y": dot.y.value,
        **ends(dot.x, "x_"),
        **ends(dot.y, "y_"),
        "series": series_of(dot.row),
        "group": dot.group or None,
        "wrong": dot.row.disqualified,
        "tip": _tip(dot.row),
    }


def _tip(row: ReportRow) -> str:
    """Name, place and every figure that a chart may show."""
    build, cost, gain = _build_s(row), row.usd_per_million, _gain(row)
    return tip(
        " ".join(filter(None, (row.labels.get("model"), row.labels.get("workload")))),
        f"{series_of(row)}{' (not the same model)' if row.disqualified else ''}",
        "" if row.latency is None else f"median latency {interval_text(row.latency)} ms",
        "" if row.throughput is None else f"{interval_text(row.throughput)} items/s",
        "" if cost is None else f"{interval_text(cost)} USD per million {row.priced_unit}",
        "" if build is None else f"build {format_seconds(build.value)}",
        "" if gain is None else f"{interval_text(gain)} times its baseline",
    )


def _load(row: ReportRow, own: SeriesFigures | None) -> Iterator[PageChart]:
    """Responses over the offered rate."""
    if own is None or not own.load:
        return
    values = list(_responses(own.load))
    if not values:
        return
    lost: list[Spec] = [{"rate": point.rate_per_s} for point in own.load if point.unstable]
    yield PageChart(
        title=f"Response under load: {row.name}",
        sentence="Median and 99th percentile of responses at each offered rate."
        + (" Red: rates at which the queue grows without end." if lost else "")
        + (f" Dashed across: the target of {own.target_ms:g} ms." if own.target_ms else ""),
        spec=_load_spec(values, lost, own.target_ms),
    )


def _responses(points: Sequence[LoadPoint]) -> Iterator[Spec]:
    """Both quantiles of each sustained rate."""
    for point in points:
        for name, found in (("p50", point.p50), ("p99", point.p99)):
            if found is not None:
                at = f"at {point.rate_per_s:.4g} queries a second"
                fields = {"quantile": name, "tip": f"{name} {interval_text(found)} ms {at}"}
                place = {"rate": point.rate_per_s, "ms": found.value}
                yield {**place, **ends(found), **fields}


def _load_spec(values: Sequence[Spec], lost: Sequence[Spec], target_ms: float | None) -> Spec:
    places = [one[key] for one in values for key in ("ms", "low", "high")]
    shown = [place for place in places if isinstance(place, float)]
    rates = [float(str(one["rate"])) for one in (*values, *lost)]
    x = from_zero("rate", "queries offered a second", max(rates))
    y = axis("ms", "response, ms", [*shown, *([target_ms] if target_ms else [])])
    color = {"field": "quantile", "type": "nominal"}
    clear: Spec = {"type": "point", "size": 200, "opacity": 0}
    dashes: Spec = {"type": "rule", "strokeDash": [2, 4]}
    layers = [
        layer({"type": "line", "point": {"size": 60}}, x=x, y=y, color=color),
        layer({"type": "rule"}, "low", x=x, y=at(y, "low"), y2={"field": "high"}, color=color),
        layer(clear, x=x, y=y, tooltip={"field": "tip"}),
    ]
    if lost:
        red = layer(dashes, x=x, color={"value": "#cc4b43"})
        layers.append({**red, "data": {"values": [*lost]}})
    if target_ms:
        layers.append(layer(dashes, y={"datum": target_ms}))
    return {"data": {"values": [*values]}, "height": _HEIGHT_PX, "layer": layers}
