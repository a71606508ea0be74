"""A TensorRT engine, its inputs and outputs in memory that torch holds on the GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.frameworks.tensorrt_support import ELSEWHERE
from benchorch.frameworks.torch_call import Bound, TorchExecutable, missing_torch, tensors_of
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
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRt(Runtime):
    """Every bound call has a context and buffers of its own."""

    consumes = (Format.TENSORRT_ENGINE,)
    requires = ("torch", "tensorrt")

    def unavailable(self, device: str) -> str | None:
        """Unavailable without torch, and except on NVIDIA GPUs."""
        if device != "cuda":
            return ELSEWHERE
        return missing_torch()

    def load(self, request: LoadRequest) -> Executable:
        """The engine in this process; MeasureError where it is for another GPU or version."""
        import torch

        torch.set_num_threads(request.threads)
        source = request.sources[Format.TENSORRT_ENGINE]
        with wrap_errors(MeasureError, "The TensorRT engine cannot be loaded"):
            notes = json.loads((source / _NOTES_FILE).read_text())
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
    buffers = {
        name: _output(engine, name) if name in outputs else _input(engine, name, tensors)
        for name in names
    }
    for name, buffer in buffers.items():
        context.set_tensor_address(name, buffer.data_ptr())
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


def _input(engine: Any, name: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The input in the engine's type; MeasureError where the engine is for another shape."""
    tensor = tensors[name].to(_dtype(engine, name)).contiguous()
    wanted = tuple(engine.get_tensor_shape(name))
    if tuple(tensor.shape) != wanted:
        raise MeasureError(
            f"The engine was built for {name} of shape {wanted}, not {tuple(tensor.shape)}."
        )
    return tensor


def _output(engine: Any, name: str) -> torch.Tensor:
    import torch

    shape = tuple(engine.get_tensor_shape(name))
    if min(shape, default=0) < 0:
        raise MeasureError(f"The size of output {name} depends on the data: {shape}.")
    return torch.empty(shape, dtype=_dtype(engine, name), device="cuda")


def _dtype(engine: Any, name: str) -> torch.dtype:
    import torch

    found: torch.dtype = getattr(torch, _TYPES[engine.get_tensor_dtype(name).name])
    return found
