"""The order and the end of a duel, with sides that only count."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.journal import run_directory
from benchorch.results.compare.duels import LOOKS, DuelTerms
from benchorch.run.duel import duel
from benchorch.run.duel.contender import CodeVersion
from benchorch.run.duel.duel import Duel, DuelExtent, alone, fight, prepared, refuse_remote
from benchorch.run.duel.messages import EndedTrial, Origin, ProcessLevel

TRIALS = tuple(
    Trial(
        trial_id=name,
        labels={"conversion": name, "model": "m"},
        spec={"hardware": {"kind": "local"}},
        baseline_id="x",
        baseline_conversion={"name": "eager"},
    )
    for name in ("eager", "other")
)
PLAN = Plan(
    plan_id="p",
    name="n",
    trials=TRIALS,
    skips=(),
    session={"store": {"root": "/shared"}, "cwd": "/here"},
)
TERMS = DuelTerms(limit_ratio=0.02, delta_ratio=0.01, trials=2)
LONG = DuelExtent(seconds=1e6, pairs=12)
ORIGIN = Origin(
    version=1,
    benchorch="1",
    benchorch_file="/b",
    python="3",
    executable="/p",
    commit="",
    modules={},
)


class Sides:
    """Both sides' programs; which process ran when, and what they were told."""

    def __init__(self, level: Callable[[str, str, int], float]) -> None:
        self.level = level
        self.ran: list[tuple[str, str]] = []
        self.stopped: list[tuple[str, str, str]] = []
        self.cpus: set[tuple[int, ...]] = set()

    @contextlib.contextmanager
    def started(self, side: CodeVersion, modules: tuple[str, ...]) -> Iterator[Contender]:
        yield Contender(self, side)


class Contender:
    def __init__(self, sides: Sides, side: CodeVersion) -> None:
        self.sides, self.side, self.origin = sides, side, ORIGIN
        self.trial, self.counts = "", dict[str, int]()

    def go_on(self, trial_id: str, cpus: tuple[int, ...] = ()) -> None:
        self.trial = trial_id
        self.counts[trial_id] = self.counts.get(trial_id, -1) + 1
        if self.counts[trial_id]:
            self.sides.cpus.add(cpus)
            self.sides.ran.append((trial_id, self.side.name))

    def answer(self) -> ProcessLevel | EndedTrial:
        median = self.sides.level(self.trial, self.side.name, self.counts[self.trial])
        if median < 0:
            del self.counts[self.trial]
            return EndedTrial(trial_id=self.trial, trouble="it broke")
        return ProcessLevel(median=median, floor=median, cpus=(1,))

    def stop(self, trial_id: str, reason: str) -> EndedTrial:
        if self.counts.pop(trial_id, None) is not None:
            self.sides.stopped.append((trial_id, self.side.name, reason))
        return EndedTrial(trial_id=trial_id)


def both(directory: Path) -> tuple[CodeVersion, CodeVersion]:
    one, other = (
        CodeVersion(
            name=name,
            what=name,
            python="python",
            folder=directory,
            search=(),
            directory=directory / name,
        )
        for name in ("old", "new")
    )
    return one, other


def duelled(
    sides: Sides, tmp_path: Path, monkeypatch, extent: DuelExtent = LONG, check=None
) -> Duel:
    monkeypatch.setattr(duel, "started", sides.started)
    return fight(
        PLAN,
        both(tmp_path),
        terms=TERMS,
        extent=extent,
        modules=(),
        check=check or (lambda origins: None),
        say=lambda text: None,
    )


def even(trial: str, side: str, count: int) -> float:
    return 1e6 + count % 3


def noisy(trial: str, side: str, count: int) -> float:
    return 1e6 * random.Random(f"{trial} {side} {count}").lognormvariate(0.0, 0.3)


def test_both_orders_are_equally_many_and_each_pair_has_both_sides(tmp_path, monkeypatch) -> None:
    sides = Sides(noisy)
    found = duelled(sides, tmp_path, monkeypatch)
    assert [len(bout.meetings) for bout in found.bouts] == [12, 12]
    assert [sum(m.new_first for m in bout.meetings) for bout in found.bouts] == [6, 6]
    pairs = [sides.ran[i : i + 2] for i in range(0, len(sides.ran), 2)]
    assert all({side for _, side in pair} == {"old", "new"} for pair in pairs)
    assert all(len({trial for trial, _ in pair}) == 1 for pair in pairs)
    assert len(list(run_directory.read_lines(tmp_path / duel.PAIRS))) == 24
    assert sides.cpus == {(1,)}


def test_a_clear_case_ends_at_an_interim_analysis(tmp_path, monkeypatch) -> None:
    sides = Sides(even)
    found = duelled(sides, tmp_path, monkeypatch)
    assert [len(bout.meetings) for bout in found.bouts] == [LOOKS[0]] * 2
    assert {one.state for one in found.cases()} == {"pass"}
    ends = [(trial, side, "converged") for trial in ("eager", "other") for side in ("old", "new")]
    assert sorted(sides.stopped) == sorted(ends)


def test_trials_take_rounds_in_an_order_drawn_anew(tmp_path, monkeypatch) -> None:
    sides = Sides(noisy)
    duelled(sides, tmp_path, monkeypatch, replace(LONG, pairs=40))
    rounds = [tuple(trial for trial, _ in sides.ran[i : i + 4 : 2]) for i in range(0, 160, 4)]
    assert {frozenset(one) for one in rounds} == {frozenset({"eager", "other"})}
    assert len(set(rounds)) == 2


def test_where_the_time_is_used_up_three_pairs_are_measured(tmp_path, monkeypatch) -> None:
    found = duelled(Sides(noisy), tmp_path, monkeypatch, DuelExtent(seconds=0.0, pairs=40))
    assert [len(bout.meetings) for bout in found.bouts] == [3, 3]
    assert {one.state for one in found.cases()} == {"unclear"}


@pytest.mark.parametrize("process", [0, 2])
def test_a_trial_that_breaks_on_a_side_is_refused_and_the_next_one_runs(
    process: int, tmp_path, monkeypatch
) -> None:
    def level(trial: str, side: str, count: int) -> float:
        broken = (trial, side) == ("eager", "old") and count == process
        return -1.0 if broken else even(trial, side, count)

    first, second = duelled(Sides(level), tmp_path, monkeypatch).cases()
    assert (first.state, first.judged.reason) == ("refused", "old: it broke")
    assert second.state == "pass"


def test_ctrl_c_ends_both_sides_and_leaves_what_there_is(tmp_path, monkeypatch) -> None:
    def level(trial: str, side: str, count: int) -> float:
        if (trial, count) == ("eager", 6):
            raise KeyboardInterrupt
        return noisy(trial, side, count)

    sides = Sides(level)
    found = duelled(sides, tmp_path, monkeypatch)
    assert found.interrupted
    eager, other = (len(bout.meetings) for bout in found.bouts)
    assert (eager, other) in {(5, 5), (5, 6)}
    assert {end[2] for end in sides.stopped} == {"interrupted"}
    assert {end[:2] for end in sides.stopped} == {
        (trial, side) for trial in ("eager", "other") for side in ("old", "new")
    }
    assert [one.state for one in found.cases()] == ["unclear", "unclear"]


def test_a_side_that_dies_leaves_what_had_ended_before(tmp_path, monkeypatch) -> None:
    def level(trial: str, side: str, count: int) -> float:
        if (trial, side, count) == ("other", "new", 8):
            raise ExecutorError("new (x) ended: killed")
        return (even if trial == "eager" else noisy)(trial, side, count)

    first, second = duelled(Sides(level), tmp_path, monkeypatch).cases()
    assert first.state == "pass"
    assert (second.state, second.judged.reason) == ("refused", "new (x) ended: killed")


def test_code_of_the_wrong_side_is_refused_before_anything_runs(tmp_path, monkeypatch) -> None:
    def check(origins: object) -> None:
        raise ConfigError(["the same code on both sides"])

    sides = Sides(even)
    with pytest.raises(ConfigError, match="the same code"):
        duelled(sides, tmp_path, monkeypatch, check=check)
    assert sides.ran == []


def test_each_side_has_its_own_store_and_folder_and_no_baseline(tmp_path) -> None:
    for side in both(tmp_path):
        prepared(PLAN, side, tmp_path / "store" / side.name)
    plans = [run_directory.read_plan(side.directory) for side in both(tmp_path)]
    assert len({plan.plan_id for plan in plans} | {"p"}) == 3
    assert len({plan.session["store"]["root"] for plan in plans}) == 2  # type: ignore[index]
    assert {plan.session["cwd"] for plan in plans} == {str(tmp_path)}
    assert {trial.baseline_id for plan in plans for trial in plan.trials} == {None}
    assert [one.trial_id for one in alone(TRIALS)] == ["eager", "other"]


def test_other_machines_are_refused() -> None:
    with pytest.raises(ConfigError, match="on this machine"):
        refuse_remote(PLAN, is_remote=True)


def test_a_program_without_a_duel_says_so(tmp_path) -> None:
    from benchorch.run.duel.contender import started

    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named benchorch.run.duel' >&2\nexit 1\n")
    python.chmod(0o755)
    side = both(tmp_path)[0]
    side.directory.mkdir()
    with (
        pytest.raises(ExecutorError, match="Its benchorch has no duel"),
        started(replace(side, python=str(python)), ()),
    ):
        pass
