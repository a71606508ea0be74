"""A torch module whose work torch does not see: it runs in another library or another process."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from benchorch.domain.tensors import Example


class OpaqueModule(torch.nn.Module, ABC):
    """Takes and returns tensors on the CPU; its operators are neither counted nor traced.

    Class attributes:
        provider: what runs it, for people.
    """

    provider: str

    def forward(self, **tensors: torch.Tensor) -> object:
        """The result of `answer`; RuntimeError under a mode of torch that records operators."""
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("the model runs outside of torch, which does not see its work")
        return self.answer(**{name: each.cpu() for name, each in tensors.items()})

    @abstractmethod
    def answer(self, **tensors: torch.Tensor) -> object:
        """The model's outputs."""

    def timed(self) -> AbstractContextManager[object]:
        """Context of the calls that are measured, as opposed to those of checks."""
        return nullcontext()

    def note(self) -> str:
        """What its calls so far have met that a result must say; empty for nothing."""
        return ""

    def write(self, directory: Path, example: Example) -> None:
        """Write it as ``model.onnx`` for calls like the example; BuildError where it cannot be."""
        raise NotImplementedError
