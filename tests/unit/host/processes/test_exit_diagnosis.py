from __future__ import annotations

import dataclasses

import pytest

from benchorch.host.processes.exit_diagnosis import ChildExit, diagnose_exit

ENDED = ChildExit(
    stage="measure",
    stopped_for="",
    code=1,
    kernel_killed=False,
    last_bytes=3 * 1024**3,
    limit_bytes=2 * 1024**3,
    timeout_s=600,
    last_message=None,
    log_tail="the end",
)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"stopped_for": "timeout", "code": -15}, "timeout"),
        ({"stopped_for": "oom", "code": -9}, "oom"),
        ({"code": -9, "kernel_killed": True}, "oom"),
        ({"code": -9, "kernel_killed": None}, "oom"),
        ({"code": -9, "kernel_killed": False}, "crash:SIGKILL"),
        ({"code": -11, "kernel_killed": True}, "crash:SIGSEGV"),
        ({"code": -99}, "crash:signal 99"),
        ({"code": 0}, "exit:0"),
        ({"code": 137}, "exit:137"),
        ({"code": None}, "crash:stuck"),
    ],
)
def test_evidence_decides_the_kind(changes: dict[str, object], kind: str) -> None:
    failure = diagnose_exit(dataclasses.replace(ENDED, **changes))  # type: ignore[arg-type]
    assert failure.kind == kind
    assert failure.stage == "measure"
    assert failure.detail == "the end"
    assert "measure" in failure.message
    assert failure.remedy


def test_out_of_memory_names_what_was_held_and_what_was_allowed() -> None:
    message = diagnose_exit(dataclasses.replace(ENDED, stopped_for="oom")).message
    assert "3.0 GiB" in message
    assert "2.0 GiB" in message


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        (None, "none"),
        ("process 3 of 5", "process 3 of 5"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_timeout_names_the_limit_and_the_last_message(message: str | None, phrase: str) -> None:
    ended = dataclasses.replace(ENDED, stopped_for="timeout", last_message=message)
    failure = diagnose_exit(ended)
    assert "10 min 00 s" in failure.message
    assert f"last message: {phrase}." in failure.message
