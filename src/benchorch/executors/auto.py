"""Each trial where its hardware is: this machine, a Ray cluster, or the account's AWS stack."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.config.components import TARGET, make
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError
from benchorch.executors.side_by_side import side_by_side
from benchorch.host.machine_kind import LOCAL_KINDS, declared_kind
from benchorch.interfaces.executor import Emit, Executor, TrialRunner, Way
from benchorch.interfaces.stack import Readiness

STACK_HEAD = Path("/etc/benchorch/cluster.yaml")
"""Only an AWS stack's head has it; nothing is measured beside the scheduler."""

JOINED = Path("/tmp/ray/ray_current_cluster")
"""File in which Ray records the cluster that this machine has joined."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Executor):
    """Decides for each kind of hardware how its trials come to a machine.

    Hardware that this machine is runs here: ``local``, ``local_gpu`` and, on EC2, its own instance
    type. All other hardware goes to the Ray cluster, where there is one, else to the AWS stack.

    Attributes:
        isolated: as of `Local`.
        address: of a running Ray cluster, ``host:port`` or ``auto``; None for the one that
            RAY_ADDRESS names, or that this machine has joined, if there is one.
        stack: the name of an AWS stack; None for the only one of the account.
    """

    isolated: bool = True
    address: str | None = None
    stack: str | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not self.address.strip():
            raise ValueError("address is empty; use null, or HOST:6379, or auto")

    @property
    def here(self) -> Sequence[str]:
        """The kinds of hardware that this machine is."""
        own = None if STACK_HEAD.exists() else declared_kind()
        return (*LOCAL_KINDS, own) if own else LOCAL_KINDS

    @property
    def cluster(self) -> str | None:
        """The address of the Ray cluster for all other hardware, or None."""
        if self.address is not None:
            return self.address
        if os.environ.get("RAY_ADDRESS"):
            return os.environ["RAY_ADDRESS"]
        # A file alone may be left of a cluster that is gone; whoever has a token means it.
        joined = os.environ.get("RAY_AUTH_MODE") == "token" and JOINED.exists()
        return "auto" if joined else None

    def way(self, hardware_kind: str) -> Way:
        """Way to run on a kind: locally, by the Ray cluster, by the stack, or not at all."""
        if hardware_kind in LOCAL_KINDS or hardware_kind in self.here:
            return Way.LOCAL
        if self.cluster is not None:
            return Way.RAY
        return Way.NONE if STACK_HEAD.exists() else self._remote().way(hardware_kind)

    def unreachable(self, hardware_kind: str) -> str | None:
        """Why nothing here has this hardware, or None."""
        if self.way(hardware_kind) is not Way.NONE:
            return None
        if STACK_HEAD.exists():
            return "not this machine; as this is a stack's head, executor=ec2 launches it."
        return (
            "not this machine; no Ray cluster is named (executor.address or RAY_ADDRESS); "
            f"{self._remote().unreachable(hardware_kind)}"
        )

    def problems(self) -> Sequence[str]:
        """Problems of the Ray cluster, if there is one."""
        return () if self.cluster is None else self._remote().problems()

    def needs_all(self) -> bool:
        """A table with a part of what was requested is no answer."""
        return True

    def launches(self, hardware_kind: str) -> bool:
        """Whether machines of the kind are launched: none exists here or in a cluster."""
        return self.way(hardware_kind) in (Way.STACK, Way.NONE)

    def launches_head(self) -> bool:
        """Whether a stack without a running head would launch the machines."""
        return self.cluster is None and not STACK_HEAD.exists() and self._remote().launches_head()

    def packages(self, hardware_kind: str) -> Mapping[str, str] | None:
        """Packages of a stack's node, even before a stack exists; otherwise this machine's."""
        if self.launches(hardware_kind):
            return self._remote().packages(hardware_kind)
        return None

    def preflight(self, hardware_kinds: Sequence[str]) -> Sequence[Readiness]:
        """Readiness of the kinds that a stack launches."""
        launched = [kind for kind in hardware_kinds if self.way(kind) is Way.STACK]
        return self._remote().preflight(launched) if launched else ()

    def archive_url(self) -> str | None:
        """The stack's, where no cluster comes before it."""
        return None if self.cluster is not None else self._remote().archive_url()

    def region(self) -> str | None:
        """The stack's, else the shell's, in which it would be made; None for a cluster's nodes."""
        if self.cluster is not None:
            return None
        shell = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return self._remote().region() or shell

    def is_remote(self) -> bool:
        """If there is a cluster."""
        return self.cluster is not None

    def measures_in_rounds(self, hardware_kind: str) -> bool:
        """Whether trials of the kind run locally, hence in rounds."""
        return self.way(hardware_kind) is Way.LOCAL

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result; what runs here and what runs elsewhere, at the same time."""
        ways = {kind: self.way(kind) for kind in {trial.hardware_kind for trial in trials}}
        lost = sorted(kind for kind, way in ways.items() if way is Way.NONE)
        if lost:
            raise ConfigError([f"hardware={kind}: {self.unreachable(kind)}" for kind in lost])
        here = [trial for trial in trials if ways[trial.hardware_kind] is Way.LOCAL]
        there = [trial for trial in trials if ways[trial.hardware_kind] is not Way.LOCAL]
        if not there:
            return self._local().run(here, work, emit)
        if not here:
            return self._remote().run(there, work, emit)
        return side_by_side(
            lambda say: self._remote().run(there, work, say),
            lambda say: self._local().run(here, work, say),
            emit=emit,
        )

    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Iterator[Sequence[TrialResult]]:
        """The groups of the cluster or the stack, where nothing runs here."""
        ways = {self.way(trial.hardware_kind) for trial in trials}
        if ways and ways <= {Way.RAY, Way.STACK}:
            return self._remote().run_grouped(trials, work, emit)
        return Executor.run_grouped(self, trials, work, emit)

    def _local(self) -> Executor:
        return _made("local.Local", isolated=self.isolated, kinds=list(self.here))

    def _remote(self) -> Executor:
        if self.cluster is None:
            return _made("stack.StackExecutor", stack=self.stack)
        return _made("ray.RayExecutor", address=self.cluster)


def _made(name: str, **options: object) -> Executor:
    node: ConfigNode = {TARGET: f"benchorch.executors.{name}", **options}  # type: ignore[dict-item]  # JSON all
    return make(node, Executor, "executor")
