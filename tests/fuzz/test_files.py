"""Traces, archives, scripts and bundles damaged at random: read, or refused by documented errors.

`FUZZ` is how many of each are tried; a slice by default.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.cli import main
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.result import TrialResult
from benchorch.errors import BenchorchError
from benchorch.frameworks.identity.consulted import recorded
from benchorch.frameworks.identity.evidence import evidence
from benchorch.frontends.scripts.discover import labels_of, unreadable
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.reader import read_results
from benchorch.models.headers import read_headers
from benchorch.recorders.run_fields import of_trial
from benchorch.results.compare import export
from benchorch.results.compare.load_run import derive, stored
from benchorch.results.metrics.summary import summarise
from benchorch.run.reproduce.bundle import write_bundle
from benchorch.run.reproduce.opened import open_bundle
from benchorch.trace.analysis import analyze
from benchorch.trial.identity_stamps import Stamps
from support.mutations import (
    bounded,
    fuzzed,
    with_odd_bytes,
    with_odd_field,
    with_odd_json_or_bytes,
    with_odd_value,
)
from support.nsight_tables import tables
from support.synthetic_runs import result, trial, with_every_part, write_run
from support.trace_files import steps, write, write_tables

LONGEST_S = 36000
ENDS = (0, 1, 2, 3, 4)
COMMANDS = (
    *("report @D", "check @D", "status @D", "compare @D @R", "open @D --no-browser", "logs @D"),
    *("export @D --output @Dx", "report @D --json", "gate @R @D"),
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


def with_odd_member(archive: Path, data: st.DataObject) -> bytes:
    """A zip file with a member's content or name changed, its checksums sound."""
    with ZipFile(archive) as old:
        members = {name: old.read(name) for name in old.namelist()}
    name = data.draw(st.sampled_from(sorted(members)))
    change = with_odd_json_or_bytes if name.endswith((".json", ".jsonl")) else with_odd_bytes
    try:
        members[name] = change(members[name], data)
    except json.JSONDecodeError:  # several lines
        members[name] = with_odd_bytes(members[name], data)
    if data.draw(st.booleans()):
        other = data.draw(st.sampled_from([*sorted(members), "x", "../x", "é/" + name]))
        members[other] = members[name]
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as new:
        for each, content in members.items():
            new.writestr(each, content)
    return buffer.getvalue()


def mutated(sound: Path, data: st.DataObject) -> bytes:
    if data.draw(st.booleans()):
        return with_odd_member(sound, data)
    return with_odd_bytes(sound.read_bytes(), data)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_profile_is_analysed_or_refused(data: st.DataObject, scratch: Path) -> None:
    path = scratch / "trace.json"
    content = with_odd_json_or_bytes(write(path, steps()).read_bytes(), data)
    if data.draw(st.booleans()):
        content = gzip.compress(content)
        content = content[: data.draw(st.sampled_from([len(content), len(content) // 2, 20, 3]))]
    path.write_bytes(content)
    with bounded(BenchorchError):
        assert analyze(path).path is not None


@pytest.mark.timeout(LONGEST_S)
@fuzzed(12)
@given(data=st.data())
def test_a_damaged_nsight_export_is_analysed_or_refused(data: st.DataObject, scratch: Path) -> None:
    path = scratch / "trace.sqlite"
    path.unlink(missing_ok=True)
    path.write_bytes(with_odd_bytes(write_tables(path, tables()).read_bytes(), data))
    with bounded(BenchorchError):
        assert analyze(path).path is not None


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_file_of_arrays_is_listed_or_refused(data: st.DataObject, scratch: Path) -> None:
    sound = scratch / "sound.npz"
    np.savez(sound, a=np.ones((2, 3), np.float32), b=np.zeros(4, np.int64))
    path = scratch / "damaged.npz"
    path.write_bytes(mutated(sound, data))
    with bounded(ValueError):
        read_headers(path)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_damaged_safetensors_are_listed_or_refused(data: st.DataObject, scratch: Path) -> None:
    table = {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    header = with_odd_json_or_bytes(json.dumps(table).encode(), data)
    content = struct.pack("<Q", len(header)) + header + bytes(24)
    if data.draw(st.booleans()):
        content = with_odd_bytes(content, data)
    path = scratch / "damaged.safetensors"
    path.write_bytes(content)
    with bounded(ValueError):
        read_headers(path)


SCRIPT = """\
# labels: name::bert author::x,y
# -*- coding: utf-8 -*-
import torch
net = torch.nn.Linear(3, 4)
print(f"{net(torch.ones(1, 3))!r}", '\\N{EURO SIGN}', 0x1F, 1e9, [*range(3)][::-1])
"""
CELLS = [
    {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1\n", "!ls\n", "x?"]},
    {"cell_type": "markdown", "source": "# title"},
]
SCRIPTS = {
    ".py": SCRIPT.encode(),
    "": SCRIPT.encode("utf-8-sig"),
    ".ipynb": json.dumps({"nbformat": 4, "cells": CELLS}).encode(),
}


@pytest.mark.timeout(LONGEST_S)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_script_is_run_or_refused(data: st.DataObject, scratch: Path) -> None:
    suffix = data.draw(st.sampled_from(sorted(SCRIPTS)))
    path = scratch / f"script{suffix}"
    change = with_odd_json_or_bytes if suffix == ".ipynb" else with_odd_bytes
    path.write_bytes(change(SCRIPTS[suffix], data))
    with bounded():
        assert isinstance(unreadable(path), str)
        assert isinstance(labels_of(path), dict)


@pytest.fixture(scope="module")
def program(scratch: Path) -> Path:
    torch = pytest.importorskip("torch")
    path = scratch / "sound.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),)), path)
    return path


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_program_is_looked_through_or_refused(
    data: st.DataObject, scratch: Path, program: Path
) -> None:
    from benchorch.frameworks.program_archive import check_program

    path = scratch / "damaged.pt2"
    path.write_bytes(mutated(program, data))
    with bounded(BenchorchError, BadZipFile):
        check_program(path)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_graph_is_read_or_refused(data: st.DataObject, scratch: Path) -> None:
    helper = pytest.importorskip("onnx.helper")
    from benchorch.frameworks.onnx_graph import read_onnx_graph

    x, y = (helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy")
    weight = helper.make_tensor("w", 1, [2, 3], [0.5] * 6)
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], [weight]))
    path = scratch / "damaged.onnx"
    path.write_bytes(with_odd_bytes(model.SerializeToString(), data))
    with bounded(BenchorchError):
        read_onnx_graph(path)


@pytest.fixture(scope="module")
def run(scratch: Path) -> Path:
    eager = trial()
    fast = trial("fast", baseline=eager)
    pairs = (eager, result(eager)), (fast, result(fast, 5e5, baseline_ns=1e6))
    return write_run(scratch / "run", *pairs)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_a_damaged_bundle_is_opened_or_refused(
    data: st.DataObject, scratch: Path, run: Path
) -> None:
    sound, path = scratch / "sound.zip", scratch / "damaged.zip"
    if not sound.exists():
        write_bundle(run, [], sound)
    path.write_bytes(mutated(sound, data))
    shutil.rmtree(scratch / "into", ignore_errors=True)
    with bounded(BenchorchError):
        open_bundle(path, scratch / "into")


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_a_damaged_run_is_shown_or_refused(data: st.DataObject, scratch: Path, run: Path) -> None:
    damaged = scratch / "damaged"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(run, damaged)
    files = sorted(path for path in damaged.rglob("*") if path.suffix in (".json", ".jsonl"))
    path = data.draw(st.sampled_from(files))
    change = with_odd_json_or_bytes if path.suffix == ".json" else with_odd_bytes
    path.write_bytes(change(path.read_bytes(), data))
    command = data.draw(st.sampled_from(COMMANDS))
    words = [word.replace("@D", str(damaged)).replace("@R", str(run)) for word in command.split()]
    with bounded(BenchorchError):
        assert main.run(words) in ENDS


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_run_of_odd_values_is_shown_or_refused(
    data: st.DataObject, scratch: Path, run: Path
) -> None:
    """Its digests are sound: whoever writes a run can compute them."""
    eager = trial()
    fast = trial("fast", baseline=eager)
    sound = result(eager, processes=5), result(fast, 5e5, baseline_ns=1e6, processes=5)
    served = data.draw(st.booleans())
    trees: Any = [encode(with_every_part(one, served=served)) for one in sound]
    for _ in range(data.draw(st.integers(1, 4))):
        with_odd_field(trees[data.draw(st.integers(0, 1))], data)
    odd = scratch / "odd"
    shutil.rmtree(odd, ignore_errors=True)
    try:
        found = [decode(TrialResult, tree) for tree in trees]
        write_run(odd, *zip((eager, fast), found, strict=True))
    except (ValueError, BenchorchError):  # neither is it read
        return
    words = data.draw(st.sampled_from(COMMANDS)).replace("@D", str(odd)).replace("@R", str(run))
    with bounded(BenchorchError):
        assert main.run(words.split()) in ENDS
    with bounded(BenchorchError, ArithmeticError, *UNREADABLE):  # which recording expects
        first, second = read_results(odd)
        for planned, one, baseline in (eager, first, None), (fast, second, first):
            assert of_trial("p", planned, one, summarise(one, baseline)).tags


OF_PLANNED = ("open @D --no-browser", "report @D --json", "export @D --output @Dx", "compare @D @R")


@pytest.mark.timeout(LONGEST_S)
@fuzzed(12)
@given(data=st.data())
def test_a_run_of_odd_trials_is_shown_or_refused(
    data: st.DataObject, scratch: Path, run: Path
) -> None:
    odd = scratch / "planned"
    shutil.rmtree(odd, ignore_errors=True)
    shutil.copytree(run, odd)
    plan = json.loads((odd / "plan.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        with_odd_field(data.draw(st.sampled_from(plan["trials"])), data)
    (odd / "plan.json").write_text(json.dumps(plan))
    words = data.draw(st.sampled_from(OF_PLANNED)).replace("@D", str(odd)).replace("@R", str(run))
    with bounded(BenchorchError):
        assert main.run(words.split()) in ENDS


@pytest.fixture(scope="module")
def exported(scratch: Path, run: Path) -> bytes:
    return export.text_of(export.to_json(stored(derive(run, "r"), "r"))).encode()


OF_EXPORTED = (
    *("report @E", "compare @E @R", "compare @R @E", "history @E --output @S", "report @E --json"),
    "gate --baseline @E --candidate @R --max-regression 2%",
)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_a_damaged_exported_run_is_shown_or_refused(
    data: st.DataObject, scratch: Path, run: Path, exported: bytes
) -> None:
    path, site = scratch / "exported.json", scratch / "site"
    path.write_bytes(with_odd_json_or_bytes(exported, data))
    shutil.rmtree(site, ignore_errors=True)
    places = {"@E": path, "@R": run, "@S": site}
    words = data.draw(st.sampled_from(OF_EXPORTED)).split()
    with bounded(BenchorchError):
        assert main.run([str(places.get(word, word)) for word in words]) in ENDS


SETTINGS: dict[str, Json] = {
    "name": "n",
    "cwd": "/tmp",
    "rebuild": "if_needed",
    "baseline": "eager",
    "control": "auto",
    "objective": "latency_ms/p50",
    "profile": ["winner"],
    "pricing": {"market": "spot", "region": "us-east-1", "usd_per_hour": {"local": 1.0}},
    "budget": {"minutes": 5, "max_usd": 1.0},
    "tracking": {"_target_": "benchorch.recorders.mlflow.Mlflow", "uri": "sqlite:///mlflow.db"},
    "executor": {"_target_": "benchorch.executors.local.Local"},
    "store": {"_target_": "benchorch.stores.local.LocalStore", "root": "/tmp/x"},
    "profiler": {"_target_": "benchorch.profilers.none.NoProfiler"},
    "keep_at": "s3://bucket/prefix",
}


@pytest.fixture(scope="module")
def settled(scratch: Path, run: Path) -> Path:
    """The run with settings as a real plan has them, and with what a coordinator leaves."""
    folder = scratch / "settled"
    shutil.copytree(run, folder)
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "session": SETTINGS}))
    ended = {"ended_at": "2026-01-01T00:00:00+00:00", "complete": True, "busy": {"t": {}}}
    driver = {"pid": 1, "begun_s": 1.0, "host": "h", "started_at": "2026-01-01T00:00:00+00:00"}
    spending = {"usd": 1.0, "machines": {"g5": 1}, "head_s": 5.0}
    (folder / "driver.json").write_text(json.dumps({**driver, **ended, "spending": spending}))
    (folder / "stack.json").write_text(json.dumps({"stack": "s", "region": "r", "sweep": "w"}))
    (folder / "tracking.json").write_text(json.dumps({"parent_run_id": "a" * 32}))
    return folder


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_odd_settings_of_a_run_are_data(data: st.DataObject, scratch: Path, settled: Path) -> None:
    damaged = scratch / "unsettled"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(settled, damaged)
    path = damaged / data.draw(st.sampled_from(["plan.json", "driver.json", "tracking.json"]))
    tree = json.loads(path.read_bytes())
    inner = tree["session"] if path.name == "plan.json" else tree
    changed = json.loads(with_odd_value(json.dumps(inner).encode(), data))
    changed = {**tree, "session": changed} if path.name == "plan.json" else changed
    path.write_text(json.dumps(changed))
    command = data.draw(st.sampled_from(COMMANDS))
    words = [
        word.replace("@D", str(damaged)).replace("@R", str(settled)) for word in command.split()
    ]
    with bounded(BenchorchError):
        assert main.run(words) in ENDS


REQUEST = {"model": "m", "seed": 0}
IDENTITY = {"digest": "d", "asked": {"factory": "net:make"}}


@pytest.fixture(scope="module")
def stamp(scratch: Path) -> tuple[Path, bytes]:
    """The file of an identity that two loads agreed on, and its content."""
    stamps = Stamps(folder=scratch / "stamps")
    with recorded() as record:
        Path(__file__).read_bytes()
    consulted = evidence(record, [Path(__file__)], ["x"])
    for _ in range(2):
        stamps.take(REQUEST, IDENTITY, consulted=consulted, untracked=[], environment={})
    (path,) = stamps.folder.iterdir()
    return path, path.read_bytes()


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_a_damaged_identity_of_the_store_is_used_or_ignored(
    data: st.DataObject, stamp: tuple[Path, bytes]
) -> None:
    path, sound = stamp
    path.write_bytes(with_odd_json_or_bytes(sound, data))
    stamps = Stamps(folder=path.parent)
    with bounded():
        stamps.verdicts()
        stamps.found(REQUEST)
        stamps.take(REQUEST, IDENTITY, consulted={}, untracked=[], environment={})
        assert stamps.found({}) is None
