"""The chart of one history: a point a session, the levels, and where they shift."""

from collections.abc import Iterator, Mapping, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text
from benchorch.pages.chart_script import Spec
from benchorch.results.history.series import MetricHistory, Point
from benchorch.results.report.bars import COLORS
from benchorch.results.report.chart import PageChart, at, axis, ends, interval, layer, tip

_HEIGHT_PX = 190
_CHANGES_TOLD = 6
_TEXT_PX = 14
_RULE: Spec = {"type": "rule", "strokeWidth": 1.5}
_TEXT: Spec = {"type": "text", "baseline": "top", "fontWeight": 600}
_TOP, _BOTTOM = {"value": 0}, {"value": _HEIGHT_PX}
_WORSE, _BETTER, _NEITHER = COLORS["slower"], COLORS["faster"], COLORS["equivalent"]


def history_chart(series: MetricHistory) -> PageChart:
    """Sessions from left to right at equal distances: nights without a run are no flat line."""
    known = [point.estimate for point in series.points if point.estimate is not None]
    if not known:
        return PageChart(title=series.name, sentence="No session has this figure.")
    reached = [end for one in known for end in (interval(one) or (one.value,))]
    y = axis("value", _title(series.metric, known[0].unit), reached)
    x = _dates(series)
    layers = [
        *_levels(series, x, y),
        *_breaks(series, x),
        *_shifts(series, x),
        *_sessions(series, x, y),
    ]
    return PageChart(
        title=series.name,
        sentence=f"{series.metric} on {series.machine}.",
        spec={"height": _HEIGHT_PX, "layer": layers},
    )


def _title(metric: str, unit: str) -> str:
    """``latency p50, ms``: what the vertical axis shows."""
    name, _, statistic = metric.partition("/")
    quantity = name.removesuffix(f"_{unit.replace('/', '_per_')}").replace("_", " ")
    return f"{quantity} {statistic}".rstrip() + f", {unit}"


def _with(values: Sequence[Mapping[str, object]], drawn: Spec) -> Spec:
    return {"data": {"values": values}, **drawn}


def _levels(series: MetricHistory, x: Spec, y: Spec) -> Iterator[Spec]:
    """A line along each level."""
    values = [
        {"first": one.first - 0.3, "last": one.last + 0.3, "value": one.value}
        for one in series.levels
    ]
    yield _with(
        values, layer({**_RULE, "opacity": 0.55}, x=at(x, "first"), x2={"field": "last"}, y=y)
    )


def _breaks(series: MetricHistory, x: Spec) -> Iterator[Spec]:
    """A dotted line where what is measured was defined anew."""
    values = [{"x": i - 0.5} for i, one in enumerate(series.points) if one.redefined]
    mark = {**_RULE, "strokeDash": [2, 3], "opacity": 0.5}
    yield _with(values, layer(mark, x=x, y=_TOP, y2=_BOTTOM))


def _shifts(series: MetricHistory, x: Spec) -> Iterator[Spec]:
    """A dashed line at each shift, and its figure towards the middle, in two rows by turns."""
    for number, level in enumerate(series.shifts):
        assert level.shift is not None
        worse = series.is_worse(level)
        color = {"value": _NEITHER if worse is None else _WORSE if worse else _BETTER}
        value = {"x": level.first - 0.5, "text": percent(level.shift.ratio)}
        early = level.first < len(series.points) / 2
        text = (
            {**_TEXT, "align": "left", "dx": 4} if early else {**_TEXT, "align": "right", "dx": -4}
        )
        y = {"value": 2 + _TEXT_PX * (number % 2)}
        rule = layer({**_RULE, "strokeDash": [5, 3]}, x=x, color=color, y=_TOP, y2=_BOTTOM)
        name = layer(text, x=x, y=y, text={"field": "text"})
        yield {"data": {"values": [value]}, "layer": [rule, name]}


def _sessions(series: MetricHistory, x: Spec, y: Spec) -> Iterator[Spec]:
    """A point with its whisker for each session."""
    whisker = {**_RULE, "strokeWidth": 1, "opacity": 0.7}
    point: Spec = {"type": "point", "filled": True, "size": 42, "color": _NEITHER}
    marks = [
        layer(whisker, "low", x=x, y=at(y, "low"), y2={"field": "high"}),
        layer(point, x=x, y=y, tooltip={"field": "tip"}),
    ]
    yield {"data": {"values": list(_points(series))}, "layer": marks}


def _dates(series: MetricHistory) -> Spec:
    """The horizontal axis: dates of sessions, or times where two are of one day."""
    started = [point.started_at[:16].replace("T", " ") for point in series.points]
    days = {one[:10] for one in started}
    of_one_day, several_a_day = len(days) == 1, len(days) < len(started)
    begin, end = (0, 10) if not several_a_day else (11, 16) if of_one_day else (5, 16)
    dates = [one[begin:end] for one in started]
    last = len(dates) - 1
    step = max(1, -(-len(dates) // 6))
    ticks = sorted({*range(0, len(dates), step)})
    listed = ", ".join(f"'{date}'" for date in dates)
    return {
        "field": "x",
        "type": "quantitative",
        "axis": {
            "title": f"time on {started[0][:10]}" if of_one_day and several_a_day else None,
            "values": ticks,
            "grid": False,
            "labelExpr": f"[{listed}][datum.value]",
        },
        "scale": {"domain": [-0.5, last + 0.5], "nice": False, "zero": False},
    }


def _points(series: MetricHistory) -> Iterator[Spec]:
    for place, point in enumerate(series.points):
        if point.estimate is None:
            continue
        yield {
            "x": place,
            "value": point.estimate.value,
            **ends(point.estimate),
            "tip": _tip(point, point.estimate),
        }


def _tip(point: Point, estimate: Estimate) -> str:
    commit = f"commit {point.commit}" if point.commit else ""
    more = len(point.changed) - _CHANGES_TOLD
    return tip(
        f"{point.started_at[:16].replace('T', ' ')} {commit}",
        f"{interval_text(estimate)} {estimate.unit}",
        f"run {point.plan_id}",
        *point.changed[:_CHANGES_TOLD],
        f"and {more} more" if more > 0 else "",
    )


def percent(ratio: Estimate) -> str:
    """``+4.2 %``: a ratio as a change."""
    return f"{100 * (ratio.value - 1):+.3g} %"
