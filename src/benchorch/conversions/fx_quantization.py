"""torch.ao's FX quantisation: int8 modules in place of float ones, found by symbolic tracing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, final

from benchorch.conversions.quantization import calibrate, check_samples, quietly
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.identity.compilers import KERNELS
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torch_call import tensors_of
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, StateStep

if TYPE_CHECKING:
    import torch

STATE_FILE = "state.pt"
TOLERANCE_RATIO = 5e-2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FxQuantization(StateStep):
    """Deprecated by PyTorch in favour of PT2E, and still the fastest int8 of some small CNNs.

    The state is tensors and their scales, read by torch's restricted unpickler
    (``weights_only=True``); the quantised modules themselves are made again by a trace.

    Args:
        fake: round and compute in float32, as quantisation-aware training does; false computes in
            int8.
        samples: how many inputs the activations are calibrated on.
    """

    # Another architecture has another engine, which rounds in another way.
    depends_on = ("arch", *KERNELS)
    not_on_gpu = "torch.ao's int8 modules have kernels for CPUs alone, not for 'cuda'"
    requested_precision = "int8"
    version = 2  # 2: traced in evaluation mode, also for fake quantisation
    tolerance_ratio = TOLERANCE_RATIO  # error of int8 weights and activations of 7 bits

    fake: bool = False
    samples: int = 16

    def __post_init__(self) -> None:
        check_samples(self.samples)

    def build(self, request: BuildRequest) -> None:
        """Writes ``state.pt``."""
        import torch

        module = request.module()
        dtypes = parameter_dtypes(module)
        with quietly(), wrap_errors(BuildError, "torch.ao's FX quantisation refused the model"):
            prepared = self._prepare(module, request.example)
            _observe(prepared, on=True)
            calibrate(prepared, request, self.samples, dtypes)
            made = self._finish(prepared)
        if not any(type(each).__module__.startswith("torch.ao.nn") for each in made.modules()):
            raise BuildError(
                "FX quantisation found no layer in the model that it can quantise.",
                remedy=ANOTHER_CONVERSION,
            )
        torch.save(made.state_dict(), request.out_dir / STATE_FILE)

    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The module traced again, its weights and scales the kept ones."""
        import torch

        what = "The quantised state cannot be loaded"
        with quietly(), wrap_errors(MeasureError, what, UnpicklingError):
            state = torch.load(source / STATE_FILE, weights_only=True)
            made = self._finish(self._prepare(module, example))
            made.load_state_dict(state)
            found: torch.nn.Module = made
        return found

    def _prepare(self, module: torch.nn.Module, example: Example) -> Any:
        """The module with observers, its layers merged as far as they go together."""
        from torch.ao.quantization import quantize_fx

        inputs = tuple(tensors_of(example.arrays, "cpu", parameter_dtypes(module)).values())
        module.eval()  # a trace keeps the branch of the mode that the module is in
        if not self.fake:
            return quantize_fx.prepare_fx(module, _mapping(), inputs)
        # Only as if it were to be trained are the weights rounded too; its means stay as they are.
        return quantize_fx.prepare_qat_fx(module, _fake_mapping(), inputs).eval()

    def _finish(self, prepared: Any) -> Any:
        if not self.fake:
            from torch.ao.quantization.quantize_fx import convert_fx

            return convert_fx(prepared)
        _observe(prepared, on=False)
        return prepared


def _observe(prepared: Any, *, on: bool) -> None:
    """Switch fake quantisers between observing values and rounding them."""
    from torch.ao import quantization as ao

    prepared.apply(ao.enable_observer if on else ao.disable_observer)
    prepared.apply(ao.disable_fake_quant if on else ao.enable_fake_quant)


def _mapping() -> Any:
    from torch.ao.quantization import get_default_qconfig_mapping

    return get_default_qconfig_mapping(_engine())


def _fake_mapping() -> Any:
    """All 8 bits, by the extremes of all observed values rather than by a moving average."""
    from torch.ao import quantization
    from torch.nn import Embedding, EmbeddingBag, LayerNorm
    from torch.nn.functional import layer_norm

    ao: Any = quantization  # half annotated
    activations = ao.FakeQuantize.with_args(
        observer=ao.MinMaxObserver, quant_min=0, quant_max=255, reduce_range=False
    )
    weights = ao.default_per_channel_weight_fake_quant
    rounded = ao.QConfig(activation=activations, weight=weights)
    mapping = ao.get_default_qat_qconfig_mapping(_engine()).set_global(rounded)
    for kind in (LayerNorm, layer_norm):
        mapping = mapping.set_object_type(kind, rounded)
    # Their weights would need another scheme, and their rows are only copied.
    return mapping.set_object_type(Embedding, None).set_object_type(EmbeddingBag, None)


def _engine() -> str:
    import torch

    engine = str(torch.backends.quantized.engine)
    return engine if engine in ("x86", "qnnpack", "fbgemm", "onednn") else "qnnpack"
