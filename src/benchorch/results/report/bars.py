"""Bars of one serving case by conversion: latency, speed-up, and the calls of every process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.domain.trial import Trial
from benchorch.formatting import bounded, interval_text, is_unknown, varying_labels
from benchorch.pages.chart_script import Spec
from benchorch.results.compare.metric_kinds import TARGET_RATE
from benchorch.results.report.chart import (
    PageChart,
    at,
    axis,
    ends,
    from_zero,
    head_texts,
    interval,
    layer,
    rows_px,
)
from benchorch.results.report.rows import LATENCIES, ReportRow, first
from benchorch.results.report.series_figures import AllSeries, Quantiles
from benchorch.results.report.tables import has_baseline
from benchorch.stats.pairs import SEQUENTIAL

COLORS = {
    "faster": "#2e9e5b",
    "baseline": "#7d8a82",
    "equivalent": "#3b82c4",
    "inconclusive": "#b8962e",
    "slower": "#c8642f",
    "not compared": "#7565cc",
    "not the same model": "#cc4b43",
}
"""Of each verdict; dark and light enough for both themes."""

_RATES = {
    (
        "Rate within the target",
        "Highest rate of queries at which the target holds; longer is better.",
        "queries a second",
    ): (TARGET_RATE,),
}
_TIMES = {
    (
        "Latency",
        "Median time of a call; shorter is better. Whiskers are 95 % intervals; what is not known "
        "to a factor of two is not drawn.",
        "median latency, ms",
    ): LATENCIES,
    (
        "Time to first token",
        "Median over calls (TTFT); shorter is better.",
        "median time to first token, ms",
    ): ("ttft_ms/p50",),
    (
        "Time per output token",
        "Of each token after the first, median over calls (TPOT); shorter is better.",
        "median time per output token, ms",
    ): ("tpot_ms/p50",),
}
"""Title, sentence and axis of each chart, and the metrics of which it has the first."""

_HEAD_PX, _BAR_PX, _ROW_PX = 12, 14, 46
_PROCESS_PX = 9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """A row: its name, its estimate or None, the text of the figure, and its verdict."""

    name: str
    estimate: Estimate | None
    figure: str
    kind: str


def case_charts(rows: Sequence[ReportRow], series: AllSeries) -> list[PageChart]:
    """The charts of the rows of one serving case, in the order of the table."""
    names = _names([row.stored.trial for row in rows])
    return [*_figures(rows, names), *_speedup(rows, names), *_processes(rows, names, series)]


def _names(trials: Sequence[Trial]) -> Mapping[str, str]:
    """A name of each trial that may be cut at its end: the conversion comes first."""
    varying = varying_labels([trial.labels for trial in trials])
    told = [one for one in varying if one != "hardware" or "hardware_kind" not in varying]
    return {
        trial.trial_id: bounded(
            " ".join([trial.labels["conversion"], *filter(None, map(trial.labels.get, told))])
        )
        for trial in trials
    }


def kind_of(row: ReportRow, compared: bool) -> str:
    """The verdict on a trial, in the words of `COLORS`; empty without figures.

    Args:
        compared: `has_baseline` of its table.
    """
    if not row.ran or row.result is None:
        return ""
    if row.disqualified:
        return "not the same model"
    if row.speedup is not None:
        return row.speedup.verdict
    return "baseline" if compared and row.result.baseline_id is None else "not compared"


def _figures(rows: Sequence[ReportRow], names: Mapping[str, str]) -> Iterator[PageChart]:
    """Median times of a call; where tokens are generated, of the first and of each later one.

    Where the highest rate was searched for, those rates: each time is that of its own rate.
    """
    searched = any(TARGET_RATE in row.metrics for row in rows)
    compared = has_baseline([row.stored.trial for row in rows])
    for (title, sentence, unit), metrics in (_RATES if searched else _TIMES).items():
        found = [(row, first(row.metrics, metrics)) for row in rows]
        bars = [
            _Bar(
                name=names[row.stored.trial.trial_id],
                estimate=each,
                figure=interval_text(each) if each else _without(row),
                kind=kind_of(row, compared),
            )
            for row, each in found
        ]
        if any(each for _, each in found):
            yield PageChart(title=title, sentence=sentence, spec=_bars(bars, unit))


def _without(row: ReportRow) -> str:
    """Why a row has no figure."""
    failure = None if row.result is None else row.result.failure
    return row.outcome if failure is None else f"failed: {failure.kind}"


def _speedup(rows: Sequence[ReportRow], names: Mapping[str, str]) -> Iterator[PageChart]:
    bars = [
        _Bar(
            name=names[row.stored.trial.trial_id],
            estimate=row.speedup.ratio,
            figure=interval_text(row.speedup.ratio, "{:.3g}".format),
            kind=row.speedup.verdict,
        )
        for row in rows
        if row.speedup is not None and row.speedup.design != SEQUENTIAL and not row.disqualified
    ]
    if bars:
        yield PageChart(
            title="Speed-up",
            sentence="Speed relative to the baseline, which is the line at 1; both were measured "
            "interleaved or back to back.",
            spec=_bars(bars, "times as fast as the baseline", line_at=1.0),
        )


def _bars(bars: Sequence[_Bar], title: str, line_at: float | None = None) -> Spec:
    """Bars from zero, whiskers over them, and a dashed line across each."""
    height = _ROW_PX * len(bars)
    values = [
        {**_bar_values(bar, _ROW_PX * index), "line": line_at} for index, bar in enumerate(bars)
    ]
    y, y2 = {"field": "top", **rows_px(height)}, {"field": "bottom"}
    reached = [end for bar in bars for end in interval(bar.estimate) or ()]
    known = [bar.estimate.value for bar in bars if bar.estimate and not is_unknown(bar.estimate)]
    x = from_zero("value", title, max([*reached, *known, line_at or 0.0]))
    kinds = [kind for kind in COLORS if any(bar.kind == kind for bar in bars)]
    colors = {"domain": kinds, "range": [COLORS[kind] for kind in kinds]}
    middle = {"field": "middle", **rows_px(height)}
    color = {"field": "kind", "type": "nominal", "scale": colors}
    bar: Spec = {"type": "rect", "cornerRadius": 2}
    rule: Spec = {"type": "rule", "strokeWidth": 1.5}
    cap = {"field": "cap_top", **rows_px(height)}, {"field": "cap_bottom"}
    tip = {"field": "tip"}
    layers = [
        layer(bar, "value", x=x, x2={"datum": 0}, y=y, y2=y2, color=color, tooltip=tip),
        layer(rule, "low", x=at(x, "low"), x2={"field": "high"}, y=middle),
        *(layer(rule, "low", x=at(x, end), y=cap[0], y2=cap[1]) for end in ("low", "high")),
        *head_texts({"field": "head", **rows_px(height)}, [_figure(bar) for bar in bars]),
    ]
    if line_at is not None:
        layers.append(layer({**rule, "strokeDash": [4, 3]}, x=at(x, "line"), y=y, y2=y2))
    legend = {"usermeta": {"legendPx": 125}}
    return {**legend, "data": {"values": values}, "height": height, "layer": layers}


def _figure(bar: _Bar) -> str:
    """The figure without what is in parentheses, which the table and the tip have."""
    return bar.figure.partition(" (")[0]


def _bar_values(bar: _Bar, top: float) -> Spec:
    middle = top + _ROW_PX - _BAR_PX / 2 - 8
    return {
        "name": bar.name,
        "figure": _figure(bar),
        "kind": bar.kind,
        "tip": f"{bar.name}: {bar.figure} {bar.kind}".rstrip(),
        "value": bar.estimate.value if bar.estimate and not is_unknown(bar.estimate) else None,
        **ends(bar.estimate),
        "head": top + _HEAD_PX,
        "middle": middle,
        "top": middle - _BAR_PX / 2,
        "bottom": middle + _BAR_PX / 2,
        "cap_top": middle - 4,
        "cap_bottom": middle + 4,
    }


def _processes(
    rows: Sequence[ReportRow], names: Mapping[str, str], series: AllSeries
) -> Iterator[PageChart]:
    found = {
        names[row.stored.trial.trial_id]: own.processes
        for row in rows
        if not row.disqualified and (own := series.get(row.stored.trial.trial_id)) and own.processes
    }
    if found:
        yield PageChart(
            title="Calls of every process",
            sentence="One line per process, in the order in which they ran. The thin line spans "
            "90 % of its calls, the thick line half of them; the tick is the median.",
            spec=_spreads(found),
        )


def _spreads(found: Mapping[str, Sequence[Quantiles]]) -> Spec:
    heads, counts, lines, calls, top = [], [], [], [], 0.0
    for name, processes in found.items():
        count = "1 process" if len(processes) == 1 else f"{len(processes)} processes"
        counts.append(count)
        heads.append({"name": name, "figure": count, "y": top + _HEAD_PX})
        top += 2 * _HEAD_PX
        for number, (p5, p25, p50, p75, p95) in enumerate(processes, start=1):
            own = {"p5": p5, "p25": p25, "p50": p50, "p75": p75, "p95": p95}
            figures = ", ".join(f"{key} {value:.4g}" for key, value in own.items())
            calls.append(own)
            lines.append({**own, "y": top, "tip": f"{name}, process {number}: {figures} ms"})
            top += _PROCESS_PX
        top += 10
    y = {"field": "y", **rows_px(top)}
    x = axis("p5", "time of a call, ms", [own[end] for own in calls for end in ("p5", "p95")])
    color, tip = {"value": COLORS["equivalent"]}, {"field": "tip"}
    thin: Spec = {"type": "rule", "strokeWidth": 1, "opacity": 0.6}
    thick = {**thin, "strokeWidth": 4}
    tick: Spec = {"type": "tick", "size": 6, "thickness": 2}
    marks = [
        layer(thin, x=x, x2={"field": "p95"}, y=y, color=color, tooltip=tip),
        layer(thick, x=at(x, "p25"), x2={"field": "p75"}, y=y, color=color, tooltip=tip),
        layer(tick, x=at(x, "p50"), y=y, tooltip=tip),
    ]
    texts = {"data": {"values": heads}, "layer": head_texts(y, counts)}
    return {"height": top, "layer": [{"data": {"values": lines}, "layer": marks}, texts]}
