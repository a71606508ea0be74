"""A TensorRT engine, its inputs and outputs in memory that torch holds on the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.onnx_files import own_name, unknown_input
from benchorch.frameworks.tensorrt_support import NOT_ON_CPU
from benchorch.frameworks.torch_call import Bound, TorchExecutable, tensors_of
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch

_ENGINE_FILE = "model.engine"
_NOTES_FILE = "model.json"
# TensorRT's words for what torch calls otherwise.
_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "BOOL": "bool",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "FP8": "float8_e4m3fn",
    "E8M0": "float8_e8m0fnu",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRt(Runtime):
    """Every bound call has a context and buffers of its own."""

    consumes = (Format.TENSORRT_ENGINE,)
    requires = ("torch", "tensorrt")
    not_on_cpu = NOT_ON_CPU

    def load(self, request: LoadRequest) -> Executable:
        """The engine in this process; MeasureError where it is for another GPU or version."""
        import torch

        torch.set_num_threads(request.threads)
        source = request.sources[Format.TENSORRT_ENGINE]
        with wrap_errors(MeasureError, "The TensorRT engine cannot be loaded"):
            notes = read_json(source / _NOTES_FILE)
            engine = _engine(source / _ENGINE_FILE)
        return TorchExecutable(
            place=partial(tensors_of, device="cuda", dtypes=()),
            prepare=partial(_prepare, engine, tuple(notes["outputs"])),
            provider="TensorRT",
            dtypes=tuple(notes["dtypes"]),
            device="cuda",
            counts=lambda: {"engine_layers": engine.num_layers},
        )


def _engine(path: Path) -> Any:
    import tensorrt

    runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR))
    engine = runtime.deserialize_cuda_engine(path.read_bytes())
    if engine is None:
        raise RuntimeError("it was built for another GPU or by another version of TensorRT")
    return engine


def _prepare(engine: Any, outputs: tuple[str, ...], tensors: Mapping[str, torch.Tensor]) -> Bound:
    import torch

    context = engine.create_execution_context()
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    inputs = [name for name in names if name not in outputs]
    buffers = {name: _input(engine, context, name, tensors) for name in inputs}
    # Sizes of outputs follow from those of all inputs.
    buffers |= {name: _output(engine, context, name) for name in outputs}
    for name, buffer in buffers.items():
        if not context.set_tensor_address(name, buffer.data_ptr()):
            raise MeasureError(
                f"TensorRT refused the memory of {name}; its log contains the reason."
            )
    results = [buffers[name] for name in outputs]
    # On the default stream TensorRT would wait for the GPU around every call.
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def call(_inputs_live_as_long: object = buffers) -> object:
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        if not context.execute_async_v3(stream.cuda_stream):
            raise MeasureError("TensorRT could not run the engine.")
        current.wait_stream(stream)
        return results

    return call


def _input(
    engine: Any, context: Any, name: str, tensors: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """The input in the engine's type; MeasureError where the engine is for other shapes."""
    known = own_name(name, tensors)
    if known is None:
        raise unknown_input(name, tensors)
    tensor = tensors[known].to(_dtype(engine, name)).contiguous()
    found, expected = tuple(tensor.shape), tuple(engine.get_tensor_shape(name))
    if min(expected, default=0) < 0:
        _set_shape(engine, context, name, found)
    elif found != expected:
        raise MeasureError(f"The engine was built for {name} of shape {expected}, not {found}.")
    return tensor


def _set_shape(engine: Any, context: Any, name: str, shape: tuple[int, ...]) -> None:
    """Fix the open sizes of an input; MeasureError where the engine's profile ends before."""
    if not context.set_input_shape(name, shape):
        low, _, high = (tuple(each) for each in engine.get_tensor_profile_shape(name, 0))
        raise MeasureError(
            f"The engine was built for {name} of shapes from {low} to {high}, not {shape}.",
            kind="outside_profile",
            remedy="a wider conversion.steps.tensorrt.profile",
        )


def _output(engine: Any, context: Any, name: str) -> torch.Tensor:
    import torch

    shape = tuple(context.get_tensor_shape(name))
    if min(shape, default=0) < 0:
        raise MeasureError(f"The size of output {name} depends on the data: {shape}.")
    return torch.empty(shape, dtype=_dtype(engine, name), device="cuda")


def _dtype(engine: Any, name: str) -> torch.dtype:
    """The type of an input or output; MeasureError where torch has none that is laid out alike."""
    import torch

    called = engine.get_tensor_dtype(name).name
    found = getattr(torch, _TYPES.get(called, ""), None)
    if not isinstance(found, torch.dtype):
        raise MeasureError(
            f"The engine has {name} in {called}, and torch {torch.__version__} has no tensor like "
            f"it. It has {', '.join(_TYPES)}.",
            kind="io_type",
            remedy="a cast to float16 or float32 at the graph's inputs and outputs",
        )
    return found
