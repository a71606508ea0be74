"""optimum-quanto: weights in 8, 4 or 2 bits or in float8, activations in int8 after calibration."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.quantization import (
    calibrate,
    check_samples,
    only_weights,
    quietly,
)
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError, MeasureError
from benchorch.files import read_json
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.host.environment_variable import environment_variable
from benchorch.interfaces.conversion import BuildRequest, StateStep
from benchorch.locks import locked

if TYPE_CHECKING:
    import torch

STATE_FILE = "state.safetensors"
LAYERS_FILE = "layers.json"
TOLERANCE_RATIOS = {
    "int8": 2e-2,
    "int4": 0.15,
    "int2": 0.3,
    "float8_e4m3fn": 5e-2,
    "float8_e4m3fnuz": 5e-2,
    "float8_e5m2": 8e-2,
}
"""Tolerances for rounding trained weights, with some headroom.

In 2 bits, weights drawn at random lose more than that, and the verdict then says so.
"""
_INT8_ACTIVATIONS_RATIO = 5e-2
_PACKED = ("int4", "int2")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Quanto(StateStep):
    """Quantises linear and convolution layers, with int8 activations layer norms too.

    Activations are calibrated on inputs of the model's own, each layer's scale the largest that
    it showed on any of them. quanto then leaves out roundings whose result no quantised layer
    would take; which ones, its own files do not tell, so that here they are kept beside them.

    Args:
        weights: their type.
        activations: their type; null leaves them as they are.
        samples: how many inputs the activations are calibrated on.
    """

    requires = ("torch", "optimum-quanto")
    # What unpacks fewer than 8 bits is compiled on the machine and kept with the weights.
    depends_on = ("arch", "compute_capability")
    version = 2  # 2: an input that does not reach a layer says nothing about its scale

    weights: Literal["int8", "int4", "int2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"]
    activations: Literal["int8"] | None = None
    samples: int = 16

    def __post_init__(self) -> None:
        check_samples(self.samples)

    @property
    def requested_precision(self) -> str:
        """Dtype of the weights."""
        return self.weights if self.activations else only_weights(self.weights)

    @property
    def tolerance_ratio(self) -> float:
        """Tolerance by the dtypes of weights and activations."""
        rounding = TOLERANCE_RATIOS[self.weights]
        return max(rounding, _INT8_ACTIVATIONS_RATIO) if self.activations else rounding

    def build(self, request: BuildRequest) -> None:
        """Writes ``state.safetensors``, ``layers.json``, and the compiled unpacking if needed."""
        from safetensors.torch import save_file

        module = request.module().to("cpu")
        if self.weights in _PACKED:  # before anything calls it, or quanto compiles into its package
            shutil.copy(compiled_unpacking(request.device), request.out_dir)
        with quietly(), wrap_errors(BuildError, "optimum-quanto refused the model"):
            self._quantise(module, request)
        layers = _layers(module)
        if not any(layer["weights"] != "none" for layer in layers.values()):
            raise BuildError(
                "optimum-quanto quantises only Linear and Conv2d layers; this model has none.",
                remedy=ANOTHER_CONVERSION,
            )
        # Copies, since safetensors refuses parameters that share their memory.
        state = {name: each.contiguous().clone() for name, each in module.state_dict().items()}
        save_file(state, request.out_dir / STATE_FILE)
        (request.out_dir / LAYERS_FILE).write_text(json.dumps(layers, indent=1), encoding="utf-8")

    def restore(self, module: torch.nn.Module, source: Path, example: Example) -> torch.nn.Module:
        """The same module, its layers replaced."""
        from safetensors import SafetensorError

        what = "The quanto state cannot be loaded"
        with quietly(), wrap_errors(MeasureError, what, SafetensorError):
            from optimum.quanto import requantize
            from safetensors.torch import load_file

            layers = read_json(source / LAYERS_FILE)
            state = load_file(source / STATE_FILE)
            _take_unpacking(source)  # before anything calls it
            requantize(module, state, layers)
            _check_complete(module, state)
            for name, layer in _qmodules(module).items():
                if layer.activation_qtype is not None and not layers[name]["rounds_output"]:
                    layer.disable_output_quantization()
        return _tracked(module) if self.weights in _PACKED else module

    def _quantise(self, module: torch.nn.Module, request: BuildRequest) -> None:
        from optimum import quanto

        types = quanto.qtypes
        activations = types[f"q{self.activations}"] if self.activations else None
        dtypes = parameter_dtypes(module)
        quanto.quantize(module, weights=types[f"q{self.weights}"], activations=activations)
        if activations:
            _calibrate(module, request, self.samples, dtypes)
        quanto.freeze(module)


def _tracked(module: torch.nn.Module) -> torch.nn.Module:
    """The module outside of inference mode, in which quanto cannot transpose packed weights."""
    import torch

    class Tracked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, *args: object, **kwargs: object) -> object:
            with torch.inference_mode(False), torch.no_grad():
                return self.model(*args, **kwargs)

    return Tracked().train(module.training)


def _calibrate(
    module: torch.nn.Module, request: BuildRequest, samples: int, dtypes: tuple[str, ...]
) -> None:
    """Each layer's scales: the largest on any input that reaches it.

    quanto's own are a moving average that begins with the first input, which cuts off a part of
    what it has seen.
    """
    import torch
    from optimum import quanto

    scales: dict[tuple[str, str], torch.Tensor] = {}
    layers = _qmodules(module)

    def call(**inputs: object) -> None:
        for layer in layers.values():
            # One is quanto's sign for a scale that is yet to be found.
            layer.input_scale = torch.ones_like(layer.input_scale)
            layer.output_scale = torch.ones_like(layer.output_scale)
        module(**inputs)
        for name, layer in layers.items():
            for kind in ("input_scale", "output_scale"):
                found = getattr(layer, kind)
                if found != 1:  # this input reached the layer
                    scales[name, kind] = torch.maximum(scales.get((name, kind), found), found)

    with quanto.Calibration():
        calibrate(call, request, samples, dtypes)
    for (name, kind), scale in scales.items():
        setattr(layers[name], kind, scale)


def _qmodules(module: torch.nn.Module) -> dict[str, Any]:
    from optimum.quanto.nn import QModuleMixin

    named = module.named_modules()
    return {name: each for name, each in named if isinstance(each, QModuleMixin)}


def _layers(module: torch.nn.Module) -> dict[str, dict[str, Any]]:
    """Quanto's own map, and whether each layer still rounds what it returns."""
    from optimum.quanto import quantization_map

    modules = _qmodules(module)
    return {
        name: {**types, "rounds_output": _rounds_output(modules[name])}
        for name, types in quantization_map(module).items()
    }


def _rounds_output(layer: Any) -> bool:
    hook = layer._quantize_hooks.get("output")
    return hook is not None and hook.id in (hook.hooks_dict_ref() or {})


def _check_complete(module: torch.nn.Module, state: Mapping[str, object]) -> None:
    """Require the same names in module and state, which quanto does not check."""
    differ = set(module.state_dict()) ^ set(state)
    if differ:
        raise MeasureError(
            f"The quanto state belongs to another model: {len(differ)} names differ, "
            f"{min(differ)} among them.",
            kind="wrong_state",
            remedy="rebuild=always",
        )


def compiled_unpacking(device: str) -> Path:
    """Quanto's extension, compiled once a machine.

    Left alone, quanto compiles it at the first call and into its own package.
    """
    import torch
    from optimum.quanto.library.extensions import get_extension
    from torch.utils import cpp_extension

    extension = get_extension("quanto_cuda" if device == "cuda" else "quanto_cpp")
    home = Path(cpp_extension.get_default_build_root()) / f"torch-{torch.__version__}"
    place = home / extension.name
    extension.build_directory = str(place)
    what = "optimum-quanto could not compile its unpacking of packed weights"
    failures = wrap_errors(BuildError, what, SubprocessError)
    path = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    ninja_found = environment_variable("PATH", path)  # torch looks for it there
    with alone_in(place), ninja_found, quietly(), failures:
        return Path(extension.lib.__file__)


@contextmanager
def alone_in(place: Path) -> Iterator[None]:
    """Wait for the compilation lock, and clear what a killed process left.

    torch marks a directory by a file while it compiles, and waits for ever for one that a process
    left when it ran out of time. This lock ends with its process, so whoever holds it is alone.
    """
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / "benchorch.lock"):
        (place / "lock").unlink(missing_ok=True)
        yield


def _take_unpacking(source: Path) -> None:
    """The compiled extension that was kept, so that nothing is compiled again."""
    from importlib.util import module_from_spec, spec_from_file_location

    from optimum.quanto.library.extensions import get_extension

    for library in source.glob("quanto_*.so"):
        extension = get_extension(library.stem)
        spec = spec_from_file_location(library.stem, library)
        if extension._lib is None and spec is not None and spec.loader is not None:
            loaded = module_from_spec(spec)
            spec.loader.exec_module(loaded)
            extension._lib = loaded
