"""What the Ray executor refuses and answers before any cluster is touched."""

import socket
import subprocess
import sys

import pytest

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.ray import RayExecutor
from benchorch.interfaces.executor import Emit


def no_work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
    raise AssertionError("there is nothing to run")


def no_event(event: Event) -> None:
    del event


def test_without_an_address_only_this_machine_is_reachable() -> None:
    executor = RayExecutor()
    assert executor.unreachable("local") is None
    assert executor.unreachable("local_gpu") is None
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "not g5.xlarge" in reason
    assert "executor.address=HOST:6379" in reason


def test_with_an_address_every_kind_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert RayExecutor(address="10.0.0.1:6379").unreachable("g5.xlarge") is None


@pytest.mark.parametrize("mode", [None, "disabled"])
@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "ray://10.0.0.1:10001"])
def test_a_cluster_without_token_authentication_is_refused(
    monkeypatch: pytest.MonkeyPatch, mode: str | None, address: str
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(ConfigError, match="RAY_AUTH_MODE=token"):
        RayExecutor(address=address)


def test_every_wrong_option_is_named_with_its_value() -> None:
    with pytest.raises(ConfigError) as caught:
        RayExecutor(max_attempts=0, wait_s=-1, start_s=-2)
    assert caught.value.problems == (
        "max_attempts is 0; it must be at least 1.",
        "wait_s is -1; it must be at least 0.",
        "start_s is -2; it must be at least 0.",
    )


def test_an_empty_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(ConfigError, match="use null for this machine"):
        RayExecutor(address=" ")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    results = RayExecutor(address=f"{scheme}127.0.0.1:{port}").run([], no_work, no_event)
    with pytest.raises(ExecutorError, match="Nobody answers at"):
        next(iter(results))


def test_making_the_executor_imports_no_ray() -> None:
    code = (
        "import sys; from benchorch.executors.ray import RayExecutor; "
        "RayExecutor().unreachable('local'); sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
