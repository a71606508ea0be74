"""A head that is gone is noticed in seconds; one that is only slow to answer is waited for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import pytest

from benchorch.errors import ExecutorError
from benchorch.executors.head_watch import REFUSED_S, SILENT_S, HeadWatch, knock
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
