"""When a repetition reproduces a measurement, when it differs, and when nobody can say."""

from dataclasses import replace

import pytest

from benchorch.domain.result import BuildRecord, ModelCounts
from benchorch.results.compare.matching import Match
from benchorch.results.compare.metric_kinds import LATENCY, SIZE, SPEEDUP
from benchorch.results.compare.reproduction import (
    DIFFERS,
    NOT_COMPARABLE,
    OUTPUTS,
    REPRODUCED,
    expectations,
    judged,
    overall,
)
from support import synthetic_runs
from support.synthetic_runs import CANARY_NS, DISAGREES, failed, session, trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
COUNT = "parameters/total"


def once(plan_id, *call_ns, parameters=10, **fields):
    counts = ModelCounts(parameters=parameters, parameter_bytes=40, macs=None, flops=None)
    return synthetic_runs.once(plan_id, *call_ns, counts=counts, **fields)


def found(a, b, *across):
    return {one.figure: one for one in judged([Match(name="x", a=a, b=b)], across)}


def build(weights, size=1000):
    fields = {"build_s": 3.0, "original_build_s": 3.0, "model_digest": weights}
    return BuildRecord(key="k", cache="miss", artifact_bytes=size, **fields)


def test_what_falls_within_is_reproduced():
    verdicts = found(once("a"), once("b"))
    assert {one.verdict for one in verdicts.values()} == {REPRODUCED}
    assert {LATENCY, OUTPUTS, COUNT} <= verdicts.keys()
    assert overall(list(verdicts.values())) == REPRODUCED


def test_what_falls_outside_differs_by_so_much():
    verdict = found(once("a"), once("b", 1.1e6))[LATENCY]
    assert verdict.verdict == DIFFERS
    assert "more than was measured first" in verdict.reason
    assert verdict.expected.high < verdict.found
    assert overall([verdict]) == DIFFERS


def test_a_machine_that_became_slower_as_a_whole_may_have_slower_figures():
    slow = (1.1 * CANARY_NS, 1.1 * CANARY_NS)
    verdict = found(once("a"), once("b", 1.1e6, canaries_ns=slow))[LATENCY]
    assert verdict.verdict == REPRODUCED
    assert verdict.drift_ratio == pytest.approx(0.1, abs=0.02)


def test_without_reference_workloads_no_time_can_be_judged_and_counts_can():
    verdicts = found(once("a"), once("b", canaries_ns=None))
    assert verdicts[LATENCY].verdict == NOT_COMPARABLE
    assert "reference workloads" in verdicts[LATENCY].reason
    assert verdicts[COUNT].verdict == REPRODUCED


@pytest.mark.parametrize("noise", [{"grade": "C"}, {"steady": False}])
def test_noise_is_no_evidence_of_a_difference(noise):
    assert found(once("a"), once("b", 1.1e6, **noise))[LATENCY].verdict == NOT_COMPARABLE


def test_another_processor_makes_times_incomparable_and_not_counts():
    other = {"cpu_model": "Another CPU", "host": "node-2"}
    verdicts = found(once("a"), once("b", environment=other))
    assert verdicts[LATENCY].verdict == NOT_COMPARABLE
    assert "environment.cpu_model: Some CPU in A, Another CPU in B" in verdicts[LATENCY].reason
    assert verdicts[COUNT].verdict == REPRODUCED
    assert found(once("a"), once("b", environment=other), "hardware")[LATENCY].verdict == REPRODUCED


def test_a_machine_of_another_name_is_no_obstacle():
    assert found(once("a"), once("b", environment={"host": "x"}))[LATENCY].verdict == REPRODUCED


def test_other_packages_make_all_but_the_outputs_incomparable():
    verdicts = found(once("a"), once("b", environment={"packages": {"torch": "2.14.0"}}))
    assert verdicts[OUTPUTS].verdict == REPRODUCED
    assert {verdicts[LATENCY].verdict, verdicts[COUNT].verdict} == {NOT_COMPARABLE}


def test_other_weights_are_another_model():
    verdicts = found(once("a"), once("b", build=build("others")), "model", "packages", "hardware")
    assert verdicts[LATENCY].verdict == NOT_COMPARABLE
    assert "weights" in verdicts[LATENCY].reason


def test_a_count_that_changed_differs():
    verdict = found(once("a"), once("b", parameters=12))[COUNT]
    assert (verdict.verdict, verdict.found) == (DIFFERS, 12)
    assert verdict.reason == "20.00% more than was measured first"


def test_a_size_which_depends_on_the_paths_of_the_code_is_announced_and_not_judged():
    first = once("a")
    assert SIZE in expectations([first])[first.trial.trial_id]
    verdicts = found(first, once("b", build=build("weights", 1200)))
    assert SIZE not in verdicts
    assert overall(list(verdicts.values())) == REPRODUCED


def test_outputs_that_are_no_longer_the_models_differ():
    assert found(once("a"), once("b", parity=DISAGREES))[OUTPUTS].verdict == DIFFERS


def test_a_failure_is_not_comparable():
    (again,) = session("b", (EAGER, failed(EAGER)))
    (verdict,) = found(once("a"), again).values()
    assert verdict.verdict == NOT_COMPARABLE
    assert "no memory" in verdict.reason


def test_a_gain_is_judged_by_its_pairs_whatever_the_machine_does():
    a, b = (
        once(name, call_ns, of=FAST, baseline_ns=2 * call_ns, canaries_ns=None)
        for name, call_ns in (("a", 5e5), ("b", 8e5))
    )
    assert found(a, b)[SPEEDUP].verdict == REPRODUCED
    less = once("b", 5e5, of=FAST, baseline_ns=9e5)
    assert found(a, less)[SPEEDUP].verdict == DIFFERS


def test_a_control_of_the_baseline_is_no_gain():
    a, b = once("a"), once("b")
    pairs = ((1e6, 1.01e6),)
    a = replace(a, evidence=replace(a.evidence, pairs_ns=pairs))
    assert found(a, b).keys() == found(once("a"), b).keys()
    assert SPEEDUP not in expectations([a])[a.trial.trial_id]


def test_one_process_has_no_interval_to_fall_into():
    verdict = found(once("a", processes=1), once("b"))[LATENCY]
    assert verdict.verdict == NOT_COMPARABLE
    assert "spread is unknown" in verdict.reason


def test_an_interval_into_which_nearly_anything_falls_reproduces_nothing():
    first = once("a", process_spread=0.8, processes=4)
    verdict = found(first, once("b"))[LATENCY]
    assert verdict.verdict == NOT_COMPARABLE
    assert "first processes differ so much" in verdict.reason


def test_what_is_expected_is_stated_before_anything_is_measured_again():
    a = once("a")
    announced = expectations([a])[a.trial.trial_id][LATENCY]
    judged_by = found(a, once("b", canaries_ns=(CANARY_NS, CANARY_NS)))[LATENCY].expected
    assert (judged_by.low, judged_by.high) == pytest.approx((announced.low, announced.high))
    assert judged_by == replace(announced, low=judged_by.low, high=judged_by.high)
