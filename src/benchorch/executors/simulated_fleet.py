"""Simulated fleet: nodes that Ray's autoscaler launches on this machine.

The autoscaler, agents and code are those that run on EC2. Only the nodes are simulated: each is a
Ray node with an address, a kind, labels and a resource of its own, launched when it is requested
and terminated when it is idle. Measurements on it are therefore of this machine.
"""

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

from benchorch.domain.price import Market
from benchorch.executors.scheduling.cluster_file import (
    RESOURCE_PREFIX,
    NodeType,
    Placement,
    cluster_file,
)
from benchorch.host.processes.process_tree import ProcessTree
from benchorch.interfaces.hardware import KIND_VARIABLE

HEAD = "head"
LOOPBACK = "127.0.0.1"
STORE_BYTES = 100 * 2**20
END_S = 5.0
_MARK = "RAY_CLOUD_INSTANCE_ID"
_ROLE, _TYPE = "ray-node-type", "ray-user-node-type"
_NO_PORTS = (
    *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"),
    *(
        "--disable-usage-stats",
        "--include-log-monitor=false",
        f"--object-store-memory={STORE_BYTES}",
    ),
)
_RAY = (
    *(sys.executable, "-P", "-m", "benchorch.executors.ray_cluster"),
    *("start", "--block", f"--node-ip-address={LOOPBACK}"),
)


def simulated_node_types(kinds: Iterable[str], max_nodes: int) -> tuple[NodeType, ...]:
    """Node types for both markets of each kind."""
    return tuple(
        NodeType(
            placement=Placement(kind=kind, market=market),
            max_nodes=max_nodes,
            name=f"{kind}-{market}",
        )
        for kind in sorted(set(kinds))
        for market in Market
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """The running head of a simulated fleet.

    Attributes:
        watchdog: ends all of it when its standard input is closed.
        address: of the head.
        output: of the head and the watchdog; still there when they are gone.
    """

    watchdog: subprocess.Popen[bytes]
    address: str
    output: BinaryIO

    def end(self) -> None:
        """End all of it."""
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.close()
        self.watchdog.wait()
        self.output.close()

    def log(self) -> str:
        """Output of the head."""
        file = self.output.fileno()
        # Not read(): that moves the position at which the head writes.
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def start_simulated_cluster(node_types: Iterable[NodeType], *, idle_s: float) -> SimulatedCluster:
    """Start a head that launches these node types on demand; does not wait until it responds."""
    folder = Path(tempfile.mkdtemp(prefix="bo-"))
    port, client_port = _free_port(), _free_port()
    address = f"{LOOPBACK}:{port}"
    provider = {
        "type": "external",
        "module": "benchorch.executors.simulated_fleet.SimulatedNodes",
        "address": address,
        "folder": str(folder),
    }
    file = folder / "cluster.yaml"
    file.write_text(
        cluster_file("rehearsal", provider, tuple(node_types), idle_s=idle_s), encoding="utf-8"
    )
    command = (
        *(*_RAY, *_NO_PORTS, "--head", f"--port={port}", "--num-cpus=0"),
        *(f"--ray-client-server-port={client_port}", "--include-dashboard=false"),
        *(f"--temp-dir={folder}", f"--autoscaling-config={file}"),
    )
    variables = {
        **os.environ,
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_NODE_TYPE_NAME": HEAD,
        _MARK: HEAD,
    }
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the cluster
    watchdog = subprocess.Popen(
        [sys.executable, "-P", "-m", "benchorch.executors.process_guard", str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=variables,
        start_new_session=True,
    )
    return SimulatedCluster(watchdog=watchdog, address=address, output=output)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _SimulatedNode:
    """A node that was launched."""

    process: subprocess.Popen[bytes]
    tags: dict[str, str]
    processes: ProcessTree


@final
class SimulatedNodes:
    """A node provider for Ray's autoscaler; Ray constructs it from the cluster file."""

    def __init__(self, provider_config: Mapping[str, Any], cluster_name: str) -> None:
        self.provider_config = provider_config
        self.cluster_name = cluster_name
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._nodes: dict[str, _SimulatedNode] = {}

    @staticmethod
    def bootstrap_config(cluster_config: dict[str, Any]) -> dict[str, Any]:
        """The configuration unchanged: nothing has to be prepared."""
        return cluster_config

    def non_terminated_nodes(self, tag_filters: Mapping[str, str]) -> list[str]:
        """The head and every running node with these tags."""
        with self._lock:
            running = [HEAD, *(n for n, node in self._nodes.items() if node.process.poll() is None)]
        return [n for n in running if tag_filters.items() <= self.node_tags(n).items()]

    def node_tags(self, node_id: str) -> dict[str, str]:
        """Tags that the autoscaler has set."""
        if node_id == HEAD:
            return {_ROLE: "head", _TYPE: HEAD}
        return self._nodes[node_id].tags

    def is_running(self, node_id: str) -> bool:
        """Whether it has not ended."""
        return node_id == HEAD or self._nodes[node_id].process.poll() is None

    def is_terminated(self, node_id: str) -> bool:
        """Whether it has ended."""
        return not self.is_running(node_id)

    def create_node_with_resources_and_labels(
        self,
        node_config: Mapping[str, Any],
        tags: Mapping[str, str],
        count: int,
        resources: Mapping[str, float],
        labels: Mapping[str, str],
    ) -> None:
        """Launch nodes of one type."""
        del node_config
        for _ in range(count):
            with self._lock:
                node_id = f"simulated-{os.getpid()}-{next(self._numbers)}"
                self._nodes[node_id] = self._launch(node_id, tags, resources, labels)

    def terminate_nodes(self, node_ids: Iterable[str]) -> None:
        """End nodes, with all that runs on them."""
        for node_id in node_ids:
            self.terminate_node(node_id)

    def terminate_node(self, node_id: str) -> None:
        """End a node, with all that runs on it."""
        node = self._nodes[node_id]
        node.processes.scan()
        node.processes.end(END_S)
        node.process.wait()

    def _folder(self, node_id: str) -> Path:
        """A node's directory; its path is short because it holds sockets."""
        folder = Path(self.provider_config["folder"]) / node_id.rpartition("-")[2]
        folder.mkdir(exist_ok=True)
        return folder

    def _launch(
        self,
        node_id: str,
        tags: Mapping[str, str],
        resources: Mapping[str, float],
        labels: Mapping[str, str],
    ) -> _SimulatedNode:
        own = {name: count for name, count in resources.items() if name.startswith(RESOURCE_PREFIX)}
        kind = next(iter(own)).removeprefix(RESOURCE_PREFIX)
        joined = ",".join(f"{name}={value}" for name, value in labels.items())
        command = (
            *(*_RAY, *_NO_PORTS, f"--address={self.provider_config['address']}", "--num-cpus=1"),
            *(f"--labels={joined}", f"--resources={json.dumps(own)}"),
            f"--temp-dir={self._folder(node_id)}",  # so that none share sockets
        )
        variables = {
            **os.environ,
            KIND_VARIABLE: kind,
            "RAY_NODE_TYPE_NAME": tags[_TYPE],
            _MARK: node_id,
        }
        with (self._folder(node_id) / "start.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )
        return _SimulatedNode(
            process=process,
            tags=dict(tags),
            processes=ProcessTree(process.pid, f"{_MARK}={node_id}"),
        )


def _free_port() -> int:
    """A loopback port that no program listens on now."""
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])
