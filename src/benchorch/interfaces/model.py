"""A module factory with named inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.errors import BuildError

if TYPE_CHECKING:
    import torch


class Model(ABC):
    """Makes one PyTorch module and the inputs it is called with.

    Everything but `load` works without importing torch: plans are made without it, and an ONNX
    artifact is measured without it.

    Class attributes:
        requires: distributions that `load` imports; torch by default.
        version: raised whenever the same parameters begin to mean another module.
        kept: whether a template may load it for the processes that are forked from it: loading
            runs no code of the user's, and starts no thread but torch's.
    """

    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 1
    kept: ClassVar[bool] = False

    @property
    def gives(self) -> tuple[Format, ...]:
        """Formats that a chain may start from; imports nothing.

        ``CALLABLE`` is a module that runs and that nobody can look into.
        """
        return (Format.MODULE, Format.CALLABLE)

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels for people besides the name, e.g. author and task."""
        return {}

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the workload that determine a call, in order of appearance."""
        return tuple(dict.fromkeys(symbol for spec in self.specs() for symbol in spec.symbols))

    @property
    def open_symbols(self) -> tuple[str, ...]:
        """Symbols that an export always leaves dynamic."""
        return ()

    @property
    def prompt_symbol(self) -> str | None:
        """The symbol of how many tokens a prompt has; None where the model generates none.

        Empty where all prompts have one length, as recordings for Whisper do.
        """
        return None

    def load_step(self, seed: int) -> torch.nn.Module:
        """The module of `load` as one step of generation, its cache among inputs and outputs.

        Only where there is a `prompt_symbol`.
        """
        raise NotImplementedError

    def preload(self) -> None:  # noqa: B027 - most have nothing
        """Import what `load` imports besides torch, where it is installed and starts no thread."""

    def token_ids(self, text: str) -> Sequence[int]:
        """The text as its tokenizer reads it; BuildError where it has none."""
        raise BuildError(
            "This model has no tokenizer to read a text with.",
            kind="inputs",
            remedy="a .npy file of token ids, or model.pretrained=true with a hub_id",
        )

    @abstractmethod
    def load(self, seed: int) -> torch.nn.Module:
        """The module on the CPU in eval mode, the same weights for the same seed."""

    @abstractmethod
    def specs(self) -> tuple[TensorSpec, ...]:
        """The input tensors with their symbolic shapes, in the order of forward's parameters."""

    @abstractmethod
    def batch(self, workload: Workload, seed: int) -> Arrays:
        """One set of input arrays; another seed gives other values of the same shapes."""

    @abstractmethod
    def keywords(self) -> Mapping[str, Json]:
        """Arguments of forward that are not tensors."""

    @abstractmethod
    def identity(self) -> Mapping[str, Json] | None:
        """Values that with the seed determine every weight; None where only loading can show it.

        Weights that come from a file enter as the digest of its bytes.
        """

    def notes(self, *, here: bool) -> Sequence[str]:
        """What a plan states of `load`, one sentence each, found without importing torch.

        Args:
            here: whether this machine loads it.
        """
        return ()

    def requested(self) -> Mapping[str, Json]:
        """Options that `load` follows, beside what can be seen of the module that it makes."""
        return {"model": repr(self)}

    def makers(self) -> Sequence[Callable[..., object]]:
        """A user's own callables that `load` calls; may import their modules."""
        return ()

    @abstractmethod
    def problems(self, workload: Workload) -> Sequence[str]:
        """Every mistake that can be found without importing torch, one sentence each."""
