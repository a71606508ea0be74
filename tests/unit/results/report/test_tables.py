from dataclasses import replace

import pytest

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.domain.verdict import Verdict
from benchorch.results.report.tables import (
    HEADERS,
    conclusion,
    limit_text,
    markdown,
    plan_text,
    table_rows,
)

WRONG = Verdict(passed=False, reasons=("far off",), outputs=(), tolerance_ratio=1e-4)


def estimate(value, unit="ms"):
    return Estimate(
        value=value, low=value * 0.9, high=value * 1.1, level_ratio=0.95, n=5, unit=unit, method="t"
    )


class Sheet:
    """A plan with its results, built row by row."""

    def __init__(self):
        self.trials, self.results, self.summaries = [], {}, {}

    def add(self, name, ms=None, *, verdict=None, outcome=Outcome.OK, failure=None, axes=""):
        baseline_id = None if name == "eager" else "eager"
        labels = {
            "model": "mlp",
            "conversion": name,
            "hardware": "local",
            "hardware_kind": "local",
            "scenario": "single_stream",
            "workload": "batch_size=1",
            "axes": axes,
        }
        self.trials.append(Trial(trial_id=name, labels=labels, spec={}, baseline_id=baseline_id))
        self.results[name] = TrialResult(
            trial_id=name,
            labels=labels,
            outcome=outcome,
            failure=failure,
            parity=verdict,
            baseline_id=baseline_id,
        )
        ratio = Comparison(ratio=estimate(2.0, "ratio"), verdict="faster") if baseline_id else None
        metrics = {} if ms is None else {"latency_ms/p50": estimate(ms)}
        self.summaries[name] = Summary(metrics=metrics, speedup=ratio, steady=True)
        return self

    @property
    def plan(self):
        trials = tuple(self.trials)
        return Plan(plan_id="p", name="n", trials=trials, skips=(), session={})

    def names(self):
        return [row[0] for row in table_rows(self.plan, self.results, self.summaries)][1:]

    def said(self):
        return conclusion(self.plan, self.results, self.summaries)


def test_rows_are_ranked_by_latency():
    sheet = Sheet().add("eager", 3.0).add("slow", 4.0).add("fast", 1.0)
    assert sheet.names() == ["fast", "eager", "slow"]
    assert "fast on local is fastest" in sheet.said()


def test_a_wrong_model_is_shown_but_never_ranked():
    sheet = Sheet().add("eager", 3.0).add("wrong", 0.1, verdict=WRONG)
    assert sheet.names() == ["eager", "wrong"]
    assert "eager on local is fastest" in sheet.said()
    rows = table_rows(sheet.plan, sheet.results, sheet.summaries)
    assert rows[-1][-1] == "disqualified"


def test_a_trial_that_crashed_after_some_processes_is_not_the_fastest():
    crash = Failure(stage="measure", kind="crash:SIGSEGV", message="it died")
    sheet = Sheet().add("eager", 3.0)
    sheet.add("crashed", 0.1, outcome=Outcome.FAILED, failure=crash)
    assert sheet.names() == ["eager", "crashed"]
    assert "eager on local is fastest" in sheet.said()
    assert "crash:SIGSEGV" in markdown(
        table_rows(sheet.plan, sheet.results, sheet.summaries), sheet.plan, sheet.said()
    )


def test_the_conclusion_of_a_run_without_a_ranking():
    crash = Failure(stage="build", kind="oom", message="too much")
    sheet = Sheet().add("eager", outcome=Outcome.FAILED, failure=crash)
    assert "no conversion gave a result that could be ranked" in sheet.said()


def test_another_value_of_a_swept_key_is_another_subject():
    sheet = Sheet().add("eager", 3.0, axes="workload.dtype=float32")
    sheet.add("other", 1.0, axes="workload.dtype=float64")
    assert len(sheet.said().splitlines()) == 2


def test_an_option_of_a_conversion_is_a_candidate_for_the_same_subject():
    sheet = Sheet().add("eager", 3.0)
    sheet.add("other", 1.0, axes="conversion.steps.onnx.opset=18")
    assert len(sheet.said().splitlines()) == 1


def test_a_plan_is_printed_in_aligned_columns():
    lines = plan_text(Sheet().add("eager").add("other").plan).splitlines()
    assert lines[-1] == "2 trials, 0 skips"
    assert lines[1].index("eager") == lines[2].index("other")


def test_under_load_a_trial_is_ranked_by_its_response_or_by_the_rate_it_sustains():
    for metric, better, worse, words in (
        ("response_ms/p50", 3.0, 4.0, "response p50 3 [2.7, 3.3] ms"),
        ("target_rate_per_s/max", 400.0, 300.0, "queries/s within the target"),
        ("throughput_items_per_s/mean", 400.0, 300.0, "items/s"),
    ):
        sheet = Sheet().add("eager").add("inductor")
        for name, value in (("eager", worse), ("inductor", better)):
            sheet.summaries[name] = Summary(
                metrics={metric: estimate(value)}, speedup=None, steady=True
            )
        rows = table_rows(sheet.plan, sheet.results, sheet.summaries)
        assert [row[0] for row in rows[1:]] == ["inductor", "eager"]
        said = conclusion(sheet.plan, sheet.results, sheet.summaries)
        assert "inductor on local is fastest" in said
        assert words in said


def test_what_pairs_showed_to_be_faster_wins_over_a_headline_taken_at_another_time():
    sheet = Sheet().add("eager", 9.8).add("inductor", 10.0)
    assert "inductor on local is fastest" in conclusion(sheet.plan, sheet.results, sheet.summaries)


def test_each_scenario_has_its_own_conclusion():
    sheet = Sheet().add("eager", 3.0).add("eager offline")
    trial = sheet.trials[1]
    labels = {**trial.labels, "conversion": "eager", "scenario": "offline"}
    sheet.trials[1] = Trial(trial_id=trial.trial_id, labels=labels, spec={})
    sheet.summaries["eager offline"] = Summary(
        metrics={"throughput_items_per_s/mean": estimate(1000.0)}, speedup=None, steady=True
    )
    said = conclusion(sheet.plan, sheet.results, sheet.summaries).splitlines()
    assert len(said) == 2
    assert "offline" in said[1]


def bound(largest="linear", gain=0.38):
    found = BottleneckVerdict(
        limit="compute-bound",
        sentence="It computes.",
        critical_path_ns=10,
        classes_ns={"cpu_compute": 10},
        largest=largest,
        largest_gain_ratio=gain,
    )
    return ProfileRecord(profiler="torch", trace="t", bottleneck=found)


def test_what_limits_a_trial_has_a_column_where_any_was_profiled():
    sheet = Sheet().add("eager", 3.0).add("fast", 1.0)
    assert table_rows(sheet.plan, sheet.results, sheet.summaries)[0] == HEADERS
    sheet.results["fast"] = replace(sheet.results["fast"], profile=bound())
    head, fast, eager = table_rows(sheet.plan, sheet.results, sheet.summaries)
    assert (head[-1], fast[-1], eager[-1]) == ("limited by", "compute-bound; linear -38 %", "–")


def test_a_trial_that_did_not_run_has_as_many_cells_as_the_others():
    sheet = Sheet().add("eager", 3.0).add("later")
    sheet.results["eager"] = replace(sheet.results["eager"], profile=bound())
    del sheet.results["later"]
    assert len({len(row) for row in table_rows(sheet.plan, sheet.results, sheet.summaries)}) == 1


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (bound(largest="", gain=0.0), "compute-bound"),
        (bound(largest="k" * 80), f"compute-bound; {'k' * 31}… -38 %"),
        (ProfileRecord(unavailable="not profiled"), "unknown"),
        (None, "–"),
    ],
)
def test_a_bottleneck_is_a_short_text(record, text):
    sheet = Sheet().add("eager", 3.0)
    assert limit_text(replace(sheet.results["eager"], profile=record)) == text
