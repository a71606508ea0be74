"""A Ray cluster on this machine: a head without slots, and nodes that announce hardware kinds."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

KINDS = ("a", "a", "b")
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
}


class Machines:
    """The cluster; every node has one slot unless it is added with more."""

    def __init__(self, *kinds: str) -> None:
        from ray._raylet import Config  # noqa: TID251  (tests of Ray's room)
        from ray.cluster_utils import Cluster  # noqa: TID251

        Config.initialize("")  # some other test may have imported Ray with other variables
        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: dict[str, Any] = {}
        self.added = 0
        for kind in kinds:
            self.add(kind)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self, *kinds: str, slots: int = 1, **more: object) -> str:
        """The id of a new node of these kinds."""
        self.added += 1
        node = self.cluster.add_node(
            num_cpus=1,
            resources={f"benchorch:{kind}": slots for kind in kinds},
            node_ip_address=f"127.0.0.{1 + self.added}",  # so that no coordinator attaches to it
            **more,
        )
        self.nodes[node.node_id] = node
        return str(node.node_id)

    def kinds(self, node_id: str) -> set[str]:
        """What a node announces, as resources."""
        return set(self.nodes[node_id]._ray_params.resources)

    def kill(self, node_id: str) -> None:
        """End every process of a node at once: left alone, a worker may outlive its raylet."""
        for pid in self.pids(node_id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.cluster.remove_node(self.nodes.pop(node_id), allow_graceful=False)

    def pids(self, node_id: str) -> list[int]:
        """Its raylet, and all that runs below."""
        import psutil

        raylets = [info.process.pid for info in self.nodes[node_id].all_processes["raylet"]]
        below = [child.pid for pid in raylets for child in psutil.Process(pid).children(True)]
        return [*raylets, *below]

    def kill_head(self) -> None:
        """The head's process that knows everything, without which nothing is found again."""
        for info in self.cluster.head_node.all_processes["gcs_server"]:
            info.process.kill()

    def close(self) -> None:
        self.cluster.shutdown()


@contextmanager
def ray_settings() -> Iterator[None]:
    """The variables with which Ray's processes of the cluster are started and found."""
    # Ray reads the token once in a process, so it stays; everything else is put back.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        yield
