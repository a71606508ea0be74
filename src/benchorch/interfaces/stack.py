"""A stack in a cloud account: a head that runs sweeps, and a bucket by which they come and go."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchorch.errors import ExecutorError


class StackError(ExecutorError):
    """A request to the account failed, in one sentence.

    Attributes:
        may_pass: whether the same request may succeed a moment later, without anybody's help.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Head(NamedTuple):
    """A head's machine.

    Attributes:
        machine: its id.
        is_ready: whether it takes commands.
    """

    machine: str
    is_ready: bool


class Refusal(NamedTuple):
    """A launch that the cloud refused.

    Attributes:
        attempt: its id.
        reason: the cloud's own words.
        may_pass: whether a later attempt may succeed without anybody's help.
    """

    attempt: str
    reason: str
    may_pass: bool


class CommandEnd(NamedTuple):
    """How a command on the head ended: whether well, and what it wrote."""

    is_well: bool
    text: str


class Readiness(NamedTuple):
    """Whether a machine can be had now, in one respect.

    Attributes:
        state: ``ok``, ``warning``, ``unknown`` or ``failed``.
        subject: what was looked at, such as ``g5.xlarge``.
        observed: what the account reports.
        remedy: what to do; empty where nothing is.
    """

    state: str
    subject: str
    observed: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """Record of a stack in its account.

    Attributes:
        kinds: of machines that it may launch.
        results_url: where its runs are archived, as `BENCHORCH_RESULTS_URL` on its head.
        store_url: where its artifacts are kept.
        starts_url: where its machines say how their start went.
    """

    name: str
    region: str
    kinds: Collection[str]
    results_url: str
    store_url: str
    starts_url: str


class Stack(ABC):
    """A stack; every method may raise StackError. Names are relative to `results_url`."""

    @property
    @abstractmethod
    def facts(self) -> StackFacts:
        """Facts available without a request."""

    @abstractmethod
    def read(self, name: str, start: int = 0) -> bytes | None:
        """Content of an object from a byte on, empty beyond its end; None without an object."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Store an object."""

    @abstractmethod
    def download(self, name: str, path: Path) -> None:
        """Write an object to a file."""

    @abstractmethod
    def listed(self, prefix: str) -> Sequence[str]:
        """The names that begin so."""

    @abstractmethod
    def sweeps(self) -> Sequence[str]:
        """The names of its runs, the newest last."""

    @abstractmethod
    def preflight(self, kinds: Sequence[str], markets: Sequence[str]) -> Sequence[Readiness]:
        """Whether a machine of each of these kinds can be had now.

        Args:
            markets: ``spot``, ``on_demand`` or both, in order of preference.
        """

    @abstractmethod
    def lock(self, kind: str) -> str | None:
        """The lock by which nodes of a kind, e.g. ``cuda-x86_64``, are installed, or None."""

    @abstractmethod
    def head(self) -> Head | None:
        """Machine of the head, if there is one."""

    @abstractmethod
    def start_head(self) -> None:
        """Request a head; it takes minutes."""

    @abstractmethod
    def refused_launch(self) -> Refusal | None:
        """The newest attempt to launch a head, if the cloud refused it."""

    @abstractmethod
    def start_of(self, machine: str) -> CommandEnd | None:
        """How a machine's start script ended, with the reason where it failed; None until then."""

    @abstractmethod
    def send(self, machine: str, command: str) -> str:
        """Run a shell command on the head as root; the command's id."""

    @abstractmethod
    def end_of(self, machine: str, command_id: str) -> CommandEnd | None:
        """How a command ended; None while it runs."""


class Stacks(ABC):
    """The stacks of the account whose credentials are found here."""

    @abstractmethod
    def find(self, name: str | None) -> Stack | None:
        """The named stack, or the only one; None without credentials.

        StackError where the account cannot be asked, where there are several and none is named,
        and where there is none of that name.
        """
