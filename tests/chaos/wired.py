"""A cluster whose nodes are machines with a network cable each, which can be pulled."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.aws_emulator.server import Emulator
from support.machines import image
from support.machines.machine import Machine
from support.machines.namespaces import CHECKOUT, Switch, leashed, listening_inside
from support.waiting import until

IMPATIENT = {
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}
"""Of Ray in a process: a connection over which nothing comes has failed in ten seconds."""

SETTINGS = {
    **IMPATIENT,
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "150000000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
}
"""Of Ray on every machine: one that is cut off counts as dead in ten seconds (Ray's own: a minute),
and gives the head up in forty (Ray's own: more than a minute)."""

NETWORK = "10.61.0"
AWS_PORT = 4566
STARTS, START_S, SETTLE_S = 3, 90, 5
RAY = str(Path(sys.executable).with_name("ray"))


class WiredMachines:
    """A head without slots that the coordinator runs on, and nodes that announce a kind.

    Args:
        place: for their logs and the files that they start with.
        shared: the one directory that all of them see.
        kinds: of the nodes.
        aws: what answers on the head where they look for AWS.
    """

    def __init__(self, place: Path, shared: Path, *kinds: str, aws: Emulator) -> None:
        self.shared, self._place = shared, place
        self._image = image.made(place / "image")
        self._environment = {
            **SETTINGS,
            **aws.environment(),
            "AWS_ENDPOINT_URL": f"http://{NETWORK}.1:{AWS_PORT}",
            "RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"],
            "PYTHONPATH": str(CHECKOUT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._numbers = itertools.count(1)
        self._switch = Switch()
        self.machines: dict[str, Machine] = {}
        self._rays: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self.head = self._boot("head")
            door = listening_inside(self.head.pid, self.head.address, AWS_PORT)
            self.head.at_end(aws.answer_on(door, "node"))
            self._start_ray(self.head, *_HEAD)
            for kind in kinds:
                self.join(self._boot(kind).name)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"{self.head.address}:6379"

    @property
    def under(self) -> Sequence[str]:
        """What starts a program on the head, which ends with whoever started it."""
        return self.head.entering(leashed([]))

    def join(self, name: str) -> None:
        """Start Ray on a machine, for the first time or after it has ended there."""
        announced = f'--resources={{"benchorch:{name.partition("-")[0]}": 1}}'
        self._start_ray(self.machines[name], f"--address={self.address}", "--num-cpus=1", announced)

    def restore(self) -> None:
        """Start Ray again where it has ended; whoever is told that it is dead needs a moment."""
        nodes = [name for name, machine in self.machines.items() if machine is not self.head]
        until(lambda: not all(map(self.has_ray, nodes)), SETTLE_S)
        for name in nodes:
            if not self.has_ray(name):
                self.join(name)

    def has_ray(self, name: str) -> bool:
        """Whether Ray has not ended there."""
        return self._rays[name].poll() is None

    def holds(self, name: str, pid: int) -> bool:
        """Whether a process runs on this machine."""
        return _numbering(pid) == _numbering(self.machines[name].pid)

    def close(self) -> None:
        for machine in self.machines.values():
            machine.power_off()
        self._switch.close()

    def _boot(self, kind: str) -> Machine:
        number = next(self._numbers)
        name = f"{kind}-{number}"
        machine = Machine(
            name,
            f"{NETWORK}.{number}/24",
            self._switch,
            image=self._image,
            shared=[self.shared],
            environment=self._environment,
        )
        self.machines[name] = machine
        return machine

    def _start_ray(self, machine: Machine, *words: str) -> None:
        """Return when it runs. A busy machine misses the time that Ray gives its servers."""
        log = self._place / f"{machine.name}.log"
        ray = [RAY, "start", "--block", f"--node-ip-address={machine.address}", *words]
        for _ in range(STARTS):
            log.write_bytes(b"")
            self._rays[machine.name] = machine.start(ray, log)
            until(lambda: self._is_up(machine.name) or not self.has_ray(machine.name), START_S)
            if self._is_up(machine.name):
                return
        raise RuntimeError(f"Ray did not start on {machine.name}: {log.read_text()[-2000:]}")

    def _is_up(self, name: str) -> bool:
        return "Ray runtime started" in (self._place / f"{name}.log").read_text()


def _numbering(pid: int) -> str | None:
    """The space in which a process has its number; None where it is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


_HEAD = ("--head", "--port=6379", "--num-cpus=0", "--include-dashboard=0")
