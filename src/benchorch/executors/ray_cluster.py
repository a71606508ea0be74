"""Connections to a Ray cluster, and what the cluster reports of itself.

``python -m benchorch.executors.ray_cluster`` is Ray's own command, restricted to loopback.
"""

import atexit
import contextlib
import logging
import os
import secrets
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.head_liveness import HeadLiveness, probe
from benchorch.executors.nodes import exit_reason, last_line
from benchorch.executors.scheduling.agent import Agent
from benchorch.executors.scheduling.cluster_file import RESOURCE_PREFIX, NodeType
from benchorch.executors.scheduling.cluster_status import LaunchStatus
from benchorch.executors.scheduling.launch_log import LaunchLog, launch_log
from benchorch.executors.simulated_fleet import LOOPBACK, SimulatedCluster, start_simulated_cluster
from benchorch.files import expanded
from benchorch.host.machine_kind import LOCAL_KINDS
from benchorch.interfaces.launched_machines import LaunchedMachines
from benchorch.interfaces.node_starts import NodeStarts

logger = logging.getLogger(__name__)

PROBE_S = 10.0
"""How long a cluster's port may take to accept a connection."""

START_S = 120.0
"""How long the head of a simulated fleet may take to start."""

STATUS_S = 5.0
"""How often the autoscaler's status is requested."""

AUTOSCALER_SILENCE_S = 120.0
"""An autoscaler that has reported nothing for so long is broken."""

_ALIVE, _PENDING = "ALIVE", "PENDING_CREATION"
"""States of Ray's actors."""

COMMON_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}
LOCAL_SETTINGS = {
    **COMMON_SETTINGS,
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # Ray's own 15 would be inherited by measuring processes
    "RAY_memory_monitor_refresh_ms": "0",  # a trial's memory limit is enforced by its supervisor
}
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
LOCAL_OBJECT_STORE_BYTES = 100 * 2**20


@final
class RayAutoscaler:
    """Autoscaler of a Ray cluster: its launched and lost nodes."""

    def __init__(
        self,
        ray: Any,
        *,
        launches: bool,
        starts: NodeStarts | None = None,
        machines: LaunchedMachines | None = None,
    ) -> None:
        self._ray = ray
        self._machines = machines
        self._starts = starts
        self._has_launches = launches
        self._requested_s = float("-inf")
        self._launches = LaunchStatus()
        self._version = -1
        self._reported_s = time.monotonic()
        self._liveness = None if self._is_client() else _liveness(ray)
        self._log = None if self._is_client() else _launch_log(ray)

    def is_alive(self) -> bool:
        """Whether the head responds; ExecutorError once it is gone. Ray checks ray:// itself."""
        return self._liveness is None or self._liveness.is_alive()

    def draining(self) -> Iterable[str]:
        """The ids of nodes that will be gone soon; unknown through ray://."""
        if self._is_client():
            return ()
        found: Iterable[str] = self._ray._private.state.state.get_draining_nodes()
        return found

    def agents_of_others(self) -> Collection[str]:
        """The node of each agent of another sweep, empty while it is pending; none by ray://."""
        if self._is_client():
            return ()
        state, own = self._ray._private.state, self._ray.get_runtime_context().get_job_id()
        found = {at: state.actors(actor_state_name=at).values() for at in (_ALIVE, _PENDING)}
        return [
            actor["Address"]["NodeID"] if at == _ALIVE else ""
            for at, actors in found.items()
            for actor in actors
            if actor["ActorClassName"] == Agent.__name__ and actor["JobID"] != own
        ]

    def drain(self, node: str, reason: str) -> None:
        """Have Ray start nothing more on a node; impossible through ray://."""
        if self._is_client():
            return
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason

        preempted = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        client = self._ray._private.worker.global_worker.gcs_client
        try:
            client.drain_node(node, preempted, reason, 0)  # 0: whenever it is idle
        except self._ray.exceptions.RayError as error:
            logger.warning("drain=failed node=%s reason=%r", node[:8], last_line(str(error)))

    def end_booting(self, kinds: Collection[str], joined: Collection[str]) -> None:
        """End booting machines through their cloud, if known: Ray ends only joined nodes."""
        ended = self._machines.end_booting(kinds, joined) if self._machines else 0
        if ended:
            logger.info("booting=ended machines=%d", ended)

    def _is_client(self) -> bool:
        return bool(self._ray.util.client.ray.is_connected())

    def launches(self) -> LaunchStatus:
        """Launches of the autoscaler, at most `STATUS_S` old."""
        now_s = time.monotonic()
        if self._has_launches and now_s - self._requested_s >= STATUS_S:
            self._requested_s = now_s
            self._launches = self._request(now_s)
            if self._starts is not None:
                failed = self._starts.failed()
                self._launches = replace(self._launches, failed_starts=failed)
        return self._launches

    def _request(self, now_s: float) -> LaunchStatus:
        from ray.autoscaler.v2.schema import Stats
        from ray.autoscaler.v2.utils import ClusterStatusParser
        from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply

        reply = GetClusterStatusReply()
        try:
            client = self._ray._private.worker.global_worker.gcs_client
            reply.ParseFromString(client.get_cluster_status(timeout_s=STATUS_S))
        except self._ray.exceptions.RayError as error:
            return replace(self._launches, last_error=last_line(str(error)))
        version = reply.autoscaling_state.last_seen_cluster_resource_state_version
        if version != self._version:
            self._version, self._reported_s = version, now_s
        silent_s = now_s - self._reported_s
        broken = silent_s > AUTOSCALER_SILENCE_S
        status = ClusterStatusParser.from_get_cluster_status_reply(reply, stats=Stats())
        failed = [launch.details for launch in status.failed_launches if launch.details]
        refused = self._log.last_refusal() if self._log else ""
        return LaunchStatus(
            booting=Counter(node.ray_node_type_name for node in status.pending_nodes),
            last_error=refused or (last_line(failed[-1]) if failed else ""),
            stopped=f"Ray's autoscaler has reported nothing for {silent_s:.0f} s" if broken else "",
        )


def _launch_log(ray: Any) -> LaunchLog | None:
    """The autoscaler's log; None where Ray does not name its folder."""
    node = getattr(ray._private.worker.global_worker, "node", None)
    return launch_log(Path(node.get_logs_dir_path())) if node else None


def _liveness(ray: Any) -> HeadLiveness:
    address = str(ray.get_runtime_context().gcs_address)
    cluster = ray._private.worker.global_worker.gcs_client.cluster_id

    def is_same() -> bool:
        try:
            return bool(ray._raylet.GcsClient(address=address).cluster_id == cluster)
        except ray.exceptions.RayError:
            return False

    return HeadLiveness(address, is_same=is_same)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected while this is open; a cluster that is started here ends here."""
    for name, value in (LOCAL_SETTINGS if address is None else COMMON_SETTINGS).items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        if address is None:
            raise ConfigError(
                ["This process is connected to a Ray cluster already; use executor.address=auto."]
            )
        yield ray
        return
    try:
        _start_local(ray) if address is None else _join(ray, address)
        yield ray
    finally:
        _disconnect(ray)


def _disconnect(ray: Any) -> None:
    """Disconnect from the cluster.

    If the cluster is gone, `ray.shutdown` ends the program at once, and Ray's exception hook hangs
    for a minute before it does. So shutdown is left to Ray's exit handler, after all output.
    """
    if not _is_cut_off(ray):
        ray.shutdown()
        return
    atexit.register(sys.stdout.flush)  # runs before what Ray has registered
    if sys.excepthook is ray._private.worker.custom_excepthook:
        sys.excepthook = ray._private.worker.normal_excepthook


def _is_cut_off(ray: Any) -> bool:
    """Whether the cluster's process on this machine is gone."""
    node = ray._private.worker.global_worker.node
    if node is None or not ray.is_initialized():
        return False
    try:
        with socket.socket(socket.AF_UNIX) as raylet:
            raylet.connect(node.raylet_socket_name)
    except OSError:
        return True
    return False


@contextlib.contextmanager
def simulated(node_types: Sequence[NodeType], *, idle_s: float) -> Iterator[Any]:
    """Ray, connected to a cluster of simulated nodes that ends with it, however it ends."""
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    if ray.is_initialized():
        raise ConfigError(["This process is connected to a Ray cluster already; end that first."])
    ray._raylet.Config.initialize("")  # see _start_local
    cluster = start_simulated_cluster(node_types, idle_s=idle_s)
    try:
        _await_head(cluster)
        with _on_loopback():
            ray.init(
                address=cluster.address,
                job_config=_job_config(ray),
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
        ray._private.worker.print_to_stdstream = _log  # that simulated nodes end is expected
        with _explained_by(cluster):
            yield ray
    finally:
        _disconnect(ray)
        cluster.end()


@contextlib.contextmanager
def _explained_by(cluster: SimulatedCluster) -> Iterator[None]:
    """Add to an error why the head exited, if it has."""
    try:
        yield
    except ExecutorError as error:
        if cluster.watchdog.poll() is None:
            raise
        raise ExecutorError(f"{error} It exited with: {exit_reason(cluster.log())}.") from error


def _log(output: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Log what Ray would print of its nodes."""
    del ignore_prefix
    logger.debug("ray_output=%r", output.get("lines"))


def _log_first_lines(output: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Log what Ray reports of its nodes, without the stack frames of a raylet that ended."""
    del ignore_prefix
    for message in output.get("lines", ()):
        first, _, _ = str(message).strip().partition("\n")
        logger.warning("ray_node=%r", first)


def _await_head(cluster: SimulatedCluster) -> None:
    """Return when the head has started."""
    deadline_s = time.monotonic() + START_S
    while "Ray runtime started" not in cluster.log():
        if cluster.watchdog.poll() is not None or time.monotonic() > deadline_s:
            raise ExecutorError(
                "The simulated fleet's head did not start; executor=process works without Ray: "
                f"{exit_reason(cluster.log())}"
            )
        time.sleep(0.1)


def _start_local(ray: Any) -> None:
    """Start a cluster of this machine alone; twice if a busy machine misses Ray's fixed 30 s."""
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray._raylet.Config.initialize("")  # Ray read the variables at import, perhaps long ago
    try:
        _init_local(ray)
    except ExecutorError as error:
        logger.warning("ray_start=failed attempt=1 reason=%r", str(error))
        ray.shutdown()
        _init_local(ray)


def _init_local(ray: Any) -> None:
    try:
        with _on_loopback():
            ray.init(
                address="local",
                num_cpus=1,
                resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in LOCAL_KINDS},
                include_dashboard=False,
                object_store_memory=LOCAL_OBJECT_STORE_BYTES,
                job_config=_job_config(ray),
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
    except Exception as error:  # Ray raises a bare one after its timeout
        raise ExecutorError(
            "Ray did not start on this machine; executor=process works without it: "
            f"{last_line(str(error))}"
        ) from error


def _job_config(ray: Any) -> Any:
    """Settings of all workers; a trial's folder comes with its session."""
    settings = ray.job_config.JobConfig()
    settings._py_driver_sys_path = _WorkerFolders()
    return settings


class _WorkerFolders(list[str]):
    """Folders where workers look for modules first; not the current one, which may be anyone's."""

    def extend(self, folders: Iterable[str]) -> None:
        """Add the script's folder; Ray has the current one after it."""
        added = list(folders)
        if added[-1:] == [str(Path.cwd())]:
            added.pop()
        super().extend(added)


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Listen on loopback only: by default Ray replaces 127.0.0.1 by the outer address."""
    from ray._private import ray_constants

    outer = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = outer


def ray_command(arguments: Sequence[str]) -> None:
    """Ray's own command, which keeps 127.0.0.1 as it is: for simulated nodes."""
    from ray._private import services
    from ray.scripts.scripts import cli

    services.resolve_ip_for_localhost = str
    services.get_node = _patiently(services.get_node)
    cli(list(arguments))


def _patiently(get_node: Callable[..., Any]) -> Callable[..., Any]:
    """Retry: a busy machine misses Ray's fixed 30 s for the registration of its node."""

    def get(*arguments: Any, **keywords: Any) -> Any:
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                return get_node(*arguments, **keywords)
            except RuntimeError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    return get


def _join(ray: Any, address: str) -> None:
    resolved = _resolved(address)
    silence = probe(resolved, PROBE_S)
    if silence is not None:  # Ray itself tries for minutes
        stale = (
            "" if address == resolved else f", where executor.address={address} leads: it is gone"
        )
        raise ExecutorError(
            f"No Ray cluster responds at {resolved!r}{stale} ({silence}). {_NO_HEAD}; from outside "
            "its network, forward the port first."
        )
    try:
        is_client = "://" in resolved  # which adds no folder of this machine
        ray.init(address=resolved, job_config=None if is_client else _job_config(ray), **QUIET)
        ray._private.worker.print_to_stdstream = _log_first_lines
    except Exception as error:  # which one depends on the kind of address
        raise ExecutorError(
            f"Cannot connect to the Ray cluster at {resolved!r}: {last_line(str(error))}. Is it "
            "up, does it use RAY_AUTH_MODE=token, and is its token the one given here?"
        ) from error


def _resolved(address: str) -> str:
    """The address; for ``auto`` that of the last cluster on this machine, even one long gone."""
    if address != "auto":
        return address
    from ray._private import services

    try:
        found = services.get_ray_address_from_environment(address, None)
    except ConnectionError as error:
        raise ExecutorError(
            f"There is no Ray cluster on this machine, and RAY_ADDRESS names none. {_NO_HEAD}"
        ) from error
    return str(found)


_NO_HEAD = (
    "Start the cluster's head (`ray start --head`; `make status` shows a stack's), or name "
    "another executor.address"
)


def _has_token() -> bool:
    named = os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
    return bool(named) or (expanded("~") / ".ray" / "auth_token").exists()


if __name__ == "__main__":
    ray_command(sys.argv[1:])
