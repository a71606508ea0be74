"""At the end of a sweep nothing is derived, read or looked at that is known or not asked for."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from benchorch import files
from benchorch.cli.commands import compare, report
from benchorch.cli.commands.sweep_status import read_sweep
from benchorch.config.composer import Composer
from benchorch.domain.codec import decode
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.spending import Spending
from benchorch.domain.trial import Plan, Skip
from benchorch.errors import ConfigError, ExecutorError, RecordError
from benchorch.interfaces.executor import Executor
from benchorch.journal import chain, reader, run_directory
from benchorch.journal.lock import acquire_lock, is_running, read_coordinator
from benchorch.journal.registry import remember
from benchorch.results.compare.load_run import derive
from benchorch.results.metrics import summary
from benchorch.results.pricing.sweep_history import SweepCost
from benchorch.results.report.console import ConsoleReport
from benchorch.run import invocation as pipeline
from benchorch.run.check import check
from benchorch.run.sidecar import Sidecar
from support.synthetic_runs import AGREES, DISAGREES, failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
BROKEN = trial("broken", baseline=EAGER)
TRIALS = (EAGER, FAST, BROKEN)
OF_EAGER = result(EAGER, 1.1e6)
OF_FAST = result(FAST, 3.3e5, baseline_ns=1.1e6)
OF_BROKEN = failed(BROKEN)


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what follows from each trial is worked out."""
    counts: Counter[str] = Counter()
    real = summary.finding

    def counting(found: TrialResult, baseline: TrialResult | None) -> summary.TrialFindings:
        counts[found.labels["conversion"]] += 1
        return real(found, baseline)

    monkeypatch.setattr(summary, "finding", counting)
    return counts


def run(directory: Path, results: Sequence[TrialResult]) -> pipeline.Invocation:
    """A run to whose end nothing but the closing is missing."""
    plan = Plan(plan_id="p", name="n", trials=TRIALS, skips=(), session={})
    invocation = pipeline.Invocation(
        composer=cast(Composer, None),  # composes nothing: the plan is there
        directory=directory,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
        plan=plan,
    )
    directory.mkdir()
    run_directory.write_plan(directory, plan)
    invocation._specs.update({one.trial_id: one.spec for one in TRIALS})
    for one in results:
        invocation._accept([one])
    return invocation


def test_what_was_derived_when_a_result_came_is_not_derived_again(
    tmp_path: Path, derived: Counter[str]
) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST, OF_BROKEN))
    assert derived == {"eager": 1, "fast": 1, "broken": 1}
    invocation.close(complete=True)
    assert invocation.summaries()
    assert derived == {"eager": 1, "fast": 1, "broken": 1}


def test_a_trial_whose_baseline_came_later_is_looked_at_with_it(
    tmp_path: Path, derived: Counter[str]
) -> None:
    late = run(tmp_path / "late", (OF_FAST, OF_BROKEN, OF_EAGER))
    late.close(complete=True)
    assert derived == {"eager": 1, "fast": 2, "broken": 2}
    assert late.summaries() == summary.summarise_all(late.results)
    assert late.summaries() == run(tmp_path / "x", (OF_EAGER, OF_FAST, OF_BROKEN)).summaries()


def test_a_row_says_the_same_in_rounds_at_its_end_and_in_the_table(tmp_path: Path) -> None:
    trials = [trial(f"c{number}", baseline=EAGER) for number in range(6)]
    four = [
        result(one, 1.06e6, seed=n, processes=4, process_spread=0.01, baseline_ns=1.1e6)
        for n, one in enumerate(trials)
    ]
    invocation = run(tmp_path / "run", (result(EAGER, 1.1e6, processes=4),))
    invocation._specs.update({one.trial_id: one.spec for one in trials})
    live = invocation.report._live
    live.begin({one.trial_id: one.labels["conversion"] for one in trials})
    for one in four:
        invocation._accept([replace(one, unfinished=True)])
    in_rounds = {name: (row.figure, row.verdict) for name, row in live.rows.items()}
    for one in four:
        invocation._accept([one])
    at_the_end = {name: (row.figure, row.verdict) for name, row in live.rows.items()}
    assert at_the_end == in_rounds
    live.figures(four, invocation.summaries())
    assert {name: (row.figure, row.verdict) for name, row in live.rows.items()} == in_rounds


def test_another_result_of_a_trial_takes_the_place_of_the_first(tmp_path: Path) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST, OF_BROKEN))
    invocation._accept([result(EAGER, 5e6, seed=1)])
    found = invocation.summaries()[EAGER.trial_id].metrics["latency_ms/p50"].value
    assert found == pytest.approx(5, rel=0.1)


def test_what_machines_cost_is_kept_beside_what_was_expected(tmp_path: Path) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST, OF_BROKEN))
    invocation._status.begin()
    invocation._expected_usd.extend((0.3, 0.2, None))
    spending = Spending(usd=0.4, machines={"g5.xlarge": 1}, launch_s={"g5.xlarge": 95.0})
    invocation._on_event(Event.of_spending(spending))
    invocation.close(complete=True)
    found = decode(SweepCost, json.loads((tmp_path / "run" / "cost.json").read_text()))
    assert (found.expected_usd, found.spent_usd) == (0.5, 0.4)
    assert found.launch_s == {"g5.xlarge": 95.0}
    assert {one.trial_id for one in found.trials} <= {EAGER.trial_id, FAST.trial_id}


def test_a_run_without_launched_machines_keeps_no_cost(tmp_path: Path) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST, OF_BROKEN))
    invocation._status.begin()
    invocation.close(complete=True)
    assert not (tmp_path / "run" / "cost.json").exists()


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often metrics are worked out, by how many processes they are of."""
    counts: Counter[int] = Counter()
    real = summary.metrics_of

    def counting(found: TrialResult, baseline: TrialResult | None) -> Any:
        counts[len(found.processes)] += 1
        return real(found, baseline)

    monkeypatch.setattr(summary, "metrics_of", counting)
    return counts


def test_single_processes_are_looked_at_only_where_runs_are_compared_or_exported(
    tmp_path: Path, looked_at: Counter[int]
) -> None:
    there = str(write_run(tmp_path / "run", (EAGER, OF_EAGER), (FAST, OF_FAST)))
    report.run.reply([there])
    for suffix in (".md", ".csv", ".html"):
        report.run.reply([there, "--output", str(tmp_path / f"report{suffix}")])
    assert looked_at == {10: 8}
    report.run.reply([there, "--json"])
    assert looked_at == {10: 10, 1: 20}
    compare.run.reply([there, there])
    assert looked_at == {10: 14, 1: 60}


def test_every_line_of_a_run_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = write_run(tmp_path / "run", (EAGER, OF_EAGER), (FAST, OF_FAST))
    decoded = []

    def counting(line: str | bytes) -> Any:
        decoded.append(line)
        return json.loads(line)

    monkeypatch.setattr(run_directory, "json", SimpleNamespace(loads=counting))
    monkeypatch.setattr(chain, "json", SimpleNamespace(loads=counting))
    monkeypatch.setattr(files, "json", SimpleNamespace(loads=counting))
    report.run.reply([str(there)])
    assert len(decoded) == 1 + 2 + 2 * 10  # the plan, two results, the series of their processes


SESSION: dict[str, Any] = {"cwd": ".", "rebuild": "changed"}


class MeasuresNothing:
    """An executor that returns no result."""

    def is_simulated(self) -> bool:
        return False

    def measures_in_rounds(self, hardware_kind: str) -> bool:
        return True

    def run_grouped(
        self, trials: object, work: object, emit: object
    ) -> Iterator[Sequence[TrialResult]]:
        return iter(())


@dataclass
class Unreachable:
    """A sidecar that could not copy everything."""

    reason: str = "database is locked"

    def finish(self, *, complete: bool, waiting: object) -> bool:
        return False


@pytest.mark.parametrize(("required", "code"), [(True, 1), (False, 0)])
def test_a_run_whose_tracker_is_required_fails_where_it_lacks_results(
    tmp_path: Path, required: bool, code: int
) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST))
    assert invocation.plan is not None
    invocation.plan = replace(
        invocation.plan, trials=(EAGER, FAST), session={"tracking": {"required": required}}
    )
    invocation._recorder = cast(Sidecar, Unreachable())
    assert invocation.close(complete=True) == code
    printed = invocation.report._console.file.getvalue()  # type: ignore[attr-defined]
    assert "lacks results: database is locked" in printed


@pytest.mark.parametrize("what", ["table.md", "results.jsonl"])
def test_a_run_ends_where_its_last_files_cannot_be_written(tmp_path: Path, what: str) -> None:
    directory = tmp_path / "run"
    invocation = run(directory, (OF_EAGER, OF_FAST))
    invocation.open()
    if what == "results.jsonl":
        invocation.unfinished = {BROKEN.trial_id: OF_BROKEN}
    (directory / what).unlink(missing_ok=True)
    (directory / what).mkdir()
    with pytest.raises(RecordError, match="could not be written"):
        invocation.close(complete=False)
    assert not is_running(directory)


def test_a_run_that_cannot_store_a_result_ends(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    invocation = run(directory, (OF_EAGER,))
    invocation.open()
    (directory / "results.jsonl").unlink()
    (directory / "results.jsonl").mkdir()
    with pytest.raises(RecordError, match="could not be written"):
        invocation._accept([OF_FAST])
    (directory / "table.md").mkdir()  # as good as a full disk
    invocation.abandon()
    assert not is_running(directory)


def test_of_a_result_that_cannot_be_stored_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    invocation = run(directory, (OF_EAGER, OF_BROKEN))
    real = files.write_bytes

    def nearly_full(path: Path, content: bytes) -> None:
        if path.name == run_directory.OBSERVATIONS:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(run_directory, "write_bytes", nearly_full)
    with pytest.raises(RecordError, match="could not be written"):
        invocation._accept([OF_FAST])
    invocation.abandon()
    assert list(invocation.results) == [EAGER.trial_id, BROKEN.trial_id]
    assert not (directory / run_directory.WINNER).exists()
    assert "fast not run" in (directory / run_directory.TABLE).read_text()
    assert "export" not in invocation.report._console.file.getvalue()  # type: ignore[attr-defined]


def going_on(of: TrialResult, processes: int) -> TrialResult:
    return replace(of, processes=of.processes[:processes], unfinished=True)


def test_what_was_measured_before_a_kill_is_there(tmp_path: Path) -> None:
    run(tmp_path / "run", (OF_EAGER, going_on(OF_FAST, 1), going_on(OF_FAST, 2)))
    found = run_directory.read_rounds(tmp_path / "run", FAST.trial_id)
    assert found is not None
    assert found.processes == OF_FAST.processes[:2]


def test_results_that_come_together_are_durable_before_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invocation = run(tmp_path / "run", ())
    stored: list[int] = []

    def reported(found: TrialResult, _: object) -> None:
        stored.append(len(reader.read_results(tmp_path / "run")))

    monkeypatch.setattr(invocation.report, "result", reported)
    invocation._accept([OF_EAGER, going_on(OF_FAST, 1), OF_BROKEN])
    assert stored == [2, 2]
    assert list(invocation.unfinished) == [FAST.trial_id]
    assert run_directory.read_rounds(tmp_path / "run", FAST.trial_id) is not None


def test_an_interrupted_trial_has_a_result_that_is_not_final(tmp_path: Path) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, going_on(OF_FAST, 4)))
    assert invocation.close(complete=False) == 1
    stored = {one.trial_id: one for one in reader.read_results(tmp_path / "run")}
    assert len(stored[FAST.trial_id].processes) == 4
    assert [stored[one.trial_id].is_final for one in (EAGER, FAST)] == [True, False]


@pytest.mark.parametrize(
    ("requested", "allowed", "code"),
    [
        (False, False, 0),
        (True, False, 1),
        (True, True, 0),
    ],
)
def test_a_requested_conversion_that_cannot_run_changes_the_exit_code(
    tmp_path: Path, requested: bool, allowed: bool, code: int
) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, OF_FAST))
    skip = Skip(labels=FAST.labels, reason="because", requested=requested)
    assert invocation.plan is not None
    invocation.plan = replace(invocation.plan, trials=(EAGER, FAST), skips=(skip,))
    invocation.terms = pipeline.RunTerms(allow_skips=allowed)
    assert invocation.close(complete=True) == code


@pytest.mark.parametrize(
    ("results", "left"),
    [
        ((OF_EAGER, OF_FAST, OF_BROKEN), False),
        ((OF_EAGER, OF_FAST), True),
    ],
)
def test_only_a_run_with_something_left_says_how_to_resume(
    tmp_path: Path, results: Sequence[TrialResult], left: bool
) -> None:
    written = StringIO()
    invocation = run(tmp_path / "run", results)
    invocation.report = ConsoleReport(Console(file=written, width=160))
    invocation.close(complete=True)
    assert ("resume" in written.getvalue()) is left


def test_a_run_beside_another_says_that_they_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    other = write_run(tmp_path / "other", (EAGER, None))
    remember("plan-other", other)
    said = {}
    for name, alone in (("beside", False), ("alone", True)):
        written = StringIO()
        invocation = run(tmp_path / name, ())
        invocation.report = ConsoleReport(Console(file=written, width=160))
        assert invocation.plan is not None
        plan = replace(invocation.plan, session=SESSION)
        with contextlib.ExitStack() as stack:
            if not alone:
                stack.enter_context(acquire_lock(other))
            invocation.run_plan(plan, cast(Executor, MeasuresNothing()))
        said[name] = written.getvalue()
    assert f"{other} is going on, too" in said["beside"]
    assert "disturb each other" in said["beside"]
    assert "disturb" not in said["alone"]


def test_a_finished_run_that_is_extended_has_no_winner_until_it_has_finished_again(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "run"
    invocation = run(directory, (OF_EAGER, OF_FAST, OF_BROKEN))
    invocation._status.begin()
    invocation.close(complete=True)
    assert (directory / run_directory.WINNER).exists()
    plan = Plan(plan_id="p", name="n", trials=(EAGER, FAST), skips=(), session=SESSION)
    invocation.run_plan(plan, cast(Executor, MeasuresNothing()))
    assert (directory / run_directory.WINNER).exists(), "there was nothing to do"
    more = trial("more", baseline=EAGER)
    invocation.run_plan(replace(plan, trials=(more,)), cast(Executor, MeasuresNothing()))
    invocation.close(complete=False)
    assert not (directory / run_directory.WINNER).exists()


@pytest.mark.parametrize("results", [(), (OF_EAGER,)], ids=["no result", "results"])
@pytest.mark.parametrize("error", [ExecutorError("no cluster"), ConfigError(["too large"])])
def test_a_run_that_an_error_ends_has_not_died(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    results: Sequence[TrialResult],
    error: Exception,
) -> None:
    monkeypatch.setattr(pipeline, "recording", lambda directory, plan: None)

    class Fails(MeasuresNothing):
        def run_grouped(
            self, trials: object, work: object, emit: object
        ) -> Iterator[Sequence[TrialResult]]:
            yield from ([one] for one in results)
            raise error

    directory = tmp_path / "run"
    invocation = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=directory,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
    )
    invocation.open()
    plan = Plan(plan_id="p", name="n", trials=TRIALS, skips=(), session=SESSION)
    with pytest.raises(type(error)):
        invocation.run_plan(plan, cast(Executor, Fails()))
    invocation.cut_short()
    coordinator = read_coordinator(directory)
    assert coordinator is not None
    assert (coordinator.complete, coordinator.ended_at is None) == (False, False)
    assert not is_running(directory)
    assert (directory / run_directory.TABLE).exists() == bool(results)


def test_a_wrong_request_for_a_stored_run_leaves_it_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    run(directory, (OF_EAGER,))
    again(directory).cut_short()
    assert not (directory / run_directory.TABLE).exists()
    assert not is_running(directory)


def test_all_batches_have_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, now, given = StringIO(), [0.0], []

    class Slow(MeasuresNothing):
        def run_grouped(
            self, trials: object, work: Any, emit: object
        ) -> Iterator[Sequence[TrialResult]]:
            given.append(work.session.budget_s)
            now[0] += 40.0
            return iter(())

    monkeypatch.setattr(pipeline.time, "monotonic", lambda: now[0])
    invocation = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=tmp_path,
        report=ConsoleReport(Console(file=written, width=160)),
    )
    session = {**SESSION, "budget": {"minutes": 1}}
    for one in TRIALS[:2]:
        plan = Plan(plan_id="p", name="n", trials=(one,), skips=(), session=session)
        invocation.run_plan(plan, cast(Executor, Slow()))
    assert given == [60.0, 20.0]
    assert [invocation.run([["a=1"], ["a=2"]]) for _ in range(2)] == [[math.inf, math.inf]] * 2
    assert written.getvalue().count("budget.minutes has ended") == 1
    invocation.results = {EAGER.trial_id: OF_EAGER, FAST.trial_id: OF_FAST}
    assert not invocation._did_what_was_requested()


def test_batches_that_the_budget_does_not_limit_leave_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(MeasuresNothing):
        def measures_in_rounds(self, hardware_kind: str) -> bool:
            return False

    now = [0.0]
    monkeypatch.setattr(pipeline.time, "monotonic", lambda: now[0])
    invocation = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=tmp_path,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
    )
    session = {**SESSION, "budget": {"minutes": 1}}
    plan = Plan(plan_id="p", name="n", trials=TRIALS[:1], skips=(), session=session)
    invocation.run_plan(plan, cast(Executor, Elsewhere()))
    now[0] = 3600.0
    assert not invocation._is_over()


def test_a_finished_trial_that_runs_again_begins_without_rounds_that_were_left(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "run"
    run(directory, (OF_EAGER, OF_FAST))
    for one in (OF_EAGER, OF_FAST):
        run_directory.append_round(directory, replace(one, unfinished=True))
    again = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=directory,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
        terms=pipeline.RunTerms(again=True, only=("fast",)),
    )
    again.open()
    assert run_directory.read_rounds(directory, FAST.trial_id) is None
    assert run_directory.read_rounds(directory, EAGER.trial_id) is not None  # is not chosen
    unfinished = run(tmp_path / "other", (OF_EAGER, going_on(OF_FAST, 4)))
    unfinished.close(complete=False)
    again.directory = tmp_path / "other"
    again.open()
    assert run_directory.read_rounds(tmp_path / "other", FAST.trial_id) is not None


def again(directory: Path, *only: str) -> pipeline.Invocation:
    """A rerun of these trials; without any, a resume."""
    invocation = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=directory,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
        terms=pipeline.RunTerms(again=bool(only), only=only),
    )
    invocation.open()
    invocation._specs.update({one.trial_id: one.spec for one in TRIALS})
    return invocation


def texts(directory: Path) -> list[str]:
    return [(directory / n).read_text() for n in (run_directory.TABLE, run_directory.WINNER)]


@pytest.mark.parametrize("processes", [0, 1])
def test_a_rerun_that_is_interrupted_leaves_the_result_that_it_was_to_replace(
    tmp_path: Path, processes: int
) -> None:
    directory = tmp_path / "run"
    run(directory, (OF_EAGER, OF_FAST, OF_BROKEN)).close(complete=True)
    before = texts(directory)
    repeated = again(directory, "fast")
    (directory / run_directory.WINNER).unlink()
    repeated._accept([going_on(OF_FAST, number + 1) for number in range(processes)])
    repeated.interrupt()
    stored = {one.trial_id: one for one in reader.read_results(directory)}
    assert stored[FAST.trial_id] == OF_FAST
    assert texts(directory) == before
    assert not [one for one in check(directory) if one.verdict == "does not hold"]


def test_what_an_interrupted_resume_did_not_come_to_is_in_its_table(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    run(directory, (OF_EAGER, going_on(OF_FAST, 4))).close(complete=False)
    before = (directory / run_directory.TABLE).read_text()
    assert again(directory).close(complete=True) == 1
    assert (directory / run_directory.TABLE).read_text() == before
    resumed = again(directory)
    resumed._accept([going_on(OF_FAST, 5)])
    resumed.interrupt()
    (found,) = (one for one in reader.read_results(directory) if one.unfinished)
    assert len(found.processes) == 5


def test_a_finished_result_takes_the_place_of_what_went_on(tmp_path: Path) -> None:
    invocation = run(tmp_path / "run", (OF_EAGER, going_on(OF_FAST, 4), OF_FAST, OF_BROKEN))
    assert not invocation.unfinished
    assert invocation.results[FAST.trial_id].processes == OF_FAST.processes


COUNTS = "the model is not deterministic: it counts its calls."
OF_COUNTING = replace(OF_EAGER, parity=AGREES.not_deterministic(COUNTS))
OTHER = trial("other", baseline=EAGER)
OF_OTHER = result(OTHER, 3.3e5, baseline_ns=1.1e6, parity=DISAGREES)


@pytest.mark.parametrize(
    "batches",
    [
        [[OF_COUNTING], [OF_FAST], [OF_OTHER]],
        [[OF_FAST], [OF_OTHER], [OF_COUNTING]],
        [[OF_OTHER, OF_FAST, OF_COUNTING]],
        [[replace(OF_COUNTING, unfinished=True)], [OF_FAST, OF_OTHER]],
    ],
    ids=["before", "after", "together", "going on"],
)
def test_nothing_agrees_with_a_baseline_that_is_not_deterministic(
    tmp_path: Path, batches: list[list[TrialResult]]
) -> None:
    invocation = run(tmp_path / "run", ())
    invocation._specs[OTHER.trial_id] = OTHER.spec
    for batch in batches:
        invocation._accept(batch)
    invocation.close(complete=False)
    found = derive(tmp_path / "run", "run").results
    changed = found[FAST.trial_id].parity
    assert changed is not None
    assert (changed.kind, changed.passed) == ("not_deterministic", False)
    assert "it counts its calls" in changed.explanation
    assert found[OTHER.trial_id].parity == DISAGREES
    assert invocation.so_far().results == found
    assert read_sweep(tmp_path / "run").failed == 3
    (parity,) = (one for one in check(tmp_path / "run") if one.name == "parity")
    assert sum("it counts its calls" in problem for problem in parity.problems) == 1


def test_candidates_agree_again_once_their_baseline_is_deterministic(tmp_path: Path) -> None:
    run(tmp_path / "run", [OF_EAGER, OF_FAST, OF_BROKEN, OF_COUNTING]).close(complete=True)
    assert derive(tmp_path / "run", "run").results[FAST.trial_id].disagrees
    again = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=tmp_path / "run",
        report=ConsoleReport(Console(file=StringIO(), width=160)),
        terms=pipeline.RunTerms(again=True, only=("eager",)),
    )
    again.open()
    assert [*again.results] == [FAST.trial_id, BROKEN.trial_id]
    again._specs[EAGER.trial_id] = EAGER.spec
    again._accept([OF_EAGER])
    again.close(complete=True)
    for found in (again.so_far(), derive(tmp_path / "run", "run")):
        assert found.results[FAST.trial_id] == OF_FAST
        assert found.summaries[FAST.trial_id].speedup is not None
    winner = json.loads((tmp_path / "run" / run_directory.WINNER).read_text())
    assert winner["conversion"] == "fast"


def test_nothing_agrees_with_a_baseline_that_was_not_deterministic_before_the_resume(
    tmp_path: Path,
) -> None:
    run(tmp_path / "run", [OF_COUNTING])
    again = pipeline.Invocation(
        composer=cast(Composer, None),
        directory=tmp_path / "run",
        report=ConsoleReport(Console(file=StringIO(), width=160)),
    )
    again.open()
    again._specs[FAST.trial_id] = FAST.spec
    again._accept([OF_FAST])
    assert again.so_far().results[FAST.trial_id].disagrees
