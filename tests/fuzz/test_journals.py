"""Journals with bytes, lines and values changed: read, set aside or refused, never a traceback.

`FUZZ` is how many mutations are tried; a slice by default. Half of them are of journals without
digests, as earlier versions wrote them: there a changed value reaches the reader itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import BenchorchError
from benchorch.journal import reader, run_directory
from support.synthetic_runs import AGREES, CALIBRATION

CASES = int(os.environ.get("FUZZ", "150"))
LIMIT_CPU_S = 10
IDS = ("t1", "t2", "t3")
DIGESTS = ("before", "digest", "series_digest")
ODD = (
    *(None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "x", "../../x", "\x1b[2J"),
    *([], {}, [[]], {"": None}, ["x"] * 3, "\ud800", [1.5, None]),
)


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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value in a tree."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(each for key, one in inner for each in places(one, (*path, key)))]


def with_odd_value(line: bytes, data: st.DataObject, *, plain: bool) -> bytes:
    """The line with one value replaced, or left out."""
    tree = json.loads(line)
    if plain:
        for name in DIGESTS:
            tree.pop(name, None)
    path = data.draw(st.sampled_from(places(tree)))
    value = data.draw(st.sampled_from(ODD))
    if not path:
        return json.dumps(value).encode() + b"\n"
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    if data.draw(st.booleans()) and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(tree).encode() + b"\n"


def with_odd_bytes(content: bytes, data: st.DataObject) -> bytes:
    """The content with some bytes replaced, cut out, or put in."""
    at = data.draw(st.integers(0, len(content)))
    cut = data.draw(st.integers(0, 40))
    new = data.draw(
        st.one_of(st.binary(max_size=20), st.sampled_from([b"\n", b"[" * 10**5, b"\0"]))
    )
    return content[:at] + new + content[at + cut :]


def mutated(path: Path, data: st.DataObject) -> None:
    content = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(with_odd_bytes(content, data))
        return
    plain = data.draw(st.booleans())
    lines = [content] if path.suffix == ".json" else content.splitlines(keepends=True)
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = with_odd_value(lines[number], data, plain=plain)
    path.write_bytes(b"".join(lines))


@pytest.mark.timeout(36000)
@settings(
    max_examples=CASES,
    derandomize="FUZZ" not in os.environ,
    report_multiple_bugs=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_damaged_journal_is_read_or_refused(
    data: st.DataObject, sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path_factory.getbasetemp() / "mutated"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    names = [run_directory.RESULTS, run_directory.PLAN, "trials/t2/observations.jsonl"]
    mutated(run / data.draw(st.sampled_from(names)), data)
    before = time.process_time()
    for read in (
        lambda: reader.read_results(run),
        lambda: list(reader.salvage(run, run_directory.read_plan(run), lambda _: None)),
    ):
        with contextlib.suppress(BenchorchError):
            assert read() is not None
    assert time.process_time() - before < LIMIT_CPU_S
