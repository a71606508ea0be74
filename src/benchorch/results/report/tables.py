"""Plans and results as rows of text, for the terminal, Markdown and pages."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.price import Market
from benchorch.domain.profile import VOID
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.domain.verdict import Kind
from benchorch.formatting import (
    axes_of,
    bounded,
    cell_name,
    interval_text,
    is_known,
    is_unknown,
    plural,
    printable,
    varying_labels,
)
from benchorch.results.compare.metric_kinds import PRIMARY, higher_is_better
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.execution_text import execution_matters, precision_text
from benchorch.results.report.plan_text import names_of, skip_text
from benchorch.results.report.request_coverage import RequestCoverage, coverage, pending
from benchorch.stats.pairs import SEQUENTIAL
from benchorch.stats.ratio_test import INCONCLUSIVE
from benchorch.units import format_bytes, format_seconds, significant

_SIZES = re.compile(r"([0-9]{1,18})")  # 8 comes before 32

HEADERS = (
    "conversion",
    "p50 ms [95 %]",
    "p99 ms [95 %]",
    "items/s [95 %]",
    "build",
    "peak memory",
    "same model?",
    "vs baseline [95 %]",
)
"""Titles of the columns of every table; of the last one see `against`."""

COST = "USD per 1M [95 %]"
"""Column of tables with paid machines: the on-demand cost of a million items."""

TOKEN_COST = "USD per 1M tokens out"
"""The same of tables with generated tokens."""

TOKENS = {
    "TTFT ms [95 %]": "ttft_ms/p50",
    "TPOT ms [95 %]": "tpot_ms/p50",
    "tokens/s out": "decode_tokens_per_s/mean",
}
"""Columns of tables with generated tokens, and their metrics."""

TOKEN_PARITY = "greedy tokens; KL nats"
"""Column of the same tables: how many tokens agree, from where not, and how far it is on average.
"""

PRECISION = "ran in"
"""Column of tables in which a trial ran in another precision than float32, or changed nothing."""

LIMIT = "limited by"
"""Column of tables with a profiled trial."""

_LONGEST_NAME, _LONGEST_CELL = 32, 400


class PrimaryMetric(NamedTuple):
    """The metric by which a trial is ranked.

    Attributes:
        text: with its interval and its name, e.g. ``p50 12.3 [12.1, 12.5] ms``.
        cost: the lower, the better: the metric's place among the primary ones, so that what
            lacks the first (overloaded, or within the target at no rate) comes behind what has
            it; then a time, or a rate times -1.
    """

    text: str
    cost: tuple[float, float]


_PRIMARY_TEXTS = {
    "latency_ms/p50": "p50 {} ms",
    "target_rate_per_s/max": "{} queries/s within the target",
    "response_ms/p50": "response p50 {} ms",
    "capacity_per_s/mean": "{} queries/s at most",
    "throughput_items_per_s/mean": "{} items/s",
}


def primary_metric(metrics: Mapping[str, Estimate]) -> PrimaryMetric | None:
    """The metric by which a trial is ranked; None where it has none of them."""
    for place, name in enumerate(PRIMARY):
        found = metrics.get(name)
        if found is not None:
            cost = -found.value if higher_is_better(name) else found.value
            return PrimaryMetric(_PRIMARY_TEXTS[name].format(interval_text(found)), (place, cost))
    return None


def table_rows(run: RunResults) -> list[tuple[str, ...]]:
    """The final table: a header, then a row for each trial, fastest first, then failures."""
    varying = varying_labels([trial.labels for trial in run.plan.trials])
    profiled = any(result.profile is not None for result in run.results.values())
    paid = any(result.prices for result in run.results.values())
    compared = has_baseline(run.plan.trials)
    shows_precision = any(map(execution_matters, run.results.values()))
    tokens = any("ttft_ms/p50" in summary.metrics for summary in run.summaries.values())
    priced = TOKEN_COST if tokens else COST
    more = tuple(
        header
        for header, shown in ((PRECISION, shows_precision), (priced, paid), (LIMIT, profiled))
        if shown
    )
    titles = (*HEADERS[:-1], f"{against(run.plan.trials)} [95 %]")
    rows: list[tuple[str, ...]] = [(*titles, *((*TOKENS, TOKEN_PARITY) if tokens else ()), *more)]
    for trial in ranked(run):
        name = cell_name(trial.labels, varying)
        result = run.results.get(trial.trial_id)
        if result is None:
            cells: tuple[str, ...] = ("not run", *("–",) * 6)
        else:
            cells = _cells(result, run.summaries[trial.trial_id], compared)
        summary = run.summaries.get(trial.trial_id)
        generated = _token_cells(result, summary) if tokens else ()
        ran_in = (precision_text(result),) if shows_precision else ()
        cost = (cost_text(summary, tokens),) if paid else ()
        limit = (limit_text(result),) if profiled else ()
        rows.append((name, *cells, *generated, *ran_in, *cost, *limit))
    return rows


def ranked(run: RunResults) -> list[Trial]:
    """Trials in the table's order: fastest first, then disqualified ones, then failures."""
    return sorted(run.plan.trials, key=lambda trial: _rank(trial, run))


def _rank(trial: Trial, run: RunResults) -> tuple[int, str, list[str | int], tuple[float, float]]:
    """By what it costs within a model and workload; disqualified ones after all others."""
    result = run.results.get(trial.trial_id)
    ran = result is not None and result.outcome is Outcome.OK
    primary = primary_metric(run.summaries[trial.trial_id].metrics) if ran else None
    place = 2 if primary is None else 1 if result and result.disagrees else 0
    cost = _cost(trial, primary, run.summaries) if primary else (0.0, 0.0)
    case = f"{trial.labels['workload']} {_other_scenario(trial.labels)}"
    sizes = [int(part) if at % 2 else part for at, part in enumerate(_SIZES.split(case))]
    return place, trial.labels["model"], sizes, cost


def _cost(
    trial: Trial, primary: PrimaryMetric, summaries: Mapping[str, Summary]
) -> tuple[float, float]:
    """The primary metric; of a candidate that met its baseline, what follows from the ratio.

    Its own was measured minutes apart from the others'.
    """
    speedup, baseline = summaries[trial.trial_id].speedup, summaries.get(trial.baseline_id or "")
    common = primary_metric(baseline.metrics) if baseline else None
    if speedup is None or speedup.design == SEQUENTIAL or common is None:
        return primary.cost
    (place, cost), ratio = common.cost, speedup.ratio.value
    return place, cost / ratio if cost > 0 else cost * ratio


def _cells(result: TrialResult, summary: Summary, compared: bool) -> tuple[str, ...]:
    metrics = summary.metrics
    of = "latency_ms" if "latency_ms/p50" in metrics else "response_ms"
    p50, p99 = metrics.get(f"{of}/p50"), metrics.get(f"{of}/p99")
    memory = metrics.get("peak_rss_bytes/max")
    build = _build_text(result)
    if result.failure:
        return (f"{result.failure.kind}", "–", "–", build, "–", "–", "–")
    return (
        interval_text(p50) if p50 else "–",
        interval_text(p99) if p99 else "–",
        _rate_text(metrics),
        build,
        format_bytes(memory.value) if memory else "–",
        parity_text(result),
        speedup_text(summary, result, compared),
    )


def _token_cells(result: TrialResult | None, summary: Summary | None) -> tuple[str, ...]:
    found = [summary.metrics.get(name) if summary else None for name in TOKENS.values()]
    cells = ("–" if one is None else interval_text(one) for one in found)
    return (*cells, _token_parity_text(result))


def _token_parity_text(result: TrialResult | None) -> str:
    """``30/32 from 5; 0.002``: one of the tokens from number 5 on is another."""
    if result is None or result.parity is None or result.parity.tokens is None:
        return "–"
    tokens = result.parity.tokens
    first = "" if tokens.first_divergence is None else f" from {tokens.first_divergence}"
    return f"{tokens.agreeing}/{tokens.positions}{first}; {tokens.mean_divergence_nats:.2g}"


def _rate_text(metrics: Mapping[str, Estimate]) -> str:
    """Items a second; under load, queries a second, which may have several items."""
    items = metrics.get("throughput_items_per_s/mean")
    target = metrics.get("target_rate_per_s/max")
    achieved = metrics.get("achieved_per_s/mean")
    if target is not None:
        return f"{interval_text(target, significant)} queries/s in target"
    if items is not None:
        return interval_text(items, significant)
    queries = achieved or metrics.get("capacity_per_s/mean")
    return "–" if queries is None else f"{interval_text(queries, significant)} queries/s"


def _build_text(result: TrialResult) -> str:
    if result.build is None or result.build.cache == "none":
        return "–"
    seconds = format_seconds(result.build.build_s or result.build.original_build_s)
    return {"hit": f"cached ({seconds})", "stale": "stale"}.get(result.build.cache, seconds)


def parity_text(result: TrialResult) -> str:
    """``yes 2e-07`` or ``NO 0.3``: the worst relative error over all outputs; or no such word.

    A yes has after it the inputs that the conversion writes otherwise than eager.
    """
    if result.parity is None:
        return "–"
    worst = max((o.relative_l2_ratio for o in result.parity.outputs), default=float("nan"))
    if result.parity.kind is Kind.NOT_DETERMINISTIC:
        return "not deterministic"
    if not result.parity.passed:
        return f"NO {worst:.1g}"
    unwritten = ", ".join(result.parity.unwritten)
    return f"yes {worst:.1g}{unwritten and f', but input {unwritten}'}"


def has_baseline(trials: Sequence[Trial]) -> bool:
    """Whether one of them is the baseline: of others, or alone."""
    return len(trials) == 1 or any(trial.baseline_id for trial in trials)


def against(trials: Sequence[Trial]) -> str:
    """``vs eager``: what the trials are compared with; ``vs baseline`` without only one."""
    ids = {trial.baseline_id for trial in trials}
    found = {trial.labels["conversion"] for trial in trials if trial.trial_id in ids}
    name = " ".join(found.pop().split()) if len(found) == 1 else "baseline"
    return f"vs {bounded(name, _LONGEST_NAME)}"


def speedup_text(summary: Summary, result: TrialResult, compared: bool) -> str:
    """``1.93× [1.90, 1.96]``, or why there is none; `compared` is `has_baseline` of the plan."""
    if result.disagrees:
        return "disqualified"
    if summary.speedup is None:
        return _baseline_text(summary, compared) if result.baseline_id is None else "–"
    ratio = summary.speedup.ratio
    if not _is_printed(summary.speedup):
        return f"not known yet ({plural(ratio.n, 'pair')}) {summary.speedup.verdict}"
    if ratio.low is None or ratio.high is None:
        return f"{significant(ratio.value, 3)}× ({plural(ratio.n, 'pair')})"
    value, low, high = (significant(end, 3) for end in (ratio.value, ratio.low, ratio.high))
    return f"{value}× [{low}, {high}] {summary.speedup.verdict}"


def _is_printed(speedup: Comparison) -> bool:
    """Whether the ratio is decided or known; that of one pair, or two like ones, is printed too."""
    return speedup.verdict != INCONCLUSIVE or not is_unknown(speedup.ratio)


def _baseline_text(summary: Summary, compared: bool) -> str:
    """With the outcome of the A/A control, which has to be 1."""
    found = summary.control
    if found is None or found.ratio.low is None or not is_known(found.ratio):
        return "baseline" if compared else "–"
    return f"baseline; control {interval_text(found.ratio)}"


def cost_text(summary: Summary | None, tokens: bool) -> str:
    """Cost of a million generated tokens, or items, on demand or at the only known price."""
    metrics = summary.metrics if summary else {}
    what = "output_tokens" if tokens else "items"
    names = [f"cost_usd_per_million_{what}/{market}" for market in Market]
    found = next((metrics[name] for name in names if name in metrics), None)
    return interval_text(found) if found else "–"


def limit_text(result: TrialResult | None) -> str:
    """``compute-bound; linear -38 %``: the bottleneck, and the largest single gain."""
    profile = result.profile if result else None
    if profile is None:
        return "–"
    found = profile.bottleneck
    if found is None or found.limit == VOID:
        return "unknown"  # the reason is in a note
    if not found.largest or found.largest_gain_ratio <= 0:
        return found.limit
    name = found.largest
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return f"{found.limit}; {short} -{100 * found.largest_gain_ratio:.0f} %"


def conclusion(run: RunResults) -> str:
    """One sentence a serving case: the fastest correct conversion, and by how much."""
    return "\n".join(one.sentence for one in conclusions(run))


class Conclusion(NamedTuple):
    """The result for one serving case.

    Attributes:
        fastest: the trial with the best figure; None where none could be ranked.
        coverage: how much of what was requested it rests on.
    """

    sentence: str
    fastest: Trial | None
    coverage: RequestCoverage


def conclusions(run: RunResults) -> list[Conclusion]:
    """One conclusion for each serving case, in the plan's order."""
    groups: dict[str, tuple[list[Trial], list[Skip]]] = {}
    for trial in run.plan.trials:
        groups.setdefault(serving_case(trial), ([], []))[0].append(trial)
    for skip in run.plan.skips:
        if skip.requested:
            groups.setdefault(_case_of(skip.labels), ([], []))[1].append(skip)
    return [_conclude(case, trials, skips, run) for case, (trials, skips) in groups.items()]


def serving_case(trial: Trial) -> str:
    """Model, workload and scenario, without conversion and hardware: each has a conclusion."""
    return _case_of(trial.labels)


def _case_of(labels: Mapping[str, str]) -> str:
    compared = ("conversion.", "hardware.")
    axes = [axis for axis in axes_of(labels) if not axis.startswith(compared)]
    names = (labels.get("model", ""), labels.get("workload", ""), _other_scenario(labels), *axes)
    return " ".join(" ".join(names).split())


def _other_scenario(labels: Mapping[str, str]) -> str:
    """The scenario's name unless it is the default."""
    scenario = labels.get("scenario", "")
    return "" if scenario == "single_stream" else scenario


def fastest(trials: Sequence[Trial], run: RunResults) -> Trial | None:
    """The trial with the best figure by its ratio to the common baseline.

    Medians are measured minutes apart, ratios at the same time: a baseline's own median stands for
    all machines alike. None where no trial ran and is still the same model. Whether it is shown to
    be the fastest is another question: `Summary.best`.
    """
    return min(_qualified(trials, run), key=lambda t: _rank(t, run)[-1], default=None)


def _qualified(trials: Sequence[Trial], run: RunResults) -> list[Trial]:
    """Trials that ran and are still the same model."""
    return [t for t in trials if t.trial_id in run.results and _rank(t, run)[0] == 0]


def _conclude(
    case: str, trials: Sequence[Trial], skips: Sequence[Skip], run: RunResults
) -> Conclusion:
    summaries = run.summaries
    qualified = _qualified(trials, run)
    ranked_ids = {trial.trial_id for trial in qualified}
    covered = coverage(trials, skips, run, ranked_ids)
    best = fastest(trials, run)
    if best is None:
        nothing = f"no conversion gave a result that could be ranked{covered.remarks}"
        return Conclusion(f"{bounded(case)}: {nothing}.", None, covered)
    equals = [trial for trial in qualified if trial.trial_id in summaries[best.trial_id].best]
    tables = {summaries[trial.trial_id].best for trial in qualified} - {()}
    if best not in equals or len(tables) > 1:
        claim = _figure_text(best, qualified, summaries)
    elif len(summaries[best.trial_id].best) == 1:
        compared = sum(bool(summaries[trial.trial_id].best) for trial in qualified)
        claim = _winner_text(best, summaries, covered.counted(compared))
    else:
        claim = _tie_text(sorted(equals, key=lambda t: _rank(t, run)[-1]), summaries)
    return Conclusion(f"{bounded(case)}: {claim}{covered.remarks}.", best, covered)


def _figure_text(best: Trial, qualified: Sequence[Trial], summaries: Mapping[str, Summary]) -> str:
    """The best figure, where no test says that it is the best."""
    speedup, primary = summaries[best.trial_id].speedup, _primary_text(best, summaries)
    if len(qualified) == 1:
        only = f"{named(best)} is the only one that can be ranked, {primary}"
        return f"{only}: there is nothing to compare it with"
    if len({trial.labels["hardware"] for trial in qualified}) > 1:
        why = "machines are not tested against each other"
    else:
        why = (speedup and speedup.reason) or "it was not tested against the others"
    gain = f", {_gain_text(best, summaries)}" if speedup and speedup.verdict == "faster" else ""
    return f"{named(best)} has the best figure, {primary}{gain}: {why}"


def _winner_text(best: Trial, summaries: Mapping[str, Summary], compared: str) -> str:
    """The one that is shown to be faster than all others that could be compared."""
    if summaries[best.trial_id].speedup is None:
        gain = "everything else that was compared is slower"
    else:
        gain = f"{_gain_text(best, summaries)}, and the outputs agree"
    primary = _primary_text(best, summaries)
    return f"{named(best)} is fastest of {compared}, {primary}: {gain}"


def _tie_text(equals: Sequence[Trial], summaries: Mapping[str, Summary]) -> str:
    """Those that cannot be told from the best; one alone, from a baseline without a result."""
    *others, last = (f"{named(trial)} ({_tied_text(trial, summaries)})" for trial in equals)
    names = f"{', '.join(others)} and {last}" if others else last
    unseen = "" if others else " from the baseline, which has no result"
    return f"there is no single fastest: {names} cannot be distinguished{unseen}"


def _tied_text(trial: Trial, summaries: Mapping[str, Summary]) -> str:
    speedup = summaries[trial.trial_id].speedup
    if speedup is None:
        return "the baseline"
    if not _is_printed(speedup):
        return "ratio not known yet"
    in_pairs = "" if speedup.ratio.high is not None else f" in {plural(speedup.ratio.n, 'pair')}"
    return f"{_gain_text(trial, summaries)}{in_pairs}"


def named(trial: Trial) -> str:
    """``onnxruntime on local``."""
    return f"{bounded(trial.labels['conversion'])} on {bounded(trial.labels['hardware'])}"


def _gain_text(trial: Trial, summaries: Mapping[str, Summary]) -> str:
    speedup = summaries[trial.trial_id].speedup
    assert speedup is not None  # only asked for a compared trial
    return f"{significant(speedup.ratio.value, 3)}× the baseline's speed"


def _primary_text(trial: Trial, summaries: Mapping[str, Summary]) -> str:
    primary = primary_metric(summaries[trial.trial_id].metrics)
    assert primary is not None  # it was ranked by it
    return primary.text


def full_markdown(run: RunResults) -> str:
    """Every row, conclusion, warning and skip as Markdown, however many there are."""
    names = names_of(run.plan.trials)
    planned = {name: run.summaries[name] for name in names if name in run.summaries}
    notes = [
        f"{', '.join(names.get(trial_id, trial_id) for trial_id in trial_ids)}: {warning}"
        for warning, trial_ids in warnings_of({**planned, **run.summaries}).items()
    ]
    waits_for = pending(run) if run.running else ""
    text = markdown(table_rows(run), run.plan, waits_for or conclusion(run), notes)
    return printable(text).replace("<", "&lt;").replace("](", "]\\(")  # no HTML, links, images


def warnings_of(summaries: Mapping[str, Summary]) -> Mapping[str, Sequence[str]]:
    """Each warning once, with the ids of the trials that have it."""
    found: dict[str, list[str]] = {}
    for trial_id, summary in summaries.items():
        for warning in summary.warnings:
            found.setdefault(warning, []).append(trial_id)
    return found


def markdown(
    rows: Sequence[Sequence[str]], plan: Plan, concluded: str, notes: Sequence[str] = ()
) -> str:
    """The conclusion and the table as Markdown, with every note and every skip."""
    head, *body = rows
    lines = [f"# {_in_table(plan.name)} ({plan.plan_id})", "", concluded, ""]
    lines += [f"| {' | '.join(map(_in_table, head))} |", "|" + "---|" * len(head)]
    lines += [*(f"| {' | '.join(map(_in_table, row))} |" for row in body), ""]
    lines += [f"- note: {note}" for note in notes]
    lines += [f"- skipped: {_in_table(skip_text(skip))}" for skip in plan.skips]
    return "\n".join(lines).rstrip() + "\n"


def _in_table(cell: str) -> str:
    """A cell of a Markdown table, whatever is in a name."""
    return bounded(" ".join(cell.split()), _LONGEST_CELL).replace("|", "\\|")
