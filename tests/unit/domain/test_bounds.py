"""Results of a file whose numbers no measurement has: they are refused with the number's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.codec import decode, encode
from benchorch.domain.measurement import Load, ProcessRecord, TransferBreakdown
from benchorch.domain.result import TrialResult
from benchorch.errors import ConfigError
from benchorch.journal import reader, run_directory
from benchorch.results.compare.load_run import derive
from benchorch.stats.pairs import log_ratio
from support.synthetic_runs import result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
SOUND = result(FAST, 5e5, baseline_ns=1e6, processes=2)
INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("delta_ratio",), -1.5),
        (("stages_s", "measure"), INFINITE),
        (("build", "build_s"), NOT_A_NUMBER),
        (("build", "artifact_bytes"), 10**400),
        (("processes", 0, "load_s"), INFINITE),
        (("processes", 1, "steady_from"), -1),
        (("processes", 0, "conditions", "canary_before_ns"), -30e6),
        (("processes", 0, "calibration", "step_ns"), 1e308),
        (("processes", 0, "observations", "calls_per_query"), 0),
        (("processes", 0, "observations", "calls_per_block"), 0),
        (("processes", 0, "observations", "started_ns", 3), 2**70),
        (("processes", 0, "paired", "theirs_from"), -1),
        (("processes", 0, "observations", "items_per_call"), 5e-324),
    ],
)
def test_a_number_that_nothing_measures_is_refused(place: tuple[Any, ...], value: float) -> None:
    tree: Any = json.loads(json.dumps(encode(SOUND)))
    assert decode(TrialResult, tree) == SOUND
    inner = {"stages_s": {"measure": 1.0}, **tree} if place[0] == "stages_s" else tree
    at = inner
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(ValueError, match=rf"at `\$\.{place[0]}"):
        decode(TrialResult, inner)


@pytest.mark.parametrize("looks", [(5, 0), (5, 5), (8, 5)])
def test_interim_analyses_of_fewer_and_fewer_pairs_are_refused(
    looks: tuple[int, ...], tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", (FAST, replace(SOUND, stop_looks=looks)))
    (damaged,) = reader.read_journal(run).damaged
    assert damaged.problem == "its stop_looks do not rise"
    sound = write_run(tmp_path / "sound", (FAST, replace(SOUND, stop_looks=(5, 8))))
    assert reader.read_journal(sound).damaged == []


def observed(process: ProcessRecord, **fields: Any) -> ProcessRecord:
    return replace(process, observations=replace(process.observations, **fields))


def split(**stages_ns: tuple[int, ...]) -> TransferBreakdown:
    return TransferBreakdown(stages_ns=stages_ns, joined_ns=(5,))


def test_a_run_from_which_no_figures_follow_is_refused(tmp_path: Path) -> None:
    one, other = SOUND.processes
    odd = replace(one, split=split(h2d=(1,))), replace(other, split=split(d2h=(1,)))
    run = write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, replace(SOUND, processes=odd)))
    with pytest.raises(ConfigError, match=r"is stored \(KeyError: 'h2d' at \w+\.py:\d+\)"):
        derive(run, "theirs")


LOAD = Load(rate_per_s=1.0, first=0, end=40, seed=0, arrivals="poisson")


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda one: replace(one, steady_from=40), "steady from block 40 of 40"),
        (lambda one: replace(one, split=split(h2d=(1, 2), compute=(3,))), "stages"),
        (lambda one: observed(one, calls_per_query=3), "1 calls a block are no query of 3"),
        (lambda one: observed(one, loads=(replace(LOAD, end=2**50),)), "loads"),
        (lambda one: observed(one, loads=(replace(LOAD, first=9, end=8),)), "loads"),
        (lambda one: observed(one, events={"collection": (40,)}), "events"),
        (
            lambda one: replace(one, paired=replace(one.paired, theirs_from=41)),
            "a comparison from block 41 of 40",
        ),
        (
            lambda one: replace(one, paired=replace(one.paired, ours=None, ours_from=41)),
            "a comparison from block 41 of 40",
        ),
    ],
)
def test_a_series_that_contradicts_its_result_is_refused(
    damage: Any, found: str, tmp_path: Path
) -> None:
    sound, other = SOUND.processes
    for process in (sound, observed(sound, loads=(LOAD,), events={"collection": (0, 39)})):
        assert list(process.contradictions()) == []
    damaged = damage(sound)
    assert any(one.startswith(found) for one in damaged.contradictions())
    run = write_run(tmp_path / "run", (FAST, replace(SOUND, processes=(other, damaged))))
    (entry,) = reader.read_journal(run).entries.values()
    with pytest.raises(run_directory.SeriesError, match=f"it has {found}"):
        entry.whole(run)
    run_directory.append_round(run, replace(SOUND, trial_id="t", processes=(other, damaged)))
    rounds = run_directory.read_rounds(run, "t")
    assert rounds is not None
    assert rounds.processes == (other,)


def test_a_comparison_whose_last_block_was_compiled_is_no_pair_and_no_damage() -> None:
    one = SOUND.processes[0]
    assert one.paired is not None
    for side in ("ours_from", "theirs_from"):
        unpaired = replace(one, paired=replace(one.paired, **{side: 40}))
        assert list(unpaired.contradictions()) == []
        assert log_ratio(unpaired) is None
