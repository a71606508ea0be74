"""What the Ray executor refuses and answers before any cluster is touched."""

import subprocess
import sys

import pytest

from benchorch.errors import ConfigError
from benchorch.executors.ray import RayExecutor


def test_without_an_address_only_this_machine_is_reachable() -> None:
    executor = RayExecutor()
    assert executor.unreachable("local") is None
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "'g5.xlarge'" in reason
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


def test_making_the_executor_imports_no_ray() -> None:
    code = (
        "import sys; from benchorch.executors.ray import RayExecutor; "
        "RayExecutor().unreachable('local'); sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
