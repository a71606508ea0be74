"""The links of a chain: what turns one format into another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What a file step is given.

    Attributes:
        module: makes the live module, earlier module steps applied; call it only if needed.
        source: directory of the previous file step's artifact, or None for the first.
        example: one concrete call.
        out_dir: an empty directory for the artifact's files; nothing else is kept.
        scratch_dir: a directory that outlives this process and belongs to this key alone, for
            a compiler's own cache; it may vanish at any time.
        device: ``cpu`` or ``cuda``.
        threads: how many threads one call will use, for compilers that build it in; None makes
            code that asks at run time.
    """

    module: Callable[[], torch.nn.Module]
    source: Path | None
    example: Example
    out_dir: Path
    scratch_dir: Path
    device: str
    threads: int | None = None


class Step(ABC):
    """A link of a chain; deterministic.

    Class attributes:
        consumes, produces: formats on either side.
        requires: distributions it imports, whose versions enter the BuildKey.
        depends_on: hardware facts the files depend on, e.g. ``("cpu_isa",)``; empty means
            that they may be built anywhere.
        version: raised whenever the same parameters begin to give other files.
    """

    consumes: ClassVar[Format]
    produces: ClassVar[Format]
    requires: ClassVar[tuple[str, ...]]
    depends_on: ClassVar[tuple[str, ...]]
    version: ClassVar[int]


class ModuleStep(Step):
    """Changes the live module and leaves no file: a cast, a memory format."""

    @abstractmethod
    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The changed module; BuildError where this module cannot be changed so."""


class FileStep(Step):
    """Leaves files that a store keeps and a fresh process can read."""

    @abstractmethod
    def build(self, request: BuildRequest) -> None:
        """Write the artifact into ``request.out_dir``; BuildError where it cannot be made."""
