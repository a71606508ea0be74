"""torchao: weights of linear layers in 8 or 4 bits, as tensor subclasses with kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.quantization import TILE, linear_layers, missing, only_weights, quietly
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import KERNELS
from benchorch.frameworks.torchao_state import quantised, restore_state, save_state
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, StateStep, by_option

if TYPE_CHECKING:
    import torch

Scheme = Literal[
    "int8_weight_only",
    "int8_dynamic",
    "int8_dynamic_int4",
    "int4_weight_only",
    "int4_hqq",
    "float8_weight_only",
    "float8_dynamic",
]
TOLERANCE_RATIOS = {
    "int8_weight_only": 2e-2,
    "int8_dynamic": 3e-2,
    "int8_dynamic_int4": 0.15,
    "int4_weight_only": 0.15,
    "int4_hqq": 0.15,
    "float8_weight_only": 5e-2,
    "float8_dynamic": 8e-2,
}
"""Tolerances for rounding weights, with some headroom."""
_GROUPED = ("int8_dynamic_int4", "int4_weight_only", "int4_hqq")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchAo(StateStep):
    """Quantises every torch.nn.Linear whose sizes the scheme can take; the others stay as they are.

    Args:
        scheme: ``weight_only`` computes in the model's own dtype; ``dynamic`` rounds activations
            to int8 or float8 too, by a scale that is found at every call. ``int8_dynamic_int4``
            keeps its 4 bits in whole bytes, and so does ``int4_hqq``, whose scales HQQ
            (half-quadratic quantisation) fits to the weights without any data.
        group_size: how many weights of a row share a scale, where there are fewer than 8 bits.
    """

    requires = ("torch", "torchao")
    # Weights of 4 bits are packed for the registers of the processor.
    depends_on = ("compute_capability", "cpu_isa", *KERNELS)
    tolerance_ratio = by_option("scheme", TOLERANCE_RATIOS)

    scheme: Scheme
    group_size: Literal[32, 64, 128] = 32

    @property
    def requested_precision(self) -> str:
        """Dtype of the weights, and of the activations where those are rounded, too."""
        dtype = "int4" if "int4" in self.scheme else self.scheme.partition("_")[0]
        return only_weights(dtype) if self.scheme.endswith(("weight_only", "hqq")) else dtype

    def unavailable(self, device: str) -> str | None:
        """A missing package, or kernels that this kind of device has not."""
        if self.scheme == "float8_dynamic" and device != "cuda":
            return (
                "torchao multiplies float8 matrices only on NVIDIA GPUs of compute capability "
                "8.9 or more (L4, H100 and later); conversion=torchao_float8_weight_only runs here"
            )
        if self.scheme == "int4_weight_only" and device == "cuda":
            return missing("mslk", "pip install 'mslk>=1.0'")
        return None

    def build(self, request: BuildRequest) -> None:
        """Writes ``state.pt``: the state dict of the quantised module."""
        module = request.module().to(request.device)
        chosen = linear_layers(module, self.scheme, **self._multiples())
        with quietly(), wrap_errors(BuildError, f"torchao refused to make {self.scheme} weights"):
            from torchao.quantization import quantize_

            quantize_(
                module, self._config(request.device), filter_fn=lambda _, name: name in chosen
            )
        if not quantised(module):
            raise BuildError(
                f"torchao's {self.scheme} left every weight of the model as it was.",
                remedy=ANOTHER_CONVERSION,
            )
        save_state(module, request.out_dir)

    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The same module, its parameters replaced."""
        with quietly():
            return restore_state(module, source)

    def _multiples(self) -> dict[str, int]:
        if self.scheme == "float8_dynamic":
            return {"inputs": TILE, "outputs": TILE}
        return {
            "inputs": self.group_size if self.scheme in _GROUPED else 1,
            "outputs": TILE if self.scheme == "int4_weight_only" else 1,
        }

    def _config(self, device: str) -> Any:
        import torch
        from torchao import quantization as ao
        from torchao.quantization.granularity import PerGroup, PerRow

        match self.scheme:
            case "int8_weight_only":
                return ao.Int8WeightOnlyConfig()
            case "int8_dynamic":
                return ao.Int8DynamicActivationInt8WeightConfig()
            case "int8_dynamic_int4":
                return ao.Int8DynamicActivationIntxWeightConfig(
                    weight_dtype=torch.int4,  # type: ignore[attr-defined]  # not annotated
                    weight_granularity=PerGroup(self.group_size),
                )
            case "int4_weight_only":
                return self._int4(device)
            case "int4_hqq":
                return ao.IntxWeightOnlyConfig(
                    weight_dtype=torch.int4,  # type: ignore[attr-defined]  # not annotated
                    granularity=PerGroup(self.group_size),
                    intx_choose_qparams_algorithm="hqq_scale_only",
                )
            case "float8_weight_only":
                return ao.Float8WeightOnlyConfig()
            case "float8_dynamic":
                return ao.Float8DynamicActivationFloat8WeightConfig(granularity=PerRow())

    def _int4(self, device: str) -> Any:
        """Configuration of int4; on a CPU the only form whose kernel is part of torch."""
        if device == "cuda":
            from torchao.quantization import Int4WeightOnlyConfig

            return Int4WeightOnlyConfig(group_size=self.group_size)
        from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig

        return PrototypeInt4WeightOnlyConfig(group_size=self.group_size)
