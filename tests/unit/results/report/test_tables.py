from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.domain.verdict import OutputParity, Verdict
from benchorch.results.compare.metric_kinds import PRIMARY
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.tables import (
    HEADERS,
    against,
    conclusion,
    limit_text,
    markdown,
    speedup_text,
    table_rows,
)
from benchorch.results.report.winner import winner_of

OUTPUT = OutputParity(
    name="0", max_abs=0, relative_l2_ratio=2e-7, cosine_ratio=1, argmax_agreement_ratio=None
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

    def add(
        self, name, ms=None, *, verdict=None, outcome=Outcome.OK, failure=None, axes="", ratio=2.0
    ):
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
        word = "faster" if ratio > 1 else "slower"
        found = Comparison(ratio=estimate(ratio, "ratio"), verdict=word, design="alternated")
        speedup = found if baseline_id else None
        metrics = {} if ms is None else {"latency_ms/p50": estimate(ms)}
        self.summaries[name] = Summary(metrics=metrics, speedup=speedup, steady=True)
        return self

    def best(self, *names):
        """Those that cannot be told from the fastest."""
        for name, summary in self.summaries.items():
            self.summaries[name] = replace(summary, best=names)
        return self

    @property
    def plan(self):
        trials = tuple(self.trials)
        return Plan(plan_id="p", name="n", trials=trials, skips=(), session={})

    @property
    def run(self):
        return RunResults(
            directory=Path("somewhere"),
            plan=self.plan,
            results=self.results,
            summaries=self.summaries,
        )

    def rows(self):
        return table_rows(self.run)[1:]

    def names(self):
        return [row[0] for row in self.rows()]

    def said(self):
        return conclusion(self.run)


def test_rows_are_ranked_by_their_ratio_to_the_common_baseline():
    sheet = Sheet().add("eager", 3.0).add("slow", 2.9, ratio=0.8).add("fast", 3.1, ratio=1.1)
    assert sheet.names() == ["fast", "eager", "slow"]


def test_a_yes_names_the_inputs_that_the_conversion_leaves_otherwise_than_eager():
    noted = Verdict(
        passed=True, reasons=(), outputs=(OUTPUT,), tolerance_ratio=1e-4, unwritten={"x": "it is."}
    )
    sheet = Sheet().add("eager", 3.0).add("onnxruntime", 1.0, verdict=noted)
    cells = table_rows(sheet.run)[1]
    assert cells[HEADERS.index("same model?")] == "yes 2e-07, but input x"


def test_workloads_come_in_the_order_of_their_sizes():
    sheet = Sheet()
    for tokens, ms in ((128, 9.0), (8, 5.0), (32, 1.0)):
        sheet.add(str(tokens), ms)
        sheet.trials[-1].labels["workload"] = f"batch_size=1 prompt_tokens={tokens}"
    shown = [name.rpartition(" ")[2] for name in sheet.names()]
    assert shown == ["8", "32", "128"]


def test_without_a_baseline_no_trial_is_called_one():
    against = HEADERS.index("vs baseline [95 %]")
    compared = Sheet().add("eager", 3.0).add("fast", 1.0, ratio=2.9)
    assert {row[against] for row in compared.rows()} > {"baseline"}
    compared.trials = [replace(trial, baseline_id=None) for trial in compared.trials]
    compared.results = {k: replace(one, baseline_id=None) for k, one in compared.results.items()}
    compared.summaries = {k: replace(s, speedup=None) for k, s in compared.summaries.items()}
    assert {row[against] for row in compared.rows()} == {"–"}


def test_the_column_of_the_speedup_names_the_baseline():
    sheet = Sheet().add("eager", 3.0).add("fast", 1.0)
    assert table_rows(sheet.run)[0] == (*HEADERS[:-1], "vs eager [95 %]")
    sheet.trials[0].labels["conversion"] = "onnxruntime"
    assert table_rows(sheet.run)[0][-1] == "vs onnxruntime [95 %]"
    other = replace(sheet.trials[0], trial_id="other", labels={"conversion": "eager"})
    assert against([*sheet.trials, other]) == "vs onnxruntime"
    of_other = replace(sheet.trials[1], trial_id="fast2", baseline_id="other")
    assert against([*sheet.trials, other, of_other]) == "vs baseline"


def test_the_winner_of_a_table_is_the_fastest():
    sheet = Sheet().add("eager", 3.0).add("fast", 1.0, ratio=2.9).best("fast")
    assert "fast on local is fastest of 2, p50 1 [0.9, 1.1] ms: 2.9× the baseline" in sheet.said()


def test_a_baseline_that_beats_all_is_the_fastest():
    sheet = Sheet().add("eager", 3.0).add("quick on paper", 2.0, ratio=0.9).best("eager")
    said = sheet.said()
    assert "eager on local is fastest of 2, p50 3 [2.7, 3.3] ms: everything else" in said
    assert "quick on paper" not in said


def test_what_cannot_be_told_from_the_best_is_named_with_it():
    sheet = Sheet().add("eager", 3.0).add("a", 1.0, ratio=1.29).add("b", 0.9, ratio=1.31)
    sheet.add("c", 0.5, ratio=1.1).best("a", "b")
    assert sheet.said().endswith(
        "there is no single fastest: b on local (1.31× the baseline's speed) and a on local "
        "(1.29× the baseline's speed) cannot be distinguished."
    )


def test_a_tie_prints_no_ratio_that_is_not_known():
    sheet = Sheet().add("eager", 3.0).add("noisy", 1.0, ratio=6395.0).best("eager", "noisy")
    found = sheet.summaries["noisy"].speedup
    wide = replace(found.ratio, low=0.1, high=1e8)
    undecided = replace(found, ratio=wide, verdict="inconclusive")
    sheet.summaries["noisy"] = replace(sheet.summaries["noisy"], speedup=undecided)
    assert "noisy on local (ratio not known yet)" in sheet.said()
    assert "6395" not in sheet.said()


@pytest.mark.parametrize(
    ("n", "seen", "said"),
    [
        (1, None, "1.24× the baseline's speed in 1 pair"),
        (2, (1.2, 1.28), "1.24× the baseline's speed in 2 pairs"),
        (2, (0.5, 3.1), "ratio not known yet"),
    ],
)
def test_a_tie_and_its_table_agree_on_a_ratio_without_an_interval(n, seen, said):
    sheet = Sheet().add("eager", 3.0).add("fast", 2.4, ratio=1.24).best("eager", "fast")
    found = sheet.summaries["fast"].speedup
    ratio = replace(found.ratio, low=None, high=None, n=n, seen=seen)
    undecided = replace(found, ratio=ratio, verdict="inconclusive")
    sheet.summaries["fast"] = replace(sheet.summaries["fast"], speedup=undecided)
    assert f"fast on local ({said})" in sheet.said()
    cell = speedup_text(sheet.summaries["fast"], sheet.results["fast"], compared=True)
    assert ("1.24×" in cell) == ("1.24×" in said)
    assert ("not known yet" in cell) == ("not known yet" in said)


def test_a_tie_with_a_baseline_that_has_no_result_has_no_fastest():
    sheet = Sheet().add("eager").add("fast", 2.9, ratio=1.02).best("eager", "fast")
    del sheet.results["eager"], sheet.summaries["eager"]
    assert (
        "there is no single fastest: fast on local (1.02× the baseline's speed) cannot be "
        "distinguished from the baseline, which has no result; eager not run"
    ) in sheet.said()
    sheet.best("fast")
    assert "fast on local is fastest of 1 of 2" in sheet.said()


def test_a_tie_with_the_baseline_says_so():
    sheet = Sheet().add("eager", 3.0).add("copy", 2.9, ratio=1.004).best("copy", "eager")
    assert "eager on local (the baseline) cannot be distinguished" in sheet.said()


@pytest.mark.parametrize("best", [("eager",), ("eager", "copy"), ()])
def test_what_is_slower_is_never_named_fastest(best):
    sheet = Sheet().add("eager", 3.0).add("copy", 2.0, ratio=0.99).best(*best)
    assert "copy on local is fastest" not in sheet.said()
    assert "copy on local has the best figure" not in sheet.said()


def test_machines_are_not_tested_against_each_other():
    sheet = Sheet().add("eager", 3.0).add("fast", 1.0, ratio=2.9).best("fast")
    for name in ("eager", "fast"):
        trial = next(one for one in sheet.trials if one.trial_id == name)
        labels = {**trial.labels, "hardware": "g5.xlarge", "hardware_kind": "g5.xlarge"}
        there, base = f"{name} there", "eager there" if trial.baseline_id else None
        sheet.trials.append(Trial(trial_id=there, labels=labels, spec={}, baseline_id=base))
        sheet.results[there] = replace(
            sheet.results[name], trial_id=there, labels=labels, baseline_id=base
        )
        sheet.summaries[there] = replace(sheet.summaries[name], best=("fast there",))
    assert "is fastest" not in sheet.said()
    assert "has the best figure" in sheet.said()
    assert "machines are not tested against each other" in sheet.said()


def test_a_wrong_model_is_shown_but_never_ranked():
    sheet = Sheet().add("eager", 3.0).add("wrong", 0.1, verdict=WRONG)
    assert sheet.names() == ["eager", "wrong"]
    assert "eager on local is the only one that can be ranked" in sheet.said()
    rows = table_rows(sheet.run)
    assert rows[-1][-1] == "disqualified"


def test_a_trial_that_crashed_after_some_processes_is_not_the_fastest():
    crash = Failure(stage="measure", kind="crash:SIGSEGV", message="it died")
    sheet = Sheet().add("eager", 3.0)
    sheet.add("crashed", 0.1, outcome=Outcome.FAILED, failure=crash)
    assert sheet.names() == ["eager", "crashed"]
    assert "eager on local is the only one that can be ranked" in sheet.said()
    assert "there is nothing to compare it with" in sheet.said()
    assert "crash:SIGSEGV" in markdown(table_rows(sheet.run), sheet.plan, sheet.said())


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
        rows = table_rows(sheet.run)
        assert [row[0] for row in rows[1:]] == ["inductor", "eager"]
        said = conclusion(sheet.run)
        assert "inductor on local has the best figure" in said
        assert "it was not tested against the others" in said
        assert words in said


def test_a_searched_rate_has_its_interval_in_the_table_as_in_the_conclusion():
    sheet = Sheet().add("eager")
    for rate, cell in (
        (estimate(400.0, "per_s"), "400 [360, 440] queries/s in target"),
        (replace(estimate(400.0), low=100.0), "not known yet (100 to 440, n = 5) queries/s"),
    ):
        sheet.summaries["eager"] = Summary(
            metrics={"target_rate_per_s/max": rate}, speedup=None, steady=True
        )
        assert sheet.rows()[0][HEADERS.index("items/s [95 %]")].startswith(cell)


def test_the_winner_under_load_has_its_rate_and_is_called_a_baseline_only_where_it_is_one():
    sheet = Sheet().add("eager").add("fast")
    rate = {"target_rate_per_s/max": estimate(400.0, "per_s")}
    for name, metrics in (("eager", {}), ("fast", rate)):
        sheet.summaries[name] = Summary(metrics=metrics, speedup=None, steady=True)
    found = winner_of(sheet.run)
    assert (found["trial_id"], found["verdict"]) == ("fast", "not compared")
    assert found["metrics"]["target_rate_per_s/max"] == 400
    sheet.summaries["fast"] = Summary(metrics={}, speedup=None, steady=True)
    sheet.summaries["eager"] = Summary(metrics=rate, speedup=None, steady=True)
    assert winner_of(sheet.run)["verdict"] == "baseline"
    sheet.trials = [replace(trial, baseline_id=None) for trial in sheet.trials]
    assert winner_of(sheet.run)["verdict"] == "not compared"


@pytest.mark.parametrize("metric", PRIMARY)
def test_a_higher_ratio_ranks_first_whatever_the_primary_metric(metric):
    sheet = Sheet().add("slow", ratio=0.5).add("eager").add("fast", ratio=31.7)
    for name, summary in sheet.summaries.items():
        sheet.summaries[name] = replace(summary, metrics={metric: estimate(17.0)}, best=("fast",))
    assert sheet.names() == ["fast", "eager", "slow"]
    assert "fast on local is fastest of 3" in sheet.said()


@pytest.mark.parametrize(
    "first", ["target_rate_per_s/max", "response_ms/p50"], ids=["peak_rate", "server"]
)
def test_what_lacks_the_first_metric_under_load_ranks_behind_what_has_it(first):
    sheet = Sheet().add("overloaded").add("eager")
    capacity = "capacity_per_s/mean"
    for name, metrics in (
        ("overloaded", {capacity: estimate(200.0)}),
        ("eager", {capacity: estimate(125.0), first: estimate(90.0)}),
    ):
        sheet.summaries[name] = Summary(metrics=metrics, speedup=None, steady=True)
    assert sheet.names() == ["eager", "overloaded"]
    assert "eager on local has the best figure" in sheet.said()


def test_what_pairs_showed_to_be_faster_wins_over_a_headline_taken_at_another_time():
    # A quiet run of the README's recipe, in which the slower of the two had the better median.
    sheet = Sheet().add("eager", 123.0).add("aot_inductor", 95.6, ratio=1.11)
    sheet.add("onnxruntime", 96.9, ratio=1.29).best("onnxruntime")
    assert "onnxruntime on local is fastest" in sheet.said()


def test_each_scenario_has_its_own_conclusion():
    sheet = Sheet().add("eager", 3.0).add("eager offline")
    trial = sheet.trials[1]
    labels = {**trial.labels, "conversion": "eager", "scenario": "offline"}
    sheet.trials[1] = Trial(trial_id=trial.trial_id, labels=labels, spec={})
    sheet.summaries["eager offline"] = Summary(
        metrics={"throughput_items_per_s/mean": estimate(1000.0)}, speedup=None, steady=True
    )
    said = conclusion(sheet.run).splitlines()
    assert len(said) == 2
    assert "offline" in said[1]


def bound(largest="linear", gain=0.38, limit="compute-bound"):
    found = BottleneckVerdict(
        limit=limit,
        sentence="It computes.",
        critical_path_ns=10,
        classes_ns={"cpu_compute": 10},
        largest=largest,
        largest_gain_ratio=gain,
    )
    return ProfileRecord(profiler="torch", trace="t", bottleneck=found)


def test_what_limits_a_trial_has_a_column_where_any_was_profiled():
    sheet = Sheet().add("eager", 3.0).add("fast", 1.0)
    assert table_rows(sheet.run)[0][-1] == "vs eager [95 %]"
    sheet.results["fast"] = replace(sheet.results["fast"], profile=bound())
    head, fast, eager = table_rows(sheet.run)
    assert (head[-1], fast[-1], eager[-1]) == ("limited by", "compute-bound; linear -38 %", "–")


def test_a_trial_that_did_not_run_has_as_many_cells_as_the_others():
    sheet = Sheet().add("eager", 3.0).add("later")
    sheet.results["eager"] = replace(sheet.results["eager"], profile=bound())
    del sheet.results["later"]
    assert len({len(row) for row in table_rows(sheet.run)}) == 1


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (bound(largest="", gain=0.0), "compute-bound"),
        (bound(largest="k" * 80), f"compute-bound; {'k' * 31}… -38 %"),
        (ProfileRecord(unavailable="not profiled"), "unknown"),
        (bound(limit="void"), "unknown"),
        (None, "–"),
    ],
)
def test_a_bottleneck_is_a_short_text(record, text):
    sheet = Sheet().add("eager", 3.0)
    assert limit_text(replace(sheet.results["eager"], profile=record)) == text


def test_the_row_of_the_baseline_has_the_outcome_of_the_control():
    sheet = Sheet().add("eager", 3.0)
    met = Comparison(ratio=estimate(1.0, "ratio"), verdict="equivalent", design="alternated")
    sheet.summaries["eager"] = replace(sheet.summaries["eager"], control=met)
    rows = table_rows(sheet.run)
    assert rows[1][-1] == "baseline; control 1 [0.9, 1.1]"
