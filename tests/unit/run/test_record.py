"""Each trial arrives once, whatever happens to the tracker or to us."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchorch.domain.estimate import Summary
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError, RecordError
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.journal.reader import salvage
from benchorch.journal.record_cursor import RecordCursor
from benchorch.recorders.none import Nowhere
from benchorch.results.metrics.speedup import Question
from benchorch.results.metrics.summary import TrialFindings, together
from benchorch.run.record import replay
from benchorch.stats.pairs import ALTERNATED, Pair
from support.recorded_trials import process_record

PAIRS = tuple(Pair(ours=1.0, theirs=2.0 + 0.01 * noise) for noise in (-2, 1, 0, 2, -1))


@dataclass
class Memory(Recorder):
    """A tracker in memory that can be away and can refuse single trials."""

    name: str = "memory"
    away: bool = False
    refused: set[str] = field(default_factory=set)
    unamended: set[str] = field(default_factory=set)
    dies_after: int = 1_000_000
    runs: dict[str, list[bool]] = field(default_factory=dict)
    amended: dict[str, Summary] = field(default_factory=dict)
    series: dict[str, int] = field(default_factory=dict)
    ended: list[bool] = field(default_factory=list)
    opened: int = 0
    asked: int = 0

    @property
    def address(self) -> Mapping[str, str]:
        return {"uri": f"memory://{self.name}", "experiment": "e"}

    def open(self, plan: Plan, directory: Path) -> str:
        self._reach()
        self.opened += 1
        return f"run-of-{plan.plan_id}"

    def record(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        self._reach()
        if trial.trial_id in self.refused:
            raise RecordError(f"{trial.trial_id} is refused")
        if sum(map(len, self.runs.values())) >= self.dies_after:
            raise KeyboardInterrupt
        self.runs.setdefault(trial.trial_id, []).append(summary.speedup is not None)
        self.series[trial.trial_id] = len(result.processes[0].observations.durations_ns)
        return f"run-of-{trial.trial_id}"

    def amend(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        self._reach()
        if trial.trial_id in self.unamended:
            raise RecordError(f"{trial.trial_id} is not amended")
        self.amended[trial.trial_id] = summary
        return f"run-of-{trial.trial_id}"

    def close(self, plan: Plan, directory: Path, *, complete: bool) -> None:
        self._reach()
        self.ended.append(complete)

    def _reach(self) -> None:
        self.asked += 1
        if self.away:
            raise RecordError("nobody answers")


def derive(result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
    """A candidate that takes half of its baseline's time."""
    asked = Question(design=ALTERNATED, pairs=PAIRS, delta_ratio=0.02) if baseline else None
    return TrialFindings(
        summary=Summary(metrics={}, speedup=None, steady=True),
        asked=asked,
        baseline_id=result.baseline_id,
    )


def plan_of(count: int) -> Plan:
    """The first trial is the baseline of all others."""
    trials = tuple(
        Trial(trial_id=f"t{i}", labels={}, spec={}, baseline_id="t0" if i else None)
        for i in range(count)
    )
    return Plan(plan_id="p", name="n", trials=trials, skips=(), session={})


def end(
    directory: Path, trial_id: str, attempt: int = 1, durations_ns: Sequence[int] = (1, 2, 3)
) -> None:
    """A trial ends."""
    result = TrialResult(
        trial_id=trial_id,
        labels={},
        outcome=Outcome.OK,
        processes=(process_record(durations_ns),),
        attempt=attempt,
        baseline_id=None if trial_id == "t0" else "t0",
    )
    run_directory.append_result(directory, result, {})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    run_directory.write_plan(tmp_path, plan_of(3))
    return tmp_path


def end_all(directory: Path) -> None:
    for trial_id in ("t0", "t1", "t2"):
        end(directory, trial_id)


def test_every_trial_arrives_with_its_raw_series_and_baseline(directory: Path) -> None:
    end_all(directory)
    tracker = Memory()
    replayed = replay(directory, tracker, derive=derive)
    assert tracker.runs == {"t0": [False], "t1": [True], "t2": [True]}
    assert tracker.series == {"t0": 3, "t1": 3, "t2": 3}
    assert tracker.ended == [True]
    assert (replayed.recorded, replayed.remaining, replayed.reason) == (3, 0, "")


def test_a_second_replay_does_not_even_ask(directory: Path) -> None:
    end_all(directory)
    tracker = Memory()
    first = replay(directory, tracker, derive=derive)
    asked = tracker.asked
    second = replay(directory, tracker, derive=derive)
    assert tracker.asked == asked
    assert second.recorded == 0
    assert second.parent_run_id == first.parent_run_id == "run-of-p"


def test_another_tracker_gets_everything_again(directory: Path) -> None:
    end_all(directory)
    replay(directory, Memory(), derive=derive)
    other = Memory(name="other")
    assert replay(directory, other, derive=derive).recorded == 3


def test_an_unfinished_run_is_recorded_as_unfinished_and_later_completed(directory: Path) -> None:
    tracker = Memory()
    end(directory, "t0")
    replay(directory, tracker, derive=derive)
    end(directory, "t1")
    end(directory, "t2")
    replay(directory, tracker, derive=derive)
    assert tracker.ended == [False, True]
    assert {trial_id: len(runs) for trial_id, runs in tracker.runs.items()} == dict.fromkeys(
        ("t0", "t1", "t2"), 1
    )


def test_dying_in_the_middle_leaves_only_the_rest_to_do(directory: Path) -> None:
    end_all(directory)
    tracker = Memory(dies_after=2)
    with pytest.raises(KeyboardInterrupt):
        replay(directory, tracker, derive=derive)
    tracker.dies_after = 100
    assert replay(directory, tracker, derive=derive).recorded == 1
    assert all(len(runs) == 1 for runs in tracker.runs.values())


def test_a_trial_run_again_is_recorded_again(directory: Path) -> None:
    end_all(directory)
    tracker = Memory()
    replay(directory, tracker, derive=derive)
    end(directory, "t2", attempt=2)
    assert replay(directory, tracker, derive=derive).recorded == 1
    assert len(tracker.runs["t2"]) == 2


def test_a_new_baseline_changes_what_is_compared_with_it(directory: Path) -> None:
    end(directory, "t1")
    tracker = Memory()
    replay(directory, tracker, derive=derive)
    end(directory, "t0")
    replay(directory, tracker, derive=derive)
    assert tracker.runs["t1"] == [False, True]


def test_a_torn_last_line_is_left_for_later(directory: Path) -> None:
    end(directory, "t0")
    with (directory / run_directory.RESULTS).open("a") as file:
        file.write('{"trial_id": "t1", "outc')
    tracker = Memory()
    replay(directory, tracker, derive=derive)
    assert set(tracker.runs) == {"t0"}


def test_a_tracker_that_is_away_loses_nothing(directory: Path) -> None:
    end_all(directory)
    tracker = Memory(away=True)
    replayed = replay(directory, tracker, derive=derive)
    assert (replayed.recorded, replayed.remaining, replayed.reason) == (0, 3, "nobody answers")
    tracker.away = False
    assert replay(directory, tracker, derive=derive).recorded == 3


def test_a_trial_without_figures_holds_up_no_other(directory: Path) -> None:
    def odd(result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
        if result.trial_id == "t1":
            raise ZeroDivisionError
        return derive(result, baseline)

    end_all(directory)
    tracker = Memory()
    replayed = replay(directory, tracker, derive=odd)
    assert set(tracker.runs) == {"t0", "t2"}
    assert (replayed.recorded, replayed.remaining) == (2, 1)
    assert "Trial t1: no figures follow from what is stored (ZeroDivisionError: " in replayed.reason


def test_a_refused_trial_holds_up_no_other(directory: Path) -> None:
    end_all(directory)
    tracker = Memory(refused={"t0"})
    replayed = replay(directory, tracker, derive=derive)
    assert (replayed.recorded, replayed.remaining) == (2, 1)
    assert tracker.ended == []


def test_two_refused_trials_in_a_row_hold_up_no_other(directory: Path) -> None:
    run_directory.write_plan(directory, plan_of(6))
    for i in range(6):
        end(directory, f"t{i}")
    tracker = Memory(refused={"t0", "t1", "t2"})
    follow(directory, tracker, [lambda: None] * 3)
    assert set(tracker.runs) == {"t3", "t4", "t5"}


def test_no_tracker_means_no_work(directory: Path) -> None:
    end_all(directory)
    assert replay(directory, Nowhere(), derive=derive).recorded == 0
    assert not (directory / "recorded.jsonl").exists()


def test_a_directory_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run's directory"):
        replay(tmp_path, Memory(), derive=derive)


def test_the_address_is_noted_beside_the_results(directory: Path) -> None:
    replay(directory, Memory(), derive=derive)
    assert json.loads((directory / "tracking.json").read_text()) == {
        "uri": "memory://memory",
        "experiment": "e",
        "parent_run_id": "run-of-p",
    }


def test_only_one_process_records_a_directory(directory: Path) -> None:
    end_all(directory)
    refusals: list[str] = []

    def at_the_same_time(_timeout_s: float) -> bool | None:
        with pytest.raises(RecordError) as error:
            replay(directory, Memory(), derive=derive)
        refusals.append(str(error.value))
        return True

    replay(directory, Memory(), follow=True, derive=derive, wait=at_the_same_time)
    assert "being recorded by process" in refusals[0]


def test_a_line_that_came_after_another_was_read_is_recorded_in_its_place(
    directory: Path,
) -> None:
    class Slow(Memory):
        """One that takes so long to begin that trials are measured again meanwhile."""

        def open(self, plan: Plan, directory: Path) -> str:
            for trial_id in ("t0", "t2"):
                end(directory, trial_id, durations_ns=(4, 5, 6, 7))
            return super().open(plan, directory)

    end_all(directory)
    tracker = Slow()
    follow(directory, tracker, [lambda: None])
    assert tracker.series == {"t0": 4, "t1": 3, "t2": 4}
    assert tracker.ended == [True]


def follow(
    directory: Path, tracker: Memory, script: list[object], *, complete: bool = True
) -> list[float]:
    """Follow a run in which `script` happens, one step a pause; the pauses."""
    steps: Iterator[object] = iter(script)
    pauses: list[float] = []

    def wait(timeout_s: float) -> bool | None:
        pauses.append(timeout_s)
        step = next(steps, None)
        if step is None:
            return complete
        step()  # type: ignore[operator]
        return None

    replay(directory, tracker, follow=True, derive=derive, wait=wait)
    return pauses


def test_following_records_results_as_they_come(directory: Path) -> None:
    tracker = Memory()
    seen: list[int] = []
    script = [
        lambda: end(directory, "t0"),
        lambda: (seen.append(len(tracker.runs)), end(directory, "t1")),
        lambda: (seen.append(len(tracker.runs)), end(directory, "t2")),
    ]
    follow(directory, tracker, list(script))
    assert seen == [1, 2]
    assert set(tracker.runs) == {"t0", "t1", "t2"}
    assert tracker.opened == 1


def test_following_waits_for_the_baseline_while_there_is_hope(directory: Path) -> None:
    tracker = Memory()
    follow(directory, tracker, [lambda: end(directory, "t1"), lambda: end(directory, "t0")])
    assert tracker.runs == {"t0": [False], "t1": [False]}
    assert tracker.amended["t1"].speedup is not None


def test_what_came_during_the_run_gets_the_figures_of_the_table_at_its_end(
    directory: Path,
) -> None:
    tracker = Memory()
    names = ("t0", "t1", "t2")
    follow(directory, tracker, [lambda name=name: end(directory, name) for name in names])
    cursor = RecordCursor(directory, tracker.address)
    cursor.read_on()
    read = {name: (cursor.result(name), cursor.baseline(name)) for name in names}
    table = together({name: derive(*one) for name, one in read.items()})
    assert tracker.runs == {"t0": [False], "t1": [False], "t2": [False]}
    assert tracker.amended == table
    alone = derive(*read["t1"]).alone().speedup
    assert tracker.amended["t1"].speedup != alone


def test_figures_that_are_those_of_the_table_are_not_amended(directory: Path) -> None:
    end_all(directory)
    tracker = Memory()
    replay(directory, tracker, derive=derive)
    assert tracker.amended == {}


def test_another_candidate_changes_the_figures_of_those_before(directory: Path) -> None:
    end(directory, "t0")
    end(directory, "t1")
    tracker = Memory()
    replay(directory, tracker, derive=derive)
    end(directory, "t2")
    assert replay(directory, tracker, derive=derive).recorded == 1
    assert set(tracker.amended) == {"t0", "t1"}
    assert len(tracker.runs["t1"]) == 1


def test_figures_that_could_not_be_amended_are_so_later(directory: Path) -> None:
    tracker = Memory(unamended={"t1"})
    follow(directory, tracker, [lambda: end_all(directory)])
    assert (set(tracker.amended), tracker.ended) == ({"t0"}, [])
    tracker.unamended = set()
    replayed = replay(directory, tracker, derive=derive)
    assert (replayed.recorded, replayed.reason) == (0, "")
    assert set(tracker.amended) == {"t0", "t1", "t2"}
    assert tracker.ended == [True]


def test_following_takes_in_trials_planned_later(directory: Path) -> None:
    tracker = Memory()

    def extend() -> None:
        run_directory.write_plan(directory, plan_of(5))
        end(directory, "t4")
        end(directory, "t0")

    follow(directory, tracker, [extend])
    assert set(tracker.runs) == {"t0", "t4"}


def test_an_interrupted_run_ends_as_one(directory: Path) -> None:
    tracker = Memory()
    follow(directory, tracker, [], complete=False)
    assert tracker.ended == [False]


def test_an_outage_is_said_once_and_waited_out_ever_longer(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    end_all(directory)
    tracker = Memory(away=True)
    outage = [lambda: None] * 8
    with caplog.at_level(logging.WARNING):
        pauses = follow(directory, tracker, [*outage, lambda: setattr(tracker, "away", False)])
    assert pauses == [2, 4, 8, 16, 30, 30, 30, 30, 30, 1]
    said = f"Results wait on disk: nobody answers; later: python -m benchorch record {directory}"
    assert [record.message for record in caplog.records] == [said]
    assert all(len(runs) == 1 for runs in tracker.runs.values())
    assert tracker.ended == [True]


def test_what_is_damaged_is_named_and_holds_up_no_other(directory: Path) -> None:
    end_all(directory)
    path = directory / run_directory.RESULTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b"garbage\n", *lines[1:]]))
    run_directory.series_path(directory, "t1").unlink()
    tracker = Memory()
    replayed = replay(directory, tracker, derive=derive)
    assert set(tracker.runs) == {"t2"}
    assert replayed.remaining == 2
    assert "1 damaged line" in replayed.reason
    assert "t1/observations.jsonl cannot be read" in replayed.reason
    assert "benchorch resume=" in replayed.reason
    assert tracker.ended == [False]


def test_lines_set_aside_meanwhile_leave_the_rest_recorded_once(directory: Path) -> None:
    end_all(directory)
    path = directory / run_directory.RESULTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"x" * len(lines[1]) + b"\n", lines[2]]))
    tracker = Memory()

    def salvaged() -> None:
        list(salvage(directory, run_directory.read_plan(directory), lambda _: None))
        end(directory, "t1")

    follow(directory, tracker, [lambda: None, salvaged])
    assert sorted(tracker.runs) == ["t0", "t1", "t2"]
    assert all(len(runs) == 1 for runs in tracker.runs.values())
