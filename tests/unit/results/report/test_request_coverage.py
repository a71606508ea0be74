"""What was requested and has no figure is a part of every conclusion."""

from __future__ import annotations

from dataclasses import replace

from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.results.compare.load_run import stored
from benchorch.results.report.tables import Conclusion, conclusions
from benchorch.scenarios.server import Server
from support.load_runs import process, run
from support.synthetic_runs import DISAGREES, failed, result, run_results, trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
OTHER = trial("other", baseline=EAGER)
OF_EAGER = result(EAGER, 1.1e6)
OF_FAST = result(FAST, 3.3e5, baseline_ns=1.1e6)


def skip(conversion: str, *, requested: bool = True) -> Skip:
    reason = "needs tensorrt, which is not installed."
    labels = {**FAST.labels, "conversion": conversion}
    return Skip(labels=labels, reason=reason, requested=requested)


def concluded(*found: tuple[Trial, TrialResult | None], skips: tuple[Skip, ...] = ()) -> Conclusion:
    plan = Plan(plan_id="p", name="n", trials=tuple(t for t, _ in found), skips=skips, session={})
    results = {trial.trial_id: one for trial, one in found if one is not None}
    (only,) = conclusions(run_results(plan, results))
    return only


def test_a_winner_is_told_with_how_many_it_beat() -> None:
    found = concluded((EAGER, OF_EAGER), (FAST, OF_FAST))
    assert "fast on local is fastest of 2, " in found.sentence
    assert found.sentence.endswith("the outputs agree.")


def test_what_failed_or_was_skipped_is_a_part_of_the_sentence() -> None:
    found = concluded(
        (EAGER, OF_EAGER), (FAST, OF_FAST), (OTHER, failed(OTHER)), skips=(skip("tensorrt"),)
    )
    assert "is fastest of 2 of 4, " in found.sentence
    assert found.sentence.endswith(
        "; other failed (oom), tensorrt skipped (needs tensorrt, which is not installed)."
    )


def test_what_has_not_run_or_is_another_model_is_a_part_of_the_sentence() -> None:
    wrong = replace(result(OTHER, 1e5, baseline_ns=1.1e6), parity=DISAGREES)
    found = concluded((EAGER, OF_EAGER), (FAST, None), (OTHER, wrong))
    assert found.sentence.endswith(
        "; fast not run, other not the same model; partial, because not every trial has ended."
    )


def test_an_unstable_queue_is_told_as_that() -> None:
    unstable = process(run(Server(rate_per_s=1050, duration_s=20, seed=1)))
    overloaded = replace(result(FAST), processes=(unstable,))
    found = concluded((EAGER, OF_EAGER), (FAST, overloaded))
    assert found.sentence.endswith("; fast unstable.")
    plan = Plan(plan_id="p", name="n", trials=(EAGER, FAST), skips=(), session={})
    run_ = run_results(plan, {EAGER.trial_id: OF_EAGER, FAST.trial_id: overloaded})
    (kept,) = conclusions(stored(run_, "p").run_results())
    assert kept == found


def test_a_default_that_this_machine_cannot_run_was_not_requested() -> None:
    found = concluded(
        (EAGER, OF_EAGER), (FAST, OF_FAST), skips=(skip("tensorrt", requested=False),)
    )
    assert "is fastest of 2, " in found.sentence


def test_an_undecided_candidate_is_named() -> None:
    close = result(OTHER, 1.1e6, baseline_ns=1.1e6, process_spread=0.2, processes=3)
    found = concluded((EAGER, OF_EAGER), (FAST, OF_FAST), (OTHER, close))
    assert found.coverage.undecided == ("other",)
    assert "undecided against the baseline: other" in found.sentence


def test_a_candidate_that_was_refused_a_verdict_is_not_among_those_that_were_beaten() -> None:
    unlike = result(OTHER, 1.1e6, baseline_ns=1.1e6, threads=1)
    found = concluded((EAGER, OF_EAGER), (FAST, OF_FAST), (OTHER, unlike))
    assert "is fastest of 2 of 3, " in found.sentence
    assert "undecided against the baseline: other" in found.sentence


def test_an_interrupted_run_has_a_partial_conclusion() -> None:
    found = concluded((EAGER, OF_EAGER), (FAST, replace(OF_FAST, unfinished=True)))
    assert found.sentence.endswith("; partial, because not every trial has ended.")


def test_many_that_are_missing_are_counted() -> None:
    skips = tuple(skip(f"c{number}") for number in range(6))
    found = concluded((EAGER, OF_EAGER), (FAST, OF_FAST), skips=skips)
    assert found.sentence.endswith("c2 skipped (needs tensorrt, which is not installed), 3 others.")


def test_a_case_of_which_everything_was_skipped_has_a_conclusion_too() -> None:
    labels = {**EAGER.labels, "model": "other_model"}
    lost = replace(skip("tensorrt"), labels={**labels, "conversion": "tensorrt"})
    plan = Plan(plan_id="p", name="n", trials=(EAGER,), skips=(lost,), session={})
    found = conclusions(run_results(plan, {EAGER.trial_id: OF_EAGER}))
    assert found[1].sentence.startswith("other_model")
    assert "tensorrt skipped" in found[1].sentence
