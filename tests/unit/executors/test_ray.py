"""What the Ray executor rejects and reports before any cluster is touched."""

import functools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors import ray_cluster
from benchorch.executors.ray import RayExecutor
from benchorch.executors.scheduling.cluster_file import cluster_file
from benchorch.executors.simulated_fleet import simulated_node_types
from benchorch.interfaces.executor import Emit


def no_work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
    raise AssertionError("there is nothing to run")


def no_event(event: Event) -> None:
    del event


def test_a_raylet_that_ends_is_one_line_without_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frames = "".join(f"\n    /ray/raylet(+0x{n}) main::{{lambda()}}" for n in range(20))
    told = {"lines": [f"Raylet is terminated. 3 reasons.{frames}"], "pid": "raylet"}
    ray_cluster._log_first_lines(told, ignore_prefix=False)
    assert caplog.messages == ["ray_node='Raylet is terminated. 3 reasons.'"]


def test_without_an_address_only_this_machine_is_reachable() -> None:
    executor = RayExecutor()
    assert executor.unreachable("local") is None
    assert executor.unreachable("local_gpu") is None
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "hardware=g5.xlarge needs a Ray cluster" in reason
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
    executor = RayExecutor(address=address)
    (problem,) = executor.problems()
    assert "RAY_AUTH_MODE=token" in problem
    with pytest.raises(ConfigError, match="RAY_AUTH_MODE=token"):
        next(iter(executor.run([], no_work, no_event)))


def test_a_plan_for_a_cluster_needs_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    executor = RayExecutor(address="10.0.0.1:6379")
    assert executor.way("g5.xlarge") == "ray"
    assert RayExecutor().way("g5.xlarge") == "none"


def test_every_wrong_option_is_named_with_its_value() -> None:
    with pytest.raises(ConfigError) as caught:
        RayExecutor(max_attempts=0, wait_s=-1, start_s=-2, most=0, market="sport")
    assert caught.value.problems == (
        "max_attempts is 0; it must be at least 1.",
        "wait_s is -1; it must be at least 0.",
        "start_s is -2; it must be at least 0.",
        "most is 0; it must be at least 1.",
        "market is 'sport'; it must be one of spot, on_demand, spot_then_on_demand.",
    )


def test_a_simulated_fleet_has_no_other_cluster_and_any_hardware() -> None:
    assert RayExecutor(rehearse=True).unreachable("p5.48xlarge") is None
    with pytest.raises(ConfigError, match="rehearse simulates a cluster of its own"):
        RayExecutor(rehearse=True, cluster_file="cluster.yaml", address="auto")


def test_a_kind_that_the_cluster_file_does_not_declare_is_a_skip_that_names_those_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster_file("name", {}, simulated_node_types(["r6i.large"], 1), idle_s=60))
    executor = RayExecutor(address="auto", cluster_file=str(path), market="spot")
    assert executor.unreachable("r6i.large") is None
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "declares no g5.xlarge in market spot; it declares: r6i.large (on_demand)" in reason


def test_a_missing_cluster_file_is_named_with_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    executor = RayExecutor(address="auto", cluster_file="/no/cluster.yaml")
    reason = executor.unreachable("g5.xlarge")
    assert reason is not None
    assert "run this there" in reason
    with pytest.raises(ConfigError, match="set its address too"):
        RayExecutor(cluster_file="/no/cluster.yaml")


def test_an_empty_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(ConfigError, match="use null for this machine"):
        RayExecutor(address=" ")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_without_a_cluster_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    results = RayExecutor(address=f"{scheme}127.0.0.1:{port}").run([], no_work, no_event)
    with pytest.raises(ExecutorError, match="No Ray cluster responds at"):
        next(iter(results))


def test_a_cluster_that_is_gone_from_this_machine_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_ADDRESS", gone)
    results = RayExecutor(address="auto").run([], no_work, no_event)
    with pytest.raises(ExecutorError) as caught:
        next(iter(results))
    assert f"No Ray cluster responds at '{gone}', where executor.address=auto leads" in str(
        caught.value
    )
    assert "ray start --head" in str(caught.value)


def test_without_any_cluster_auto_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services  # noqa: TID251  (what Ray would find here is others')

    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "find_gcs_addresses", functools.cache(set))  # Ray clears it
    monkeypatch.setattr(services, "find_bootstrap_address", lambda place: None)
    results = RayExecutor(address="auto").run([], no_work, no_event)
    with pytest.raises(ExecutorError, match="There is no Ray cluster on this machine"):
        next(iter(results))


def test_only_an_address_leads_to_other_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert RayExecutor(address="auto").is_remote()
    assert not RayExecutor().is_remote()
    assert not RayExecutor(rehearse=True).is_remote()


def test_making_the_executor_imports_no_ray() -> None:
    code = (
        "import sys; from benchorch.executors.ray import RayExecutor; "
        "RayExecutor().unreachable('local'); sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_a_node_has_installed_is_asked_of_its_lock_and_not_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    path = tmp_path / "cluster.yaml"
    text = cluster_file("name", {}, simulated_node_types(["g5.xlarge", "r6i.large"], 1), idle_s=60)
    label = "benchorch/instance-type: g5.xlarge\n"
    assert label in text
    indent = text.split(label)[0].rpartition("\n")[2]
    path.write_text(text.replace(label, f"{label}{indent}benchorch/packages: cuda-x86_64-1\n"))
    (tmp_path / "locks").mkdir()
    lock = ("# a lock", "tensorrt==11.0 \\", "    --hash=sha256:0", "torch @ https://a/b.whl \\")
    text = "\n".join(lock)
    (tmp_path / "locks" / "cuda-x86_64-1.txt").write_text(text)
    executor = RayExecutor(address="auto", cluster_file=str(path))
    assert executor.packages("g5.xlarge") == {"tensorrt": "11.0", "torch": ""}
    assert executor.packages("r6i.large") is None  # nobody says
    assert RayExecutor().packages("local") is None
