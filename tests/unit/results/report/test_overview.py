"""What is said of sweeps that nobody would read row by row."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.result import Failure, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.journal import certificates
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.console import MOST_ROWS, ConsoleReport
from benchorch.results.report.overview import alike_failures, alike_skips, overview_rows, some_of
from benchorch.results.report.tables import full_markdown
from support.calibrated_machines import machine
from support.synthetic_runs import DISAGREES, OOM, failed, result, trial

SOMEWHERE = Path("somewhere")
Results = dict[str, TrialResult]
Summaries = dict[str, Summary]


def told(ms: float, *, faster: bool = False) -> Summary:
    def estimate(value: float, unit: str) -> Estimate:
        return Estimate(
            value=value, low=None, high=None, level_ratio=0.95, n=5, unit=unit, method="told"
        )

    ratio = Comparison(ratio=estimate(2.0, "ratio"), verdict="faster", design="alternated")
    speedup = ratio if faster else None
    metrics = {"latency_ms/p50": estimate(ms, "ms")}
    return Summary(metrics=metrics, speedup=speedup, steady=True, warnings=("Doubtful.",))


def sweep(cases: int) -> tuple[Plan, Results, Summaries]:
    """Eager, a conversion that is always shown to be faster, and one that is always wrong."""
    trials: list[Trial] = []
    results: Results = {}
    summaries: Summaries = {}
    for case in range(cases):
        eager = trial(workload={"batch_size": case + 1})
        fast = trial("fast", baseline=eager, workload={"batch_size": case + 1})
        wrong = trial("wrong", baseline=eager, workload={"batch_size": case + 1})
        trials += [eager, fast, wrong]
        for one, summary in ((eager, told(2)), (fast, told(1, faster=True)), (wrong, told(0.5))):
            parity = {"parity": DISAGREES} if one is wrong else {}
            results[one.trial_id] = result(one, processes=1, **parity)
            summaries[one.trial_id] = replace(summary, best=(fast.trial_id,))
    plan = Plan(plan_id="p", name="n", trials=tuple(trials), skips=(), session={})
    return plan, results, summaries


def run_of(
    plan: Plan, results: Results, summaries: Summaries, directory: Path = SOMEWHERE
) -> RunResults:
    return RunResults(directory=directory, plan=plan, results=results, summaries=summaries)


def shown(plan: Plan, results: Results, summaries: Summaries) -> str:
    said = StringIO()
    report = ConsoleReport(Console(file=said, width=200))
    report.plan(plan, done=0)
    report.table(run_of(plan, results, summaries))
    return said.getvalue()


def test_a_row_counts_what_came_of_a_model_on_a_machine() -> None:
    plan, results, summaries = sweep(3)
    lost, broken, second = (plan.trials[i].trial_id for i in (1, 4, 3))
    del results[lost]
    results[broken] = failed(plan.trials[4])
    (_, row) = overview_rows(run_of(plan, results, summaries))
    assert row[:3] == ("mlp", "local", "single_stream")
    assert row[3] == "4 ok, 3 not the same model, 1 failed, 1 not run"
    assert row[4:] == ("eager in 2, fast in 1 of 3", "1 of 3")
    summaries[second] = told(0.1)  # a better figure; but in pairs the other one was faster
    assert overview_rows(run_of(plan, results, summaries))[1][4:] == row[4:]


def test_a_table_that_can_be_read_is_shown_row_by_row() -> None:
    said = shown(*sweep(MOST_ROWS // 3))
    assert "batch_size=33 fast" in said
    assert "best figure" not in said.partition("\n\n")[0]


def test_of_a_longer_one_an_overview_is_shown_and_where_the_rows_are() -> None:
    plan, results, summaries = sweep(MOST_ROWS // 3 + 1)
    said = shown(plan, results, summaries)
    assert "batch_size=33 fast" not in said
    assert "fast in 34 of 34" in said
    assert "68 ok, 34 not the same model" in said
    assert f"every row  {SOMEWHERE / 'table.md'}" in said
    assert "report p --output report.html" in said
    assert "fast on local has the best figure in 34 of 34 cases" in said
    assert "and 99 more: Doubtful." in said
    assert len(said.splitlines()) < 30
    text = full_markdown(run_of(plan, results, summaries))
    assert all(f"| batch_size={n} {name} |" in text for n in (1, 34) for name in ("eager", "fast"))
    assert text.count("is fastest") == 34
    assert "more" not in text


def test_notes_that_differ_in_numbers_alone_are_one_note() -> None:
    plan, results, summaries = sweep(1)
    words = ("3 of 4 processes were slow.", "1 of 2 processes were slow.", "A third matter.")
    for trial_id, told_of in zip(summaries, words, strict=True):
        summaries[trial_id] = replace(summaries[trial_id], warnings=(told_of,))
    notes = [line for line in shown(plan, results, summaries).splitlines() if "note" in line]
    assert notes == [
        "note eager: 3 of 4 processes were slow. Likewise fast.",
        "note wrong: A third matter.",
    ]
    assert all(f": {each}" in full_markdown(run_of(plan, results, summaries)) for each in words)


def test_notes_of_the_stored_table_come_in_the_order_of_the_plan() -> None:
    plan, results, summaries = sweep(2)
    later_first = dict(reversed(summaries.items()))
    text = full_markdown(run_of(plan, results, summaries))
    assert full_markdown(run_of(plan, results, later_first)) == text


def test_an_overview_that_is_too_long_itself_is_cut() -> None:
    plan, results, summaries = sweep(MOST_ROWS)
    others = tuple(
        replace(one, labels={**one.labels, "model": f"m{number % (MOST_ROWS + 7)}"})
        for number, one in enumerate(plan.trials)
    )
    said = shown(replace(plan, trials=others), results, summaries)
    assert "m99 " in said
    assert "m100 " not in said
    assert "and 7 more models and machines" in said


def test_equal_failures_are_listed_once() -> None:
    plan, results, summaries = sweep(6)
    other = replace(OOM, message="another kind of trouble")
    for number, one in enumerate(plan.trials):
        results[one.trial_id] = failed(one, other if number == 7 else OOM)
    first, second = alike_failures(results.values())
    assert (first.failure, len(first.trial_ids)) == (OOM, 17)
    assert second.trial_ids == [plan.trials[7].trial_id]
    said = shown(plan, results, summaries)
    assert said.count("oom in measure") == 2
    assert "and 14 more: oom in measure" in said
    assert f"trials/{plan.trials[7].trial_id}/log.txt" in said


def test_many_kinds_of_failure_are_counted() -> None:
    plan, results, summaries = sweep(6)
    for number, one in enumerate(plan.trials):
        failure = Failure(stage="build", kind="build_refused", message=f"operator {number}")
        results[one.trial_id] = failed(one, failure)
    said = shown(plan, results, summaries)
    assert said.count("build_refused in build") == 10
    assert f"and 8 more failures, each in {SOMEWHERE / 'results.jsonl'}" in said


@pytest.mark.parametrize("reasons", [1, 30])
def test_many_skips_are_listed_by_reason(reasons: int) -> None:
    skips = [
        Skip(labels={"model": f"m{n}"}, reason=f"needs {n % reasons} GPUs.") for n in range(60)
    ]
    assert sum(count for _, count in alike_skips(skips)) == 60
    plan, results, summaries = sweep(1)
    said = shown(replace(plan, skips=tuple(skips)), results, summaries)
    assert said.count("skip ") == min(reasons, 20) + (reasons > 20)
    assert "(59 more like it)" in said if reasons == 1 else "20 more cells; see plan.json" in said


def test_a_list_of_names_is_cut_where_that_is_shorter() -> None:
    assert some_of(["a", "b", "c", "d"]) == "a, b, c, d"
    assert some_of([*"abcde"]) == "a, b, c and 2 more"


def test_the_page_and_where_mlflow_shows_the_run_are_printed(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    ids = {"uri": "sqlite:////x/mlflow.db", "experiment_id": "3", "parent_run_id": "abc"}
    (tmp_path / "tracking.json").write_text(json.dumps(ids))
    said = StringIO()
    ConsoleReport(Console(file=said, width=200)).closing(sweep(1)[0], tmp_path, recorded=True)
    assert f"page      {(tmp_path / 'report.html').as_uri()}" in said.getvalue()
    link = "http://127.0.0.1:5000/#/experiments/3/runs/abc?workflowType=machine_learning"
    assert f"MLflow    benchorch ui   then {link}" in said.getvalue()
    table = "runs?workflowType=machine_learning&viewStateShareKey=benchorch"
    assert f"table     http://127.0.0.1:5000/#/experiments/3/{table}" in said.getvalue()


def test_without_a_tracker_no_user_interface_is_offered(tmp_path: Path) -> None:
    said = StringIO()
    ConsoleReport(Console(file=said, width=200)).closing(sweep(1)[0], tmp_path, recorded=True)
    assert "MLflow" not in said.getvalue()
    assert "benchorch ui" not in said.getvalue()
    assert "mlflow" not in said.getvalue()


def test_the_next_commands_show_the_run_and_export_its_one_winner(tmp_path: Path) -> None:
    plan, results, summaries = sweep(1)
    said = StringIO()
    report = ConsoleReport(Console(file=said, width=200))
    report.closing(plan, tmp_path, recorded=True)
    shown = f"next      python -m benchorch open {plan.plan_id}"
    assert said.getvalue().splitlines()[-1] == shown
    report.table(run_of(plan, results, summaries, tmp_path))
    report.closing(plan, tmp_path, recorded=True)
    export = f"          python -m benchorch export {plan.plan_id} --output FOLDER"
    assert said.getvalue().splitlines()[-2:] == [shown, export]
    report.closing(plan, tmp_path, recorded=True, whole=False)
    assert said.getvalue().splitlines()[-1] == shown  # what has not ended has no winner yet


@pytest.mark.parametrize(("host", "lines"), [("h", 1), ("elsewhere", 0)])
def test_what_the_machine_can_tell_is_below_the_table_that_it_measured(
    host: str, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    certificates.keep(machine(process_sd=0.01, host="h", cpu_model="c"))
    plan, results, summaries = sweep(1)
    environment = {"host": host, "cpu_model": "c"}
    measured = {name: replace(one, environment=environment) for name, one in results.items()}
    said = shown(plan, measured, summaries)
    assert said.count("machine   finds in 90%") == lines
