"""A stack's whole life on one machine: made by Terraform, at work, ended, with nothing left.

AWS is emulated, its instances are namespaces; Terraform, the start scripts, Ray with its autoscaler
and node provider, and benchorch are the real ones.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import boto3  # noqa: TID251 - looks at what is left

from support.aws_emulator import terraform
from support.aws_emulator.server import ACCOUNT, REGION, Emulator
from support.machines import namespaces
from support.machines.hypervisor import Hypervisor
from support.machines.machine import Machine

NAME = "benchorch"
USD_PER_HOUR = {"r6i.large": 0.126, "c7i.xlarge": 0.1785, "m7i.large": 0.1008}
APPLY_S, HEAD_S, DESTROY_S = 600, 600, 600
LOOK_S = 0.5
STEADY = 8  # looks


def lacking() -> Sequence[str]:
    """What a rehearsal needs and this machine has not, each with how to get it."""
    found = [namespaces.missing(), terraform.missing()]
    try:
        import moto  # noqa: F401 - only whether it is there
    except ImportError:
        found.append("moto stands in for AWS and is not installed; pip install -e '.[dev]'")
    return [reason for reason in found if reason]


@dataclass
class Rehearsal:
    """One stack; its steps in the order in which they are usually taken.

    Attributes:
        place: for state, logs and what is brought back.
        hypervisor: with the machines that are on.
    """

    emulator: Emulator
    hypervisor: Hypervisor
    place: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def provision(self) -> str:
        """`make provision`; what it said."""
        words = [word for pair in self.variables.items() for word in ("--var", "=".join(pair))]
        return self._stack("apply", APPLY_S, "--yes", *words)

    def head(self) -> Machine:
        """The head, once Ray runs on it."""
        wait(lambda: self.hypervisor.head() is not None, HEAD_S, "no head was launched")
        head = self.hypervisor.head()
        assert head is not None
        wait(lambda: not head.on or self._steady(head), HEAD_S, "Ray did not start")
        assert head.on, f"the head ended: {self.hypervisor.log(head.name).read_text()[-2000:]}"
        return head

    def _steady(self, head: Machine) -> bool:
        """Whether Ray has started and stays: a server that was slow ends it a second later."""
        for _ in range(STEADY):
            told = self.hypervisor.log(head.name).read_text()
            if told.count("Ray runtime started") <= told.count("subprocesses exited unexpectedly"):
                return False
            time.sleep(LOOK_S)
        return True

    def at_head(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """What a program says that is started on the head, as from a session there."""
        return self.head().run([*self._session(), *words], timeout_s)

    def begin(self, log: Path, *words: str) -> subprocess.Popen[bytes]:
        """`benchorch WORDS` on the head, which goes on by itself; its output in a file."""
        return self.head().start([*self._session(), "python", "-m", "benchorch", *words], log)

    def sweep(self, *words: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
        """`benchorch WORDS` on the head."""
        return self.at_head("python", "-m", "benchorch", *words, timeout_s=timeout_s)

    def _session(self) -> Sequence[str]:
        """As from a person's `sudo -i` on the head: what that sets is all that is set."""
        return ["bash", "-l", "-c", 'cd "$1" && shift && exec "$@"', "session", str(self.desk)]

    def workers(self) -> Sequence[str]:
        """Ids of the machines that are on, but for the head's."""
        head = self.hypervisor.head()
        return [name for name in tuple(self.hypervisor.machines) if not head or name != head.name]

    def until_idle(self, timeout_s: float = 240) -> None:
        """Until Ray has ended every worker."""
        wait(lambda: not self.workers(), timeout_s, "workers were not ended")

    @property
    def desk(self) -> Path:
        """Where sweeps are started on the head; it outlives it."""
        return self.place / "desk"

    @property
    def home(self) -> Path:
        """Where `destroy` brings the runs that the stack's bucket has."""
        return self.place / "runs"

    def destroy(self) -> str:
        """`make destroy`; what it said."""
        return self._stack("destroy", DESTROY_S, "--yes")

    def status(self) -> str:
        """`make status`."""
        return self._stack("status", 60)

    def output(self, name: str) -> str:
        """One of Terraform's outputs, as JSON."""
        return subprocess.run(
            ["terraform", "output", "-json", name],
            cwd=self.place / "state" / NAME,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    def made(self) -> int:
        """How many resources Terraform has made."""
        client = boto3.client("s3", **self._keys())
        kept = client.get_object(
            Bucket=f"benchorch-stacks-{ACCOUNT}", Key=f"{NAME}/terraform.tfstate"
        )
        return kept["Body"].read().decode().count('"mode": "managed"')

    def left(self) -> Mapping[str, int]:
        """By what it is: how many machines, processes and things in AWS there still are."""
        client = boto3.client("ec2", **self._keys())
        tagged = [{"Name": "tag:benchorch:stack", "Values": [NAME]}]
        return {
            "instances": len(self.hypervisor.instances_alive()),
            "machines": len(self.hypervisor.machines),
            "processes": len(self.hypervisor.processes()),
            "buckets": len(boto3.client("s3", **self._keys()).list_buckets()["Buckets"]),
            "networks": len(client.describe_vpcs(Filters=tagged)["Vpcs"]),
            "parameters": len(
                boto3.client("ssm", **self._keys()).describe_parameters(
                    ParameterFilters=[
                        {"Key": "Name", "Option": "BeginsWith", "Values": [f"/{NAME}/"]}
                    ]
                )["Parameters"]
            ),
        }

    def _keys(self) -> Mapping[str, str]:
        return {
            "endpoint_url": self.emulator.endpoint,
            "aws_access_key_id": "emulated",
            "aws_secret_access_key": "emulated",
            "region_name": REGION,
        }

    def environment(self) -> Mapping[str, str]:
        """In which Terraform and boto3 take the emulator for AWS."""
        return {
            **os.environ,
            **self.emulator.environment(),
            "BENCHORCH_TF_WORK_DIR": str(self.place / "state"),
            "XDG_STATE_HOME": str(self.place / "remembered"),
            "TF_CLI_CONFIG_FILE": "",
            "TF_VAR_endpoint_checks": "false",
            "PYTHONPATH": str(namespaces.CHECKOUT / "src"),
        }

    def _stack(self, what: str, timeout_s: float, *words: str) -> str:
        script = namespaces.CHECKOUT / "scripts" / "provision.py"
        done = subprocess.run(
            [sys.executable, str(script), what, "--name", NAME, *words],
            cwd=self.place,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        (self.place / f"{what}.log").write_text(done.stdout + done.stderr)
        if done.returncode:
            raise RuntimeError(f"{what} failed: {done.stdout[-1500:]}{done.stderr[-3000:]}")
        return done.stdout


@contextlib.contextmanager
def rehearsing(
    place: Path,
    variables: Mapping[str, str],
    usd_per_hour: Mapping[str, float] = USD_PER_HOUR,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Rehearsal]:
    """A rehearsal before its first step; at the end nothing runs, however it ended."""
    desk = place / "desk"
    desk.mkdir()
    shared = {"head": [desk]}  # nothing is shared by head and workers
    Emulator.forget()  # what a rehearsal before this one has left
    with (
        Emulator(usd_per_hour).running() as emulator,
        Hypervisor(emulator, place, shared, say).watching() as hypervisor,
    ):
        yield Rehearsal(emulator, hypervisor, place, variables)


def wait(done: Callable[[], bool], timeout_s: float, otherwise: str) -> bool:
    """True once it is done; TimeoutError with the reason after this many seconds."""
    deadline_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{otherwise} within {timeout_s:.0f} s")
        time.sleep(LOOK_S)
    return True
