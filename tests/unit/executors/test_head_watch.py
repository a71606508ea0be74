"""A head that is gone is noticed in seconds; one that is only slow to answer is waited for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import pytest

from benchorch.errors import ExecutorError
from benchorch.executors.head_watch import REFUSED_S, SILENT_S, HeadWatch, knock
from benchorch.executors.nodes import last_words
from benchorch.executors.ray_fleet import RayFleet

HEAD = "10.0.0.5:6379"


class Head:
    """A head by a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.clock_s = 100.0
        self.trouble: OSError | None = None
        self.is_same = True
        self.watch = HeadWatch(
            HEAD,
            is_same=lambda: self.is_same,
            knocking=self.knocked,
            now_s=lambda: self.clock_s,
        )

    def knocked(self, address: str, timeout_s: float) -> OSError | None:
        assert address == HEAD
        assert timeout_s > 0
        return self.trouble

    def answers_after(self, seconds: float) -> bool:
        self.clock_s += seconds
        return self.watch.answers()


@pytest.mark.parametrize(
    ("trouble", "patience_s"),
    [(ConnectionRefusedError("refused"), REFUSED_S), (TimeoutError("timed out"), SILENT_S)],
)
def test_silence_ends_the_sweep_in_words_before_ray_would_without(
    trouble: OSError, patience_s: float
) -> None:
    head = Head()
    assert head.answers_after(1000)  # nobody looked in between
    head.trouble = trouble
    assert not head.answers_after(1000)
    assert not head.answers_after(patience_s - 0.1)
    with pytest.raises(ExecutorError, match=rf"{HEAD} has not answered .*resume="):
        head.answers_after(0.1)
    assert patience_s < 60  # after which Ray ends the program


def test_a_head_that_answers_again_is_forgiven() -> None:
    head = Head()
    for _ in range(3):
        head.trouble = ConnectionRefusedError()
        assert not head.answers_after(1)
        assert not head.answers_after(REFUSED_S - 1)
        head.trouble = None
        assert head.answers_after(1)


def test_another_head_in_its_place_is_not_taken_for_it() -> None:
    head = Head()
    assert head.answers_after(1)
    head.trouble = ConnectionRefusedError()
    assert not head.answers_after(1)
    head.trouble, head.is_same = None, False
    with pytest.raises(ExecutorError, match=r"started anew .*resume="):
        head.answers_after(1)


def test_a_port_is_knocked_at_and_nothing_is_said_to_whoever_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            assert knock(address, 5) is None
            caller, _ = server.accept()
            assert caller.recv(1) == b""
            caller.close()
    assert isinstance(knock(f"127.0.0.1:{port}", 5), ConnectionRefusedError)


def test_what_has_no_port_is_taken_to_answer() -> None:
    assert knock("auto", 5) is None


class Gone:
    """Ray, whose head is gone: whatever it is asked would hang."""

    def put(self, value: object) -> object:
        return value

    def remote(self, **_: Any) -> Any:
        return lambda agent: agent

    def nodes(self) -> list[Mapping[str, Any]]:
        raise AssertionError("this would hang for a minute")


class SilentInsight:
    def answers(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} would hang for a minute")


def test_a_fleet_asks_nothing_of_a_head_that_does_not_answer() -> None:
    fleet = RayFleet(Gone(), lambda *_, **__: None, insight=SilentInsight())  # type: ignore[arg-type]
    fleet.want({"local": 1})
    assert fleet.receive(0) == []


ENDED = """\x1b[1mRay runtime started.\x1b[39m
20:41:34,907\tERR scripts.py:1307 -- \x1b[31mSome Ray subprocesses exited unexpectedly:\x1b[39m
20:41:34,908\tERR scripts.py:87 -- \x1b[1mmonitor\x1b[22m\x1b[39m\x1b[2m [exit code=1]\x1b[22m
20:41:34,909\tERR scripts.py:115 -- ----- BEGIN monitor.err tail (exit code(s)=1) -----
20:41:34,910\tERR scripts.py:122 -- Traceback (most recent call last):
OSError: Address already in use.

20:41:34,911\tERR scripts.py:125 -- ----- END monitor.err tail -----
20:41:34,912\tERR scripts.py:1315 -- Remaining processes will be killed.
"""


def test_a_heads_last_words_are_the_server_that_died_and_its_reason():
    assert last_words(ENDED) == "monitor ended with 1; OSError: Address already in use"


def test_a_head_that_says_nothing_of_its_end_has_its_last_line():
    assert last_words("starting\n\x1b[31mno memory.\x1b[0m\n") == "no memory"
