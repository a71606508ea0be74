"""torch.ao's dynamic quantisation: linear and recurrent layers in int8 or float16 on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.quantization import quietly
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, StateStep, by_option

if TYPE_CHECKING:
    import torch

STATE_FILE = "state.pt"
TOLERANCE_RATIOS = {"int8": 5e-2, "float16": 2e-3}
"""By the weights' dtype; 7 of 8 bits count where the processor could overflow."""

_DTYPES = {"int8": "qint8", "float16": "float16"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicQuantization(StateStep):
    """Weights are rounded once, activations at every call by a scale of their own.

    The state is plain tensors, read by torch's restricted unpickler (``weights_only=True``). What
    recurrent layers pack is no tensor: those are rounded again, to the same values.

    Args:
        dtype: of the weights; with float16 the arithmetic stays in float32.
    """

    not_on_gpu = "torch.ao's dynamic quantisation has kernels for CPUs alone, not for 'cuda'"
    tolerance_ratio = by_option("dtype", TOLERANCE_RATIOS)

    dtype: Literal["int8", "float16"] = "int8"

    @property
    def requested_precision(self) -> str:
        """Dtype of the weights, and with int8 of the products."""
        return self.dtype

    def build(self, request: BuildRequest) -> None:
        """Writes ``state.pt``."""
        import torch

        module = request.module()
        if not _layers(module):
            raise BuildError(
                "Dynamic quantisation takes Linear, LSTM and GRU, and the model has none of them.",
                remedy=ANOTHER_CONVERSION,
            )
        with quietly(), wrap_errors(BuildError, "torch.ao.quantization.quantize_dynamic refused"):
            from torch.ao import quantization

            ao: Any = quantization  # half annotated
            changed = ao.quantize_dynamic(module, set(_kinds()), dtype=self._dtype(), inplace=True)
        torch.save(_tensors(changed), request.out_dir / STATE_FILE)

    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The same module, its layers replaced by quantised ones that take the kept weights."""
        import torch

        what = "The quantised state cannot be loaded"
        with quietly(), wrap_errors(MeasureError, what, UnpicklingError):
            state = torch.load(source / STATE_FILE, weights_only=True)
            for name, layer in _layers(module).items():
                if any(f"{name}.{each}" in state for each in layer.state_dict()):
                    continue  # torch replaces a layer with two names in one parent only once
                parent, _, own = name.rpartition(".")
                setattr(module.get_submodule(parent), own, self._empty(layer))
            if set(state) != set(_tensors(module)):
                raise ValueError("it belongs to another model")
            whole = module.state_dict()  # with the versions of its layers' own formats
            whole.update(state)
            module.load_state_dict(whole)
        return module

    def _dtype(self) -> torch.dtype:
        import torch

        found: torch.dtype = getattr(torch, _DTYPES[self.dtype])
        return found

    def _empty(self, layer: Any) -> torch.nn.Module:
        """A quantised layer of the same sizes, its weights still to come."""
        import torch
        from torch.ao.nn import quantized
        from torch.ao.quantization import default_dynamic_qconfig, float16_dynamic_qconfig

        dynamic: Any = quantized.dynamic  # half annotated
        made: torch.nn.Module
        if isinstance(layer, torch.nn.Linear):
            sizes = (layer.in_features, layer.out_features, layer.bias is not None)
            made = dynamic.Linear(*sizes, dtype=self._dtype())
            return made
        layer.qconfig = default_dynamic_qconfig if self.dtype == "int8" else float16_dynamic_qconfig
        # Recurrent layers cannot be made empty.
        made = getattr(dynamic, type(layer).__name__).from_float(layer)
        return made


def _tensors(module: torch.nn.Module) -> dict[str, Any]:
    import torch

    state = module.state_dict()
    return {name: each for name, each in state.items() if not isinstance(each, torch.ScriptObject)}


def _layers(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Layers that can be replaced, by each of their names; not the model itself, which has none."""
    named = module.named_modules(remove_duplicate=False)
    # By exact type, as torch does: attention has a Linear of its own kind, never quantised.
    return {name: each for name, each in named if name and type(each) in _kinds()}


def _kinds() -> tuple[type[torch.nn.Module], ...]:
    import torch

    return (torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU)
