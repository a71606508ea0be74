"""A head that is gone is noticed in seconds; one that is only slow to answer is waited for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import pytest

from benchorch.errors import ExecutorError
from benchorch.executors.head_liveness import REFUSED_S, SILENT_S, HeadLiveness, probe
from benchorch.executors.nodes import exit_reason
from benchorch.executors.ray_fleet import RayFleet

HEAD = "10.0.0.5:6379"


class Head:
    """A head by a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.clock_s = 100.0
        self.error: OSError | None = None
        self.is_same = True
        self.watch = HeadLiveness(
            HEAD,
            is_same=lambda: self.is_same,
            probe=self.probed,
            now_s=lambda: self.clock_s,
        )

    def probed(self, address: str, timeout_s: float) -> OSError | None:
        assert address == HEAD
        assert timeout_s > 0
        return self.error

    def responds_after(self, seconds: float) -> bool:
        self.clock_s += seconds
        return self.watch.is_alive()


@pytest.mark.parametrize(
    ("error", "limit_s"),
    [(ConnectionRefusedError("refused"), REFUSED_S), (TimeoutError("timed out"), SILENT_S)],
)
def test_a_silent_head_ends_the_sweep_with_a_message_before_ray_ends_it(
    error: OSError, limit_s: float
) -> None:
    head = Head()
    assert head.responds_after(1000)  # it was not probed in between
    head.error = error
    assert not head.responds_after(1000)
    assert not head.responds_after(limit_s - 0.1)
    with pytest.raises(ExecutorError, match=rf"{HEAD} has not responded .*resume="):
        head.responds_after(0.1)
    assert limit_s < 60  # after which Ray ends the program


def test_a_head_that_responds_again_ends_nothing() -> None:
    head = Head()
    for _ in range(3):
        head.error = ConnectionRefusedError()
        assert not head.responds_after(1)
        assert not head.responds_after(REFUSED_S - 1)
        head.error = None
        assert head.responds_after(1)


def test_another_head_in_its_place_ends_the_sweep() -> None:
    head = Head()
    assert head.responds_after(1)
    head.error = ConnectionRefusedError()
    assert not head.responds_after(1)
    head.error, head.is_same = None, False
    with pytest.raises(ExecutorError, match=r"was restarted .*resume="):
        head.responds_after(1)


def test_a_probe_connects_and_sends_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            assert probe(address, 5) is None
            caller, _ = server.accept()
            assert caller.recv(1) == b""
            caller.close()
    assert isinstance(probe(f"127.0.0.1:{port}", 5), ConnectionRefusedError)


def test_an_address_without_a_port_counts_as_alive() -> None:
    assert probe("auto", 5) is None


class Gone:
    """Ray, whose head is gone: whatever it is asked would hang."""

    def put(self, value: object) -> object:
        return value

    def remote(self, **_: Any) -> Any:
        return lambda agent: agent

    def nodes(self) -> list[Mapping[str, Any]]:
        raise AssertionError("this would hang for a minute")


class SilentHead:
    def is_alive(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} would hang for a minute")


def test_a_fleet_requests_nothing_of_a_silent_head() -> None:
    fleet = RayFleet(Gone(), lambda *_, **__: None, SilentHead())  # type: ignore[arg-type]
    fleet.request({"local": 1})
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


def test_an_exit_reason_is_the_server_that_died_and_its_error():
    assert exit_reason(ENDED) == "monitor ended with 1; OSError: Address already in use"


def test_without_a_dead_server_the_exit_reason_is_the_last_line():
    assert exit_reason("starting\n\x1b[31mno memory.\x1b[0m\n") == "no memory"
