"""The chart of one history: a point a session, the levels, and where they shift."""

from __future__ import annotations

from collections.abc import Iterator

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text
from benchorch.pages.chart_script import Spec
from benchorch.results.history.series import Level, Point, Series
from benchorch.results.report.bars import COLORS
from benchorch.results.report.chart import Chart, at, axis, interval, layer, tip

_HEIGHT_PX = 190
_CHANGES_TOLD = 6
_WORSE, _BETTER, _NEITHER = COLORS["slower"], COLORS["faster"], COLORS["equivalent"]


def history_chart(series: Series) -> Chart:
    """Sessions from left to right at equal distances: nights without a run are no flat line."""
    known = [point.estimate for point in series.points if point.estimate is not None]
    if not known:
        return Chart(title=series.name, sentence="No session has this figure.")
    ends = [end for one in known for end in (interval(one) or (one.value,))]
    y = axis("value", f"{series.metric}, {known[0].unit}", ends)
    x = _sessions(series)
    points = list(_points(series))
    told = {"field": "tip"}
    levels = [{**_level(one), "value": one.value} for one in series.levels]
    shifts = [_shift(series, one) for one in series.shifts]
    breaks = [{"x": i - 0.5} for i, one in enumerate(series.points) if one.redefined]
    rule: Spec = {"type": "rule", "strokeWidth": 1.5}
    color = {"field": "color", "type": "nominal", "scale": None}
    inside = {"value": _HEIGHT_PX}
    sessions = [
        layer(
            {**rule, "strokeWidth": 1, "opacity": 0.7},
            "low",
            x=x,
            y=at(y, "low"),
            y2={"field": "high"},
        ),
        layer(
            {"type": "point", "filled": True, "size": 42, "color": _NEITHER}, x=x, y=y, tooltip=told
        ),
    ]
    layers: list[Spec] = [
        _with(
            levels, layer({**rule, "opacity": 0.55}, x=at(x, "first"), x2={"field": "last"}, y=y)
        ),
        _with(
            breaks,
            layer({**rule, "strokeDash": [2, 3], "opacity": 0.5}, x=x, y={"value": 0}, y2=inside),
        ),
        _with(
            shifts,
            layer({**rule, "strokeDash": [5, 3]}, x=x, y={"value": 0}, y2=inside, color=color),
        ),
        _with(shifts, layer(_LABEL, x=x, y={"value": 2}, text={"field": "text"}, color=color)),
        {"data": {"values": points}, "layer": sessions},
    ]
    return Chart(
        title=series.name,
        sentence=f"{series.metric} on {series.machine}.",
        spec={"height": _HEIGHT_PX, "layer": layers},
    )


_LABEL: Spec = {"type": "text", "align": "right", "baseline": "top", "dx": -4, "fontWeight": 600}


def _with(values: list[Spec], drawn: Spec) -> Spec:
    return {"data": {"values": values}, **drawn}


def _sessions(series: Series) -> Spec:
    """The horizontal axis: dates of sessions."""
    dates = [point.started_at[:10] for point in series.points]
    last = len(dates) - 1
    step = max(1, -(-len(dates) // 6))
    ticks = sorted({*range(0, len(dates), step)})
    listed = ", ".join(f"'{date}'" for date in dates)
    return {
        "field": "x",
        "type": "quantitative",
        "axis": {
            "title": None,
            "values": ticks,
            "grid": False,
            "labelExpr": f"[{listed}][datum.value]",
        },
        "scale": {"domain": [-0.5, last + 0.5], "nice": False, "zero": False},
    }


def _points(series: Series) -> Iterator[Spec]:
    for place, point in enumerate(series.points):
        if point.estimate is None:
            continue
        ends = interval(point.estimate)
        yield {
            "x": place,
            "value": point.estimate.value,
            "low": ends[0] if ends else None,
            "high": ends[1] if ends else None,
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


def _level(level: Level) -> Spec:
    return {"first": level.first - 0.3, "last": level.last + 0.3}


def _shift(series: Series, level: Level) -> Spec:
    worse = series.is_worse(level)
    color = _NEITHER if worse is None else _WORSE if worse else _BETTER
    assert level.shift is not None
    return {"x": level.first - 0.5, "text": percent(level.shift.ratio), "color": color}


def percent(ratio: Estimate) -> str:
    """``+4.2 %``: a ratio as a change."""
    return f"{100 * (ratio.value - 1):+.3g} %"
