"""Linear, convolution and batch norm layers with their weights packed for oneDNN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.torch_call import live_tensors
from benchorch.frameworks.torch_tracing import take_signature
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import ModuleStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mkldnn(ModuleStep):
    """Packing of weights once instead of at every call; other operators stay unchanged."""

    consumes = (Format.MODULE,)
    produces = Format.MODULE
    not_on_gpu = "oneDNN's packed layers run on CPUs only."

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """A model whose layers are of other classes keeps its own weights."""
        if facts.get("packed_layers") == 0:
            return "0 layers were packed: the model has no linear, convolution or batch norm layer"
        return None

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """A copy that images enter and leave as they are; BuildError where it cannot be called."""
        import torch
        from torch.utils import mkldnn

        if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            raise BuildError("this build of torch has no oneDNN.", remedy=ANOTHER_CONVERSION)
        with wrap_errors(BuildError, "oneDNN refused the model"), torch.inference_mode():
            needs_images = _needs_images(module)
            packed = mkldnn.to_mkldnn(module)  # type: ignore[no-untyped-call]
            arguments = {**live_tensors(module, example.arrays, "cpu"), **example.keywords}
            wrapped = _wrapped(packed, module, images=True)
            try:
                wrapped(**arguments)
            except RuntimeError:
                if needs_images:
                    raise
                # What has four axes may be a mask, and linear layers change the layout themselves.
                wrapped = _wrapped(packed, module, images=False)
                wrapped(**arguments)
        return wrapped


def _needs_images(module: torch.nn.Module) -> bool:
    """Whether a layer takes its input in oneDNN's layout alone once its weights are packed."""
    from torch.nn.modules import batchnorm, conv

    kinds = (batchnorm._BatchNorm, conv._ConvNd)
    return any(isinstance(each, kinds) for each in module.modules())


def _wrapped(packed: torch.nn.Module, module: torch.nn.Module, *, images: bool) -> torch.nn.Module:
    """Images lie in oneDNN's own layout from the first layer on until they leave the model."""
    import torch
    from torch.utils import _pytree

    def enter(value: object) -> object:
        image = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() == 4
        return value.to_mkldnn() if image and images else value  # type: ignore[attr-defined]

    def leave(value: object) -> object:
        inside = isinstance(value, torch.Tensor) and value.is_mkldnn
        return value.to_dense() if inside else value  # type: ignore[attr-defined]

    class InOneDnn(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = packed

        def forward(self, *args: object, **kwargs: object) -> object:
            args, kwargs = _pytree.tree_map(enter, (args, kwargs))
            return _pytree.tree_map(leave, self.model(*args, **kwargs))

    take_signature(InOneDnn.forward, module)
    return InOneDnn().train(module.training)
