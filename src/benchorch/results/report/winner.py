"""The winner of a finished run as plain values, for programs and for the parent run in MLflow."""

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Estimate
from benchorch.results.compare.metric_kinds import PRIMARY
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.tables import conclusions, has_baseline

_SHOWN = (
    *PRIMARY,
    *("latency_ms/p99", "ttft_ms/p50", "tpot_ms/p50", "decode_tokens_per_s/mean"),
    *(f"cost_usd_per_million_{of}/on_demand" for of in ("items", "output_tokens")),
)


def winner_of(run: RunResults) -> dict[str, Json]:
    """The trial with the best figure and its metrics; only the sentences where there is none.

    Several cases, each with an answer of its own, have no winner in common.
    """
    cases = conclusions(run)
    found: dict[str, Json] = {"conclusion": [one.sentence for one in cases]}
    best = cases[0].fastest if len(cases) == 1 else None
    if best is None:
        return found
    summary = run.summaries[best.trial_id]
    shown = {name: summary.metrics[name] for name in _SHOWN if name in summary.metrics}
    if summary.speedup is not None:
        shown["speedup_ratio/p50"] = summary.speedup.ratio
    is_baseline = best.baseline_id is None and has_baseline(run.plan.trials)
    unpaired = "baseline" if is_baseline else "not compared"
    return {
        **found,
        "trial_id": best.trial_id,
        "conversion": best.labels["conversion"],
        "hardware": best.labels["hardware"],
        "verdict": summary.speedup.verdict if summary.speedup else unpaired,
        "metrics": {k: v for one in shown.items() for k, v in _with_ends(*one).items()},
    }


def _with_ends(name: str, estimate: Estimate) -> dict[str, Json]:
    ends = {"low": estimate.low, "high": estimate.high}
    known = {f"{name}/{end}": value for end, value in ends.items() if value is not None}
    return {name: estimate.value, **known}
