"""Boots what the emulated EC2 says is running, and powers off what it says is terminated."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.aws_emulator.server import ACCOUNT, REGION, Emulator
from support.machines import image, metadata
from support.machines.machine import METADATA_ADDRESS, Machine
from support.machines.namespaces import CHECKOUT, Switch, listening_inside

LOOK_S = 0.3
AWS_PORT = 4566
RAYLET_START_S = 180
OBJECT_STORE_BYTES = 150_000_000
PREFIX_LENGTH = 16  # of the stack's network
_KEYS = json.dumps({"AccessKeyId": "emulated", "SecretAccessKey": "emulated", "Token": "emulated"})
_GONE = ("shutting-down", "terminated", "stopping", "stopped")


@dataclass
class Stay:
    """One machine from its boot to its end, by the monotonic clock."""

    name: str
    kind: str
    market: str
    role: str
    from_s: float
    to_s: float | None = None


class Hypervisor:
    """Machines for the instances of an emulator, as long as the context lasts.

    Args:
        emulator: whose instances are looked at.
        place: for logs, one of each machine's start script.
        shared: directories of this machine that machines of a role (``head``, ``worker``) see.
        say: told what happens.
    """

    def __init__(
        self,
        emulator: Emulator,
        place: Path,
        shared: Mapping[str, Sequence[Path]] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.machines: dict[str, Machine] = {}
        self.stays: list[Stay] = []
        self.failures: list[str] = []
        self.duds: set[str] = set()  # instance types that boot and start nothing
        self._emulator, self._place, self._shared, self._say = emulator, place, shared or {}, say
        self._image = image.made(place / "image")
        self._notices: dict[str, str] = {}
        self._spaces: dict[str, int] = {}  # open, or another's gets its number
        self._ended = threading.Event()
        # moto's instances are those of the process: an earlier emulator's are nobody's machines.
        self._before = {one.id for one in _instances()}

    @contextlib.contextmanager
    def watching(self) -> Iterator[Hypervisor]:
        """The loop, in a thread whose end is the end of every machine."""
        self._switch = Switch()
        thread = threading.Thread(target=self._watch, name="hypervisor")
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()
            self._switch.close()

    def of_type(self, kind: str) -> Sequence[str]:
        """Ids of the machines of an instance type that are on."""
        return [name for name in tuple(self.machines) if instance(name).instance_type == kind]

    def head(self) -> Machine | None:
        """The cluster's head, once it is on."""
        heads = [name for name in tuple(self.machines) if role(name) == "head"]
        return self.machines[heads[0]] if heads else None

    def log(self, name: str) -> Path:
        """What a machine's start script said."""
        return self._place / f"{name}.log"

    def instances_alive(self) -> Sequence[str]:
        """Ids of the instances that would cost something."""
        return [one.id for one in self._own() if one.state not in ("terminated", "stopped")]

    def processes(self) -> Sequence[int]:
        """Numbers of the processes that run on any machine that ever was."""
        return [pid for pid, space in _spaces() if space in self._spaces]

    def reclaim(self, name: str) -> None:
        """AWS takes an instance back, without a word."""
        self.machines[name].power_off()

    def give_notice(self, name: str) -> None:
        """AWS says to a spot instance that it has two minutes."""
        at = datetime.now(UTC) + timedelta(seconds=120)
        notice = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self._notices[name] = json.dumps(notice)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            for found in self._own():
                with self._noted(found.id):
                    self._look(found)
        for name in list(self.machines):
            self._check_out(name)
            _terminate(name)  # lest Ray takes it for a machine of the next cluster of this name

    def _own(self) -> Sequence[Any]:
        return [one for one in _instances() if one.id not in self._before]

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """A machine that does not start must not stop the others; its instance is given up."""
        try:
            yield
        except Exception as error:
            self.failures.append(f"{name}: {error!r}")
            self._say(f"{name} does not start: {error!r}")
            _terminate(name)

    def _look(self, found: Any) -> None:
        machine = self.machines.get(found.id)
        if machine is None and found.state == "running":
            self._say(f"{found.id}  {found.instance_type} boots in {found.availability_zone}")
            self._check_in(found, self._boot(found))
        elif machine is not None and found.state in _GONE:
            self._say(f"{found.id}  {found.instance_type} is powered off")
            self._check_out(found.id)
        elif machine is not None and not machine.on:  # it has shut itself down, or was taken back
            self._say(f"{found.id}  {found.instance_type} is gone")
            self._check_out(found.id)
            _terminate(found.id)

    def _check_in(self, found: Any, machine: Machine) -> None:
        market = found.lifecycle or "on-demand"
        self.stays.append(
            Stay(found.id, found.instance_type, market, role(found.id), time.monotonic())
        )
        self._spaces[_space(machine.pid)] = os.open(f"/proc/{machine.pid}/ns/pid", os.O_RDONLY)
        self.machines[found.id] = machine

    def _check_out(self, name: str) -> None:
        self.machines[name].power_off()
        for stay in self.stays:
            if stay.name == name:
                stay.to_s = time.monotonic()
        del self.machines[name]  # last: whoever waits for that may look at all else

    def _boot(self, found: Any) -> Machine:
        machine = Machine(
            found.id,
            f"{found.private_ip}/{PREFIX_LENGTH}",
            self._switch,
            image=self._image,
            hidden=self._place,
            shared=self._shared.get(role(found.id), ()),
            environment=self._environment(),
        )
        door = listening_inside(machine.pid, "127.0.0.1", AWS_PORT)
        machine.at_end(self._emulator.answer_on(door, role(found.id)))
        asked = listening_inside(machine.pid, METADATA_ADDRESS, 80)
        machine.at_end(metadata.serve(asked, lambda path: self._fact(found, path)))
        if found.instance_type not in self.duds:
            script = machine.file("/var/lib/node/user-data")
            script.write_text(user_data(found))
            machine.start(["bash", "/var/lib/node/user-data"], self.log(found.id))
        return machine

    def _environment(self) -> Mapping[str, str]:
        """What real machines have from their role and their image."""
        return {
            **self._emulator.environment(),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{AWS_PORT}",
            "PYTHONPATH": str(CHECKOUT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "BENCHORCH_REHEARSED": "1",
            "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(OBJECT_STORE_BYTES),
            "RAY_raylet_start_wait_time_s": str(RAYLET_START_S),  # simulated nodes share two cores
        }

    def _fact(self, found: Any, path: str) -> str | None:
        if path == "spot/instance-action":
            return self._notices.get(found.id)
        own = {
            "instance-id": found.id,
            "local-ipv4": found.private_ip,
            "instance-type": found.instance_type,
            "ami-id": found.image_id,
            "iam/security-credentials/": "role",
            "iam/security-credentials/role": _KEYS,
            "instance-life-cycle": found.lifecycle or "on-demand",
            "placement/availability-zone": found.availability_zone,
        }
        named = {f"tags/instance/{key}": value for key, value in tags(found.id).items()}
        return {**own, **named}.get(path)


def _spaces() -> Iterator[tuple[int, str]]:
    """Every process with the name of its space of numbers."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(entry.name), _space(int(entry.name))


def _space(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def user_data(found: Any) -> str:
    """An instance's start script; EC2 is told it in base64."""
    text = found.user_data or ""
    text = text.decode() if isinstance(text, bytes) else str(text)
    return text if text.startswith("#!") else base64.b64decode(text).decode()


def instance(name: str) -> Any:
    """The emulator's own record."""
    return _ec2().get_instance(name)


def tags(name: str) -> Mapping[str, str]:
    """Of an instance."""
    return {tag["key"]: tag["value"] for tag in _ec2().describe_tags({"resource-id": [name]})}


def role(name: str) -> str:
    """Of an instance in its cluster: ``head`` or ``worker``."""
    return tags(name).get("ray-node-type", "worker")


def _instances() -> Sequence[Any]:
    return [one for reservation in _ec2().all_reservations() for one in reservation.instances]


def _terminate(name: str) -> None:
    _ec2().terminate_instances([name])


def _ec2() -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][REGION]
