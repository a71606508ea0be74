"""A script that writes its own report: it is shown or refused, and nothing is read for it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchorch.cli.commands import script_report
from benchorch.cli.commands.script import _data
from benchorch.domain.trial import ConfigNode
from benchorch.frontends.scripts import discover
from benchorch.frontends.scripts.discover import Enough, Script
from benchorch.frontends.scripts.discover_all import Discovery
from support.script_reports import CALL, MODEL

SEND = """
import json, os, time

def send(line):
    data = line.encode() + b"\\n"
    while data:
        data = data[os.write(int(os.environ["BENCHORCH_REPLY_FD"]), data) :]

"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def found_in(folder: Path, code: str, timeout_s: float = 300) -> ConfigNode:
    """What is found in a script of this code, which can be shown."""
    path = folder / "theirs.py"
    path.write_text(SEND + code)
    options: dict[str, Any] = {"jobs": 1, "resume": False, "enough": Enough()}
    looked = Discovery(timeout_s=timeout_s, keep=False, **options)
    (found,) = looked.run([Script(path=path)], lambda _: None)
    assert script_report.overview([found])
    assert json.dumps(_data([found]))
    return found


def sent(**fields: Any) -> str:
    """The script's last word is this reply."""
    line = json.dumps({"kind": "reply", "reply": {"seconds": 1, "ended": "end", **fields}})
    return f"send({line!r})\n"


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script is all of its process, which then imports no torch and reports nothing itself."""
    script = str(tmp_path / "theirs.py")
    monkeypatch.setattr(discover, "_ENTRY", f"import runpy; runpy.run_path({script!r})")


def reason(found: ConfigNode) -> str:
    problem: Any = found["problem"]
    return str(problem["message"])


def test_a_report_of_the_right_shape_is_shown(tmp_path: Path) -> None:
    """So what makes the others wrong is what is wrong about them."""
    found = found_in(tmp_path, sent(models=[MODEL]))
    assert found["models"] == [MODEL]
    assert found["problem"] is None


WRONG: dict[str, Any] = {
    "hash": None,
    "depth": 10**9,
    "seconds": float("inf"),
    "calls": float("nan"),
    "parameters": 10**400,
    "parameter_bytes": -1,
    "line": "x",
    "dtypes": 5,
    "invocations": [{}],
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("field", WRONG)
def test_a_value_that_no_model_has_is_refused_by_its_name(field: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, sent(models=[{**MODEL, field: WRONG[field]}]))
    assert found["models"] == []
    assert reason(found).startswith("its reply cannot be read: ")
    assert f".{field}" in reason(found)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "reply", "reply": null}',
        '{"kind": "partial", "reply": {"seconds": 1, "models": [{}]}}',
        '{"kind": "partial", "reply": 5}',
        '{"kind": "failure"}',
        '{"kind": "x"}',
        "[" * 100_000,
        "1" * 10_000,
    ],
)
@pytest.mark.usefixtures("alone")
def test_a_message_that_is_none_ends_in_a_sentence(line: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, f"send({line!r})\n")
    assert found["models"] == []
    assert reason(found)


def test_a_configuration_without_a_floor_is_refused(tmp_path: Path) -> None:
    deep = "[" * 5000 + "]" * 5000
    call = {**CALL, "model": {"kwargs": "DEEP"}}
    code = sent(models=[{**MODEL, "invocations": [call]}]).replace('"DEEP"', deep)
    assert found_in(tmp_path, code)["models"] == []


def test_an_endless_message_ends_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "MOST_BYTES", 2**22)
    found = found_in(
        tmp_path, "while True:\n    os.write(int(os.environ['BENCHORCH_REPLY_FD']), b'x' * 10**6)\n"
    )
    assert "more than 4 MiB" in reason(found)


def test_endless_models_end_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MOST_BYTES", 2**22)
    line = json.dumps({"kind": "partial", "reply": {"seconds": 1, "models": [MODEL]}})
    code = (
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        f"    send({line!r}.replace('m0', f'{{number:0100000}}').replace('c0', str(number)))\n"
    )
    assert "more than 4 MiB" in reason(found_in(tmp_path, code))


def test_sources_that_are_no_files_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    sources = [str(tmp_path / "pipe.py"), "/dev/zero", "\0", "x" * 10_000]
    assert found_in(tmp_path, sent(models=[MODEL], sources=sources))["models"] == [MODEL]


def test_a_name_without_end_is_shown_in_part(tmp_path: Path) -> None:
    long = "n" * 20_000
    code = sent(models=[{**MODEL, "name": long, "class": long, "invocations": [CALL]}])
    found = found_in(tmp_path, code)
    assert "n" * 201 not in script_report.overview([found])
