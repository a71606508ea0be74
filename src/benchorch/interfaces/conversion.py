"""Links of a conversion chain, and its steps, each from one format to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, Example

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Arguments of a file step.

    Attributes:
        module: makes the live module, earlier module steps applied; call it only if needed.
        source: directory of the previous file step's artifact, or None for the first.
        sources: the directory of each format's last artifact so far.
        example: one concrete call.
        calibration: other inputs of the same shapes, by number from 0, as many as are wanted;
            outputs are never compared on them.
        out_dir: an empty directory for the artifact's files; nothing else is kept.
        scratch_dir: a directory that outlives this process and belongs to this key alone, for
            a compiler's own cache; it may vanish at any time.
        device: ``cpu`` or ``cuda``.
        threads: how many threads one call will use, for compilers that build it in; None makes
            code that asks at run time.
        tf32: ``protocol.tf32``, for compilers that fix it in what they build; torch has it already.
    """

    module: Callable[[], torch.nn.Module]
    source: Path | None
    sources: Mapping[Format, Path]
    example: Example
    calibration: Callable[[int], Arrays]
    out_dir: Path
    scratch_dir: Path
    device: str
    threads: int | None = None
    tf32: bool = False


T = TypeVar("T")

SAME_ARITHMETIC_RATIO = 1e-4
"""Tolerance for another order of the same float32 operations."""

TF32_RATIO = 5e-3
"""Tolerance for rounding operands of float32 products to 10 mantissa bits, as GPUs can."""

HALF_PRECISION_RATIOS = {"bfloat16": 3e-2, "float16": 5e-3}
"""Tolerance for computing in a dtype with 8 or 11 bits of precision."""


def by_option(option: str, values: Mapping[Any, T]) -> T:
    """An attribute of a link that follows from the value of one of its options."""
    return cast(T, property(lambda link: values[getattr(link, option)]))


class Link(ABC):
    """A step or a runtime.

    Class attributes:
        consumes: the formats it takes.
        requires: distributions it imports, whose versions enter the BuildKey; torch by default.
        version: raised whenever the same parameters begin to give something else.
        not_on_cpu, not_on_gpu: why no machine can do it for such a device; empty where one can.
        generates: whether it is for models that generate tokens: a step for no others, a runtime
            for these too.
    """

    generates: ClassVar[bool] = False
    consumes: ClassVar[tuple[Format, ...]]
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 1
    not_on_cpu: ClassVar[str] = ""
    not_on_gpu: ClassVar[str] = ""

    @property
    def tolerance_ratio(self) -> float:
        """Relative L2 error of outputs that this link alone may cause."""
        return SAME_ARITHMETIC_RATIO

    @property
    def requested_precision(self) -> str:
        """Requested dtype of the arithmetic, ``int8`` or ``int8 weights``; empty to keep it."""
        return ""

    def preload(self) -> None:  # noqa: B027 - most have nothing
        """Import what it needs besides torch, where it is installed and starts no thread."""

    def unavailable(self, device: str) -> str | None:
        """Reason why no machine can do it for this device, or None; imports nothing heavy.

        Packages apart: those of `requires` are looked for before.
        """
        return (self.not_on_cpu if device == "cpu" else self.not_on_gpu) or None


class Step(Link):
    """A link that makes one format of another; deterministic.

    Class attributes, besides those of every link:
        produces: the format it gives.
        depends_on: hardware facts the files depend on, e.g. ``("cpu_isa",)``; empty means
            that they may be built anywhere.
        typical_build_s: what a forecast assumes without earlier runs; compilers take about twice
            what exporters do.
        fixes_cache: whether a decoder's cache has its full size from the start afterwards.
    """

    fixes_cache: ClassVar[bool] = False
    produces: ClassVar[Format]
    depends_on: ClassVar[tuple[str, ...]] = ()
    typical_build_s: ClassVar[float] = 20.0

    @property
    def calibrated_on(self) -> int:
        """How many calibration inputs determine its files: its parameter ``samples``, if any."""
        return int(getattr(self, "samples", 0))

    @property
    def follows_example(self) -> bool:
        """Whether its files keep the path that a live module takes for the example's values."""
        return False

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """Why it changed nothing about what ran, or None.

        Args:
            facts: of the loaded executable.
            device: ``cpu`` or ``cuda``.
        """
        return None


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


class StateStep(FileStep):
    """Changes the live module and keeps the computed state as files, to be restored.

    Quantised weights, for instance. The module that ``build`` gets is its own, to be changed.
    """

    consumes = (Format.MODULE,)
    produces = Format.MODULE

    @abstractmethod
    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The module as it was when `build` wrote ``source``, from the module as it was before.

        MeasureError where the files do not fit it.
        """
