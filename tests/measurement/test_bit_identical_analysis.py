"""Whatever was published follows again, to the last bit, from the raw series on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from benchorch.cli.commands import report
from benchorch.config.composer import Composer
from benchorch.domain.codec import encode
from benchorch.domain.trial import Plan
from benchorch.journal import reader, run_directory
from benchorch.results.compare.load_run import derive, load
from benchorch.results.metrics.summary import summarise
from benchorch.results.report.console import ConsoleReport
from benchorch.run import invocation as pipeline
from benchorch.stats.sequential_testing import USUAL_LOOKS
from support.synthetic_runs import DISAGREES, failed, result, trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
ALIKE = trial("alike", baseline=EAGER)
WRONG = trial("wrong", baseline=EAGER)
BROKEN = trial("broken", baseline=EAGER)
RESULTS = (
    result(EAGER, 1.1e6, process_spread=0.02),
    result(FAST, 3.3e5, baseline_ns=1.1e6, process_spread=0.02, stop_looks=USUAL_LOOKS),
    result(ALIKE, 1.1e6, seed=3, baseline_ns=1.1e6, steady=False),
    result(WRONG, 2e5, baseline_ns=1.1e6, parity=DISAGREES),
    failed(BROKEN),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as the pipeline itself publishes it, but for what would have to be measured."""
    directory = tmp_path_factory.mktemp("o7") / "run"
    with (directory.parent / "said.txt").open("w") as said:
        trials = (EAGER, FAST, ALIKE, WRONG, BROKEN)
        plan = Plan(plan_id="o7", name="o7", trials=trials, skips=(), session={})
        invocation = pipeline.Invocation(
            composer=cast(Composer, None),  # composes nothing: the plan is there
            directory=directory,
            report=ConsoleReport(Console(file=said, width=160)),
            plan_id="o7",
            plan=plan,
        )
        directory.mkdir()
        run_directory.write_plan(directory, plan)
        invocation._specs.update({one.trial_id: one.spec for one in trials})
        invocation.report.plan(plan, done=0)
        for one in RESULTS:
            invocation._accept([one])
        invocation.close(complete=True)
    return directory


def lines(run: Path) -> dict[str, Mapping[str, Any]]:
    written = (run / run_directory.RESULTS).read_text().splitlines()
    return {line["trial_id"]: line for line in map(json.loads, written)}


def test_what_is_read_back_is_what_was_observed(run: Path) -> None:
    assert tuple(reader.read_results(run)) == RESULTS


def test_every_published_metric_follows_again_to_the_last_bit(run: Path) -> None:
    found = {one.trial_id: one for one in reader.read_results(run)}
    for trial_id, line in lines(run).items():
        again = found[trial_id]
        summary = summarise(again, found.get(again.baseline_id or ""))
        assert json.dumps(pipeline.plain_metrics(summary)) == json.dumps(line["metrics"])
    assert len(lines(run)[FAST.trial_id]["metrics"]) > 20


def test_the_published_table_follows_again_letter_by_letter(run: Path, tmp_path: Path) -> None:
    again = tmp_path / "table.md"
    report.run.reply([str(run), "--output", str(again)])
    assert again.read_text() == (run / run_directory.TABLE).read_text()


def test_what_is_exported_is_what_was_derived(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    report.run.reply([str(run), "--json", "--output", str(kept)])
    derived = derive(run, "run")
    assert load(str(kept)).run_results().summaries == derived.summaries
    exported = {one["trial_id"]: one for one in json.loads(kept.read_text())["trials"]}
    for trial_id, summary in derived.summaries.items():
        told = json.loads(json.dumps(encode(summary)))
        assert {key: exported[trial_id][key] for key in told} == told


def test_the_order_in_which_trials_ended_changes_nothing(run: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned"
    turned.mkdir()
    run_directory.write_plan(turned, run_directory.read_plan(run))
    for one in reversed(RESULTS):
        run_directory.append_result(turned, one, {})
    assert derive(turned, "x").summaries == derive(run, "x").summaries
