"""Machines of a fleet that are played on this one: what Ray's autoscaler hires in a rehearsal.

The same autoscaler, agents and code as on EC2 run here. Only the machines are played: each is a
Ray node with an address, a kind, labels and a resource of its own, which comes when it is wanted
and is ended when it is idle. What is measured on it is therefore this machine.
"""

from __future__ import annotations

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
    *(sys.executable, "-m", "benchorch.executors.ray_cluster"),
    *("start", "--block", f"--node-ip-address={LOOPBACK}"),
)


def rehearsed_offers(kinds: Iterable[str], most: int) -> tuple[NodeType, ...]:
    """Both markets of each kind."""
    return tuple(
        NodeType(post=Placement(kind=kind, market=market), most=most, node_type=f"{kind}-{market}")
        for kind in sorted(set(kinds))
        for market in Market
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A rehearsal's head that is running.

    Attributes:
        guard: ends all of it when its standard input is closed.
        address: of the head.
        said: what the head and the guard print; it is there when they are gone.
    """

    guard: subprocess.Popen[bytes]
    address: str
    said: BinaryIO

    def end(self) -> None:
        """Afterwards nothing of it is left."""
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.guard.wait()
        self.said.close()

    def log(self) -> str:
        """What the head has said."""
        file = self.said.fileno()
        # Not read(): the place where it reads is where the head writes.
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def open_stage(
    offers: Iterable[NodeType], *, idle_s: float, environment: Mapping[str, str]
) -> Stage:
    """Start a head that launches these machines on demand; does not wait until it answers."""
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
    file.write_text(cluster_file("rehearsal", provider, tuple(offers), idle_s=idle_s))
    command = (
        *(*_RAY, *_NO_PORTS, "--head", f"--port={port}", "--num-cpus=0"),
        *(f"--ray-client-server-port={client_port}", "--include-dashboard=false"),
        *(f"--temp-dir={folder}", f"--autoscaling-config={file}"),
    )
    variables = {
        **os.environ,
        **environment,
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_NODE_TYPE_NAME": HEAD,
        _MARK: HEAD,
    }
    said = tempfile.TemporaryFile()  # noqa: SIM115 - the stage closes it
    guard = subprocess.Popen(
        [sys.executable, "-m", "benchorch.executors.process_guard", str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=said,
        stderr=subprocess.STDOUT,
        env=variables,
        start_new_session=True,
    )
    return Stage(guard=guard, address=address, said=said)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """A machine that was launched."""

    process: subprocess.Popen[bytes]
    tags: dict[str, str]
    offspring: ProcessTree


@final
class SimulatedNodes:
    """A node provider as Ray's autoscaler knows them; Ray makes it from the cluster file."""

    def __init__(self, provider_config: Mapping[str, Any], cluster_name: str) -> None:
        self.provider_config = provider_config
        self.cluster_name = cluster_name
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._machines: dict[str, _Played] = {}

    @staticmethod
    def bootstrap_config(cluster_config: dict[str, Any]) -> dict[str, Any]:
        """Nothing needs to be made first."""
        return cluster_config

    def non_terminated_nodes(self, tag_filters: Mapping[str, str]) -> list[str]:
        """The head and every machine that runs, if their tags are these."""
        with self._lock:
            running = [HEAD, *(n for n, m in self._machines.items() if m.process.poll() is None)]
        return [n for n in running if tag_filters.items() <= self.node_tags(n).items()]

    def node_tags(self, node_id: str) -> dict[str, str]:
        """What the autoscaler wrote on it."""
        if node_id == HEAD:
            return {_ROLE: "head", _TYPE: HEAD}
        return self._machines[node_id].tags

    def is_running(self, node_id: str) -> bool:
        """Whether it has not ended."""
        return node_id == HEAD or self._machines[node_id].process.poll() is None

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
        """Launch machines of one type."""
        del node_config
        for _ in range(count):
            with self._lock:
                node_id = f"played-{os.getpid()}-{next(self._numbers)}"
                self._machines[node_id] = self._launch(node_id, tags, resources, labels)

    def terminate_nodes(self, node_ids: Iterable[str]) -> None:
        """End machines, with all that runs on them."""
        for node_id in node_ids:
            self.terminate_node(node_id)

    def terminate_node(self, node_id: str) -> None:
        """End a machine, with all that runs on it."""
        machine = self._machines[node_id]
        machine.offspring.scan()
        machine.offspring.end(END_S)
        machine.process.wait()

    def _folder(self, node_id: str) -> Path:
        """Where a machine writes; short, for sockets are in it."""
        folder = Path(self.provider_config["folder"]) / node_id.rpartition("-")[2]
        folder.mkdir(exist_ok=True)
        return folder

    def _launch(
        self,
        node_id: str,
        tags: Mapping[str, str],
        resources: Mapping[str, float],
        labels: Mapping[str, str],
    ) -> _Played:
        own = {name: count for name, count in resources.items() if name.startswith(RESOURCE_PREFIX)}
        kind = next(iter(own)).removeprefix(RESOURCE_PREFIX)
        told = ",".join(f"{name}={value}" for name, value in labels.items())
        command = (
            *(*_RAY, *_NO_PORTS, f"--address={self.provider_config['address']}", "--num-cpus=1"),
            *(f"--labels={told}", f"--resources={json.dumps(own)}"),
            f"--temp-dir={self._folder(node_id)}",  # else two that start at once share sockets
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
        return _Played(
            process=process,
            tags=dict(tags),
            offspring=ProcessTree(process.pid, f"{_MARK}={node_id}"),
        )


def _free_port() -> int:
    """A port of this machine's own that nobody listens on now."""
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])
