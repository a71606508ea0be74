"""What a check finds in a run, and what of it follows from the raw series."""

import dataclasses
import json

import pytest

from benchorch.cli import main
from benchorch.domain.result import Outcome
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.files import write_json, write_text
from benchorch.journal import run_directory
from benchorch.journal.reader import read_results
from benchorch.results.metrics.summary import finding
from benchorch.results.report.tables import full_markdown
from benchorch.run.check import FAILS, HOLDS, UNCHECKED, check
from benchorch.run.invocation import plain_metrics
from support.synthetic_runs import failed, result, run_results, trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
BROKEN = trial("broken", baseline=EAGER)


@pytest.fixture
def run(tmp_path):
    return written(tmp_path / "run", result(FAST, 5e5, baseline_ns=1e6))


def written(directory, fast, metrics=None):
    """A run as the pipeline leaves it."""
    directory.mkdir()
    plan = Plan(plan_id="p", name="n", trials=(EAGER, FAST, BROKEN), skips=(), session={})
    run_directory.write_plan(directory, plan)
    eager = result(EAGER)
    for one, baseline in ((eager, None), (fast, eager), (failed(BROKEN), eager)):
        figures = metrics or plain_metrics(finding(one, baseline).alone())
        run_directory.append_result(directory, one, {"metrics": figures})
        folder = run_directory.trial_directory(directory, one.trial_id)
        write_json(folder / "environment.json", dict(one.environment))
    results = {one.trial_id: one for one in read_results(directory)}
    text = full_markdown(run_results(plan, results))
    write_text(directory / run_directory.TABLE, text)
    return directory


def verdicts(run):
    return {one.name: one.verdict for one in check(run)}


def only_failing(run):
    (found,) = [one for one in check(run) if one.verdict == FAILS]
    return found.name, " ".join(found.problems)


def test_all_of_a_sound_run_holds(run, capsys):
    assert set(verdicts(run).values()) == {HOLDS}
    assert main.run(["check", str(run)]) == 0
    assert "All that was checked holds" in capsys.readouterr().out


def test_an_edited_series_fails_and_is_named(run, capsys):
    path = run_directory.series_path(run, FAST.trial_id)
    path.write_text(path.read_text().replace("1", "2", 1))
    assert verdicts(run)["raw series"] == FAILS
    assert main.run(["check", str(run), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is False
    problems = {one["name"]: one["problems"] for one in told["findings"]}
    assert f"{FAST.trial_id}/observations.jsonl was changed" in problems["raw series"][0]


def test_a_figure_that_the_series_do_not_give_fails(tmp_path):
    run = written(tmp_path / "run", result(FAST, 5e5, baseline_ns=1e6), {"latency_ms/p50": 0.5})
    name, told = only_failing(run)
    assert name == "figures"
    assert "latency_ms/p50 is stored as 0.5, its series give " in told


def test_a_figure_that_no_series_gives_fails(tmp_path):
    energy = {"energy_mj_per_item/mean": 0.5}
    name, told = only_failing(written(tmp_path / "run", result(FAST, 5e5, baseline_ns=1e6), energy))
    assert name == "figures"
    assert "energy_mj_per_item/mean is stored as 0.5, its series give none" in told


def test_an_edited_table_fails(run):
    path = run / run_directory.TABLE
    path.write_text(path.read_text().replace("fast", "slow", 1))
    assert only_failing(run)[0] == "table"


def test_an_edited_environment_fails(run):
    write_json(run / "trials" / EAGER.trial_id / "environment.json", {"host": "other"})
    assert only_failing(run)[0] == "environment"


def test_outputs_that_were_never_compared_fail(tmp_path):
    fast = dataclasses.replace(result(FAST, 5e5, baseline_ns=1e6), parity=None)
    name, told = only_failing(written(tmp_path / "run", fast))
    assert name == "parity"
    assert "were not compared" in told


def test_a_result_without_a_counted_process_fails(tmp_path):
    fast = dataclasses.replace(result(FAST, 5e5, baseline_ns=1e6), processes=())
    assert fast.outcome is Outcome.OK
    assert verdicts(written(tmp_path / "run", fast))["protocol"] == FAILS


def test_a_deleted_line_fails(run):
    path = run / run_directory.RESULTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    found = verdicts(run)
    assert (found["lines"], found["results"]) == (FAILS, FAILS)


def test_a_run_of_before_is_not_checked_where_it_cannot_be(run):
    path = run / run_directory.RESULTS
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for name in ("before", "digest", "series_digest"):
            line.pop(name, None)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = verdicts(run)
    assert (found["lines"], found["raw series"], found["figures"]) == (UNCHECKED, UNCHECKED, HOLDS)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="check: "):
        main.run(["check", str(tmp_path)])
