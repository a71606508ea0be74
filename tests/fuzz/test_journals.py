"""Journals with bytes, lines and values changed: read, set aside or refused, never a traceback.

`FUZZ` is how many mutations are tried; a slice by default. Half of them are of journals without
digests, as earlier versions wrote them: there a changed value reaches the reader itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import BenchorchError
from benchorch.journal import reader, run_directory
from support.mutations import bounded, fuzzed, with_odd_bytes, with_odd_value
from support.synthetic_runs import AGREES, CALIBRATION

IDS = ("t1", "t2", "t3")
DIGESTS = ("before", "digest", "series_digest")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three trials as the journal leaves it."""
    from benchorch.domain.measurement import Observations, ProcessRecord

    folder = tmp_path_factory.mktemp("sound")
    trials = tuple(Trial(trial_id=one, labels={"model": "m"}, spec={}) for one in IDS)
    plan = Plan(plan_id="p", name="n", trials=trials, skips=(), session={})
    run_directory.write_plan(folder, plan)
    observations = Observations(
        durations_ns=(5, 6, 7), started_ns=(0, 5, 11), calls_per_block=1, items_per_call=2
    )
    process = ProcessRecord(
        load_s=0.5,
        first_call_s=0.1,
        observations=observations,
        steady_from=1,
        calibration=CALIBRATION,
        peak_rss_bytes=100,
        facts={},
    )
    for one in IDS:
        result = TrialResult(
            trial_id=one,
            labels={"model": "m"},
            outcome=Outcome.OK,
            processes=(process,),
            parity=AGREES,
        )
        run_directory.append_result(folder, result, {})
    return folder


def mutated(path: Path, data: st.DataObject) -> None:
    content = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(with_odd_bytes(content, data))
        return
    without = DIGESTS if data.draw(st.booleans()) else ()
    lines = [content] if path.suffix == ".json" else content.splitlines(keepends=True)
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = with_odd_value(lines[number], data, *without)
    path.write_bytes(b"".join(lines))


@pytest.mark.timeout(36000)
@fuzzed(60)
@given(data=st.data())
def test_a_damaged_journal_is_read_or_refused(
    data: st.DataObject, sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path_factory.getbasetemp() / "mutated"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    names = [run_directory.RESULTS, run_directory.PLAN, "trials/t2/observations.jsonl"]
    mutated(run / data.draw(st.sampled_from(names)), data)
    for read in (
        lambda: reader.read_results(run),
        lambda: list(reader.salvage(run, run_directory.read_plan(run), lambda _: None)),
    ):
        with bounded(BenchorchError):
            assert read() is not None
