"""torchao: weights of linear layers that are quantised by what calibration inputs make of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.quantization import (
    TILE,
    calibrate,
    check_samples,
    linear_layers,
    missing,
    only_weights,
    quietly,
)
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import KERNELS
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torchao_state import quantised, restore_state, save_state
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, StateStep, by_option

if TYPE_CHECKING:
    import torch

_TOLERANCE_RATIOS = {"awq": 0.15, "gptq": 0.15, "smoothquant": 3e-2}
"""Tolerances of the same bits without calibration, whose gain depends on the inputs."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchAoCalibrated(StateStep):
    """Quantises every torch.nn.Linear whose sizes the method can take; the others stay.

    Args:
        method: ``awq`` scales input channels so that the int4 weights of those that matter are
            rounded less; ``gptq`` rounds a column of int4 weights after the other and lets the
            rest make up for the error; ``smoothquant`` moves outliers of activations into the
            weights before both are rounded to int8.
        samples: how many calibration inputs the model sees.
        group_size: how many weights of a row share a scale, where they have 4 bits.
    """

    requires = ("torch", "torchao")
    depends_on = ("compute_capability", "cpu_isa", *KERNELS)
    tolerance_ratio = by_option("method", _TOLERANCE_RATIOS)

    method: Literal["awq", "gptq", "smoothquant"]
    samples: int = 16
    group_size: Literal[32, 64, 128] = 32

    def __post_init__(self) -> None:
        check_samples(self.samples)

    @property
    def requested_precision(self) -> str:
        """Dtype of the weights."""
        return "int8" if self.method == "smoothquant" else only_weights("int4")

    def unavailable(self, device: str) -> str | None:
        """A missing package, or kernels that this kind of device has not."""
        if self.method == "gptq" and device != "cuda":
            return (
                "torchao's GPTQ runs on NVIDIA GPUs only; conversion=torchao_int4_awq and "
                "conversion=torchao_int4_hqq run here"
            )
        if device == "cuda" and self.method != "smoothquant":
            return missing("mslk", "pip install 'mslk>=1.0'")
        return None

    def build(self, request: BuildRequest) -> None:
        """Writes ``state.pt``: the state dict of the quantised module."""
        module = request.module().to(request.device)
        int4 = self.method != "smoothquant"
        multiples = {"inputs": self.group_size, "outputs": TILE} if int4 else {}
        chosen = linear_layers(module, self.method, **multiples)
        with quietly(), wrap_errors(BuildError, f"torchao's {self.method} refused the model"):
            self._quantize(module, chosen, request)
        if not quantised(module):
            raise BuildError(
                f"torchao's {self.method} left every weight of the model as it was.",
                remedy=ANOTHER_CONVERSION,
            )
        save_state(module, request.out_dir)

    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The same module, its parameters replaced."""
        with quietly():
            return restore_state(module, source)

    def _quantize(
        self, module: torch.nn.Module, chosen: Collection[str], request: BuildRequest
    ) -> None:
        """Observe the layers, calibrate, convert them."""
        from torchao.quantization import quantize_

        dtypes = parameter_dtypes(module)
        first, last = ("observe", "convert") if self.method == "gptq" else ("prepare", "convert")
        device = request.device
        quantize_(module, self._config(first, device), filter_fn=lambda _, name: name in chosen)
        calibrate(module, request, self.samples, dtypes, device)
        quantize_(module, self._config(last, device), filter_fn=lambda _, name: name in chosen)

    def _config(self, step: str, device: str) -> Any:
        from torchao import quantization as ao

        if self.method == "smoothquant":
            from torchao.prototype.smoothquant import SmoothQuantConfig

            return SmoothQuantConfig(ao.Int8DynamicActivationInt8WeightConfig(), step=step)
        if self.method == "gptq":
            from torchao.prototype.gptq import GPTQConfig

            return GPTQConfig(step=step, base_config=ao.Int4WeightOnlyConfig(self.group_size))
        from torchao.prototype.awq import AWQConfig
        from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig

        # On a CPU the only form whose kernel is part of torch.
        kind = ao.Int4WeightOnlyConfig if device == "cuda" else PrototypeInt4WeightOnlyConfig
        return AWQConfig(kind(group_size=self.group_size), step=step)
