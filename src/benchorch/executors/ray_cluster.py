"""How this process comes to be connected to a Ray cluster, and what the cluster tells of itself.

``python -m benchorch.executors.ray_cluster`` is Ray's own command, kept to loopback.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.head_watch import HeadWatch, knock
from benchorch.executors.nodes import last_line, last_words
from benchorch.executors.scheduling.cluster_file import RESOURCE_PREFIX, NodeType
from benchorch.executors.scheduling.cluster_status import PendingNode
from benchorch.executors.simulated_fleet import LOOPBACK, Stage, open_stage

logger = logging.getLogger(__name__)

LOCAL_KINDS = ("local", "local_gpu")

KNOCK_S = 10.0
"""How long a cluster's port may take to answer."""

STAGE_S = 120.0
"""How long the head of a rehearsal may take to start."""

INSIGHT_S = 5.0
"""How often the autoscaler is asked what it is about."""

AUTOSCALER_SILENCE_S = 120.0
"""An autoscaler that has reported nothing for so long is broken."""

COMMON_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}
LOCAL_SETTINGS = {
    **COMMON_SETTINGS,
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # Ray's own 15 would be inherited by what is measured
    "RAY_memory_monitor_refresh_ms": "0",  # a trial's memory limit is judged by its supervisor
}
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
LOCAL_OBJECT_STORE_BYTES = 100 * 2**20


@final
class RayInsight:
    """What a Ray cluster tells of nodes that are going and machines that are coming."""

    def __init__(self, ray: Any, *, hiring: bool) -> None:
        self._ray = ray
        self._hiring = hiring
        self._asked_s = float("-inf")
        self._launching = PendingNode()
        self._version = -1
        self._heard_s = time.monotonic()
        self._watch = None if self._is_client() else _watch(ray)

    def answers(self) -> bool:
        """Whether the head does; ExecutorError once it is gone. Through ray:// Ray itself tells."""
        return self._watch is None or self._watch.answers()

    def draining(self) -> Iterable[str]:
        """The ids of nodes that will be gone soon; through ray:// nobody tells."""
        if self._is_client():
            return ()
        found: Iterable[str] = self._ray._private.state.state.get_draining_nodes()
        return found

    def drain(self, node: str, reason: str) -> None:
        """Have Ray begin nothing more on a node; through ray:// it cannot be asked."""
        if self._is_client():
            return
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason

        preempted = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        client = self._ray._private.worker.global_worker.gcs_client
        try:
            client.drain_node(node, preempted, reason, 0)  # 0: whenever it is idle
        except self._ray.exceptions.RayError as error:
            logger.warning("drain=failed node=%s reason=%r", node[:8], last_line(str(error)))

    def _is_client(self) -> bool:
        return bool(self._ray.util.client.ray.is_connected())

    def launching(self) -> PendingNode:
        """What the autoscaler is about, as of the last few seconds."""
        now_s = time.monotonic()
        if self._hiring and now_s - self._asked_s >= INSIGHT_S:
            self._asked_s = now_s
            self._launching = self._ask(now_s)
        return self._launching

    def _ask(self, now_s: float) -> PendingNode:
        from ray.autoscaler.v2.utils import ClusterStatusParser
        from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply

        reply = GetClusterStatusReply()
        try:
            client = self._ray._private.worker.global_worker.gcs_client
            reply.ParseFromString(client.get_cluster_status(timeout_s=INSIGHT_S))
        except self._ray.exceptions.RayError as error:
            return replace(self._launching, trouble=last_line(str(error)))
        version = reply.autoscaling_state.last_seen_cluster_resource_state_version
        if version != self._version:
            self._version, self._heard_s = version, now_s
        silent_s = now_s - self._heard_s
        broken = silent_s > AUTOSCALER_SILENCE_S
        status = ClusterStatusParser.from_get_cluster_status_reply(reply, stats=_no_stats())
        booting: dict[str, int] = {}
        for node in status.pending_nodes:
            booting[node.ray_node_type_name] = booting.get(node.ray_node_type_name, 0) + 1
        failed = [launch.details for launch in status.failed_launches if launch.details]
        return PendingNode(
            booting=booting,
            trouble=last_line(failed[-1]) if failed else "",
            dead=f"Ray's autoscaler has reported nothing for {silent_s:.0f} s" if broken else "",
        )


def _watch(ray: Any) -> HeadWatch:
    address = str(ray.get_runtime_context().gcs_address)
    cluster = ray._private.worker.global_worker.gcs_client.cluster_id

    def is_same() -> bool:
        try:
            return bool(ray._raylet.GcsClient(address=address).cluster_id == cluster)
        except ray.exceptions.RayError:
            return False

    return HeadWatch(address, is_same=is_same)


def _no_stats() -> Any:
    from ray.autoscaler.v2.schema import Stats

    return Stats()


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected for as long as a sweep lasts; a cluster started here ends here."""
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
        _start_here(ray) if address is None else _join(ray, address)
        yield ray
    finally:
        _leave(ray)


def _leave(ray: Any) -> None:
    """Leave the cluster.

    Told to leave one that is gone, Ray ends the program at once; told of an exception, it hangs for
    a minute and then does. So it is told at the program's end alone, when all is said.
    """
    if not _is_cut_off(ray):
        ray.shutdown()
        return
    atexit.register(sys.stdout.flush)  # runs before what Ray has registered
    if sys.excepthook is ray._private.worker.custom_excepthook:
        sys.excepthook = ray._private.worker.normal_excepthook


def _is_cut_off(ray: Any) -> bool:
    """Whether this machine's own part of the cluster is gone."""
    node = ray._private.worker.global_worker.node
    if node is None or not ray.is_initialized():
        return False
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(node.raylet_socket_name)
    except OSError:
        return True
    return False


@contextlib.contextmanager
def rehearsed(offers: Sequence[NodeType], *, idle_s: float) -> Iterator[Any]:
    """Ray, connected to a cluster of played machines that ends with it, however it ends."""
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    if ray.is_initialized():
        raise ConfigError(["This process is connected to a Ray cluster already; end that first."])
    ray._raylet.Config.initialize("")  # see _start_here
    stage = open_stage(offers, idle_s=idle_s, environment={})
    try:
        _await_stage(stage)
        with _keeping_to_loopback():
            ray.init(address=stage.address, _node_ip_address=LOOPBACK, **QUIET)
        ray._private.worker.print_to_stdstream = _note  # that machines end is no news here
        with _last_words_of(stage):
            yield ray
    finally:
        _leave(ray)
        stage.end()


@contextlib.contextmanager
def _last_words_of(stage: Stage) -> Iterator[None]:
    """What ends a sweep is told with what ended the head, where that is why."""
    try:
        yield
    except ExecutorError as error:
        if stage.guard.poll() is None:
            raise
        raise ExecutorError(f"{error} Its last words: {last_words(stage.log())}.") from error


def _note(told: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """What Ray would print of its nodes."""
    del ignore_prefix
    logger.debug("ray_says=%r", told.get("lines"))


def _await_stage(stage: Stage) -> None:
    """Return when the head says that it runs."""
    deadline_s = time.monotonic() + STAGE_S
    while "Ray runtime started" not in stage.log():
        if stage.guard.poll() is not None or time.monotonic() > deadline_s:
            raise ExecutorError(
                "The rehearsal's head did not start; executor=process does without Ray: "
                f"{last_words(stage.log())}"
            )
        time.sleep(0.1)


def _start_here(ray: Any) -> None:
    """A cluster of this machine alone; tried twice, for a busy machine misses Ray's fixed 30 s."""
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray._raylet.Config.initialize(
        ""
    )  # Ray read the variables when it was imported, perhaps long ago
    try:
        _init_here(ray)
    except ExecutorError as error:
        logger.warning("ray_start=failed attempt=1 reason=%r", str(error))
        ray.shutdown()
        _init_here(ray)


def _init_here(ray: Any) -> None:
    try:
        with _keeping_to_loopback():
            ray.init(
                address="local",
                num_cpus=1,
                resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in LOCAL_KINDS},
                include_dashboard=False,
                object_store_memory=LOCAL_OBJECT_STORE_BYTES,
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
    except Exception as error:  # Ray raises a bare one when its time is over
        raise ExecutorError(
            "Ray did not start on this machine; executor=process does without it: "
            f"{last_line(str(error))}"
        ) from error


@contextlib.contextmanager
def _keeping_to_loopback() -> Iterator[None]:
    """Listens on loopback only: left alone, Ray takes 127.0.0.1 for the outer address."""
    from ray._private import ray_constants

    outer = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = outer


def ray_command(arguments: Sequence[str]) -> None:
    """Ray's own command, whose 127.0.0.1 stays what it is: for a rehearsal's nodes."""
    from ray._private import services
    from ray.scripts.scripts import cli

    services.resolve_ip_for_localhost = str
    services.get_node = _patiently(services.get_node)
    cli(list(arguments))


def _patiently(get_node: Callable[..., Any]) -> Callable[..., Any]:
    """A busy machine misses the fixed 30 s in which Ray wants its node to be registered."""

    def get(*arguments: Any, **keywords: Any) -> Any:
        deadline_s = time.monotonic() + STAGE_S
        while True:
            try:
                return get_node(*arguments, **keywords)
            except RuntimeError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    return get


def _join(ray: Any, address: str) -> None:
    meant = _meant(address)
    _refuse_silence(address, meant)
    try:
        ray.init(address=meant, **QUIET)
    except Exception as error:  # which one depends on the kind of address
        raise ExecutorError(
            f"Cannot connect to the Ray cluster at {meant!r}: {last_line(str(error))}. Is it "
            "up, does it use RAY_AUTH_MODE=token, and is its token the one given here?"
        ) from error


def _meant(address: str) -> str:
    """Where ``auto`` leads: to the cluster that was last on this machine, be it long gone."""
    if address != "auto":
        return address
    from ray._private import services

    try:
        found = services.get_ray_address_from_environment(address, None)
    except ConnectionError as error:
        raise ExecutorError(
            f"No Ray cluster is on this machine, and RAY_ADDRESS names none. {_NO_HEAD}"
        ) from error
    return str(found)


_NO_HEAD = (
    "Start the cluster's head (`ray start --head`; `make status` says where a stack's is), or name "
    "another executor.address"
)


def _refuse_silence(address: str, meant: str) -> None:
    """Says at once that nobody listens: Ray itself tries for minutes."""
    trouble = knock(meant, KNOCK_S)
    if trouble is None:
        return
    led = "" if address == meant else f", where executor.address={address} leads: it was there once"
    raise ExecutorError(
        f"Nobody answers at {meant!r}{led} ({trouble}). {_NO_HEAD}; from outside its network, "
        "forward the port first."
    )


def _has_token() -> bool:
    named = os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()


if __name__ == "__main__":
    ray_command(sys.argv[1:])
