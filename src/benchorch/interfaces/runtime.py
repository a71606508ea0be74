"""Runtimes load an artifact and call it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.outputs import Outputs
from benchorch.domain.tensors import Arrays, Example
from benchorch.interfaces.conversion import Link

if TYPE_CHECKING:
    import torch

    from benchorch.interfaces.generation import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Arguments of a runtime.

    Attributes:
        module: makes the live module, module steps applied; call it only if needed.
        source: directory of the artifact, or None where the chain leaves no files.
        sources: the directory of each format's last artifact.
        example: one concrete call.
        device: ``cpu`` or ``cuda``.
        threads: how many threads one call may use; set it and report what was set.
        scratch_dir: the same directory the last step had.
        profile_dir: None but where calls will be profiled: then the runtime keeps a profile of
            its own if it can, and writes here what helps to read one.
        tf32: ``protocol.tf32``, for libraries with a setting of their own; torch has it already.
        comes_again: whether the same artifact is loaded once more in this process after this
            executable was closed, so that code compiled for it may stay.
    """

    module: Callable[[], torch.nn.Module]
    source: Path | None
    sources: Mapping[Format, Path]
    example: Example
    device: str
    threads: int
    scratch_dir: Path
    profile_dir: Path | None = None
    tf32: bool = False
    comes_again: bool = False


class Executable(ABC):
    """A loaded artifact: the only object here with a life; close it."""

    @abstractmethod
    def bind(self, arrays: Arrays) -> Callable[[], object]:
        """A call without arguments, its inputs resident on the device."""

    def program(self) -> Program | None:
        """The same artifact for calls that feed each other; None where it has no such calls."""
        return None

    @property
    def artifact(self) -> Executable:
        """The runtime's executable, for a call that consists of several of its calls."""
        return self

    @property
    def steps_per_call(self) -> int:
        """How many calls of `artifact` one call consists of."""
        return 1

    def answer(self, arrays: Arrays) -> Arrays | None:
        """Arrays to compare in place of a call's outputs, by name; None to compare the outputs."""
        return None

    def calling(self) -> AbstractContextManager[object]:
        """Context entered once around many calls, with the setup that they share.

        Calls outside of it, or on other threads, are right as well, only dearer.
        """
        return nullcontext()

    @abstractmethod
    def outputs(self, raw: object) -> Arrays:
        """Outputs of a bound call on the host, floats as float32 or float64.

        Names are ``0``, ``1``, ... in the order of the flattened outputs, the same for every
        runtime, so that conversions can be compared.
        """

    def returned(self, raw: object) -> Outputs | None:
        """Paths of outputs in the model's own result, and its values that are not tensors.

        None where a bound call returns no more than tensors in their order, as files do.
        """
        return None

    def written(self, arrays: Arrays) -> Arrays:
        """Inputs that a call changes in place, by name, as the call leaves them.

        Empty where it makes no change, and where the runtime never writes into its inputs.
        """
        return {}

    @abstractmethod
    def facts(self) -> Mapping[str, Json]:
        """Effective settings: ``dtype``, ``threads``, ``provider``, ``device``.

        Where the runtime can report them also ``executed_dtypes`` (operators by precision, casts
        apart), ``casts``, ``quantized_share``, ``autotuned_kernels``, ``packed_layers``,
        ``delegated_subgraphs`` and ``delegate``: `Execution` is read from these.
        """

    def settings(self) -> Mapping[str, Json]:
        """The facts that cost next to nothing; counting operators may take a call or a session."""
        return self.facts()

    def own_profile(self) -> Path | None:
        """The runtime's own profile of all calls since it was loaded.

        Ends the recording; None where the runtime keeps no profile.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most change nothing outside of themselves
        """Give everything back."""


class Runtime(Link):
    """The last link of a chain, which loads an artifact."""

    def cohabits(self, device: str, threads: int) -> bool:
        """Whether it may be interleaved with another runtime inside one process.

        No where a setting or a pool of threads is the process's, and where its threads spin while
        it is idle: they would take time from the other one. It is then measured back to back.
        """
        return True

    @abstractmethod
    def load(self, request: LoadRequest) -> Executable:
        """Ready to be called; MeasureError where the artifact cannot be loaded."""
