"""OpenVINO on the processor, in a process that never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array, Arrays
from benchorch.errors import MeasureError
from benchorch.frameworks.onnx_files import unknown_input
from benchorch.frameworks.openvino_files import NOT_ON_GPU, import_openvino, read_graph
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import by_option
from benchorch.interfaces.generation import Program
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.runtimes.openvino_facts import compiled_facts, device_config

_HINTS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "device": None}
_TOLERANCE_RATIOS = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3, "device": 3e-2}
_BFLOAT16 = "bf16"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVino(Runtime):
    """OpenVINO with one stream and the requested number of threads.

    Args:
        precision: what floating operators are computed in. Left to the device it is bfloat16 on
            processors that have it, whatever the graph says.
        snippets: whether its code generator fuses operators. 2026.4 computes two int8 products with
            an activation between them wrongly where it does, as in RoBERTa's classifier.
    """

    generates = True
    consumes = (Format.OPENVINO_IR,)
    requires = ("openvino", "numpy")
    not_on_gpu = NOT_ON_GPU
    tolerance_ratio = by_option("precision", _TOLERANCE_RATIOS)

    precision: Literal["float32", "bfloat16", "float16", "device"] = "float32"
    snippets: bool = True

    @property
    def requested_precision(self) -> str:
        """The hint; none where the device chooses."""
        return "" if self.precision == "device" else self.precision

    def load(self, request: LoadRequest) -> Executable:
        """Compiled for this processor."""
        openvino = import_openvino()
        config = device_config(_HINTS[self.precision], request.threads)
        if not self.snippets:
            config["SNIPPETS_MODE"] = "DISABLE"
        with wrap_errors(MeasureError, "OpenVINO cannot load the graph"):
            model = read_graph(request.sources[Format.OPENVINO_IR])
            compiled = openvino.Core().compile_model(model, "CPU", config)
        return OpenVinoExecutable(compiled=compiled)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoExecutable(Executable):
    """A compiled graph; every bound call has a request of its own.

    Attributes:
        compiled: an ``openvino.CompiledModel``.
    """

    compiled: Any

    def bind(self, arrays: Arrays) -> Callable[[], object]:
        """A call on inputs that lie in the request's own memory."""
        request = self.compiled.create_infer_request()
        for port in self.compiled.inputs:
            request.set_tensor(port, _tensor(port, arrays[_name_of(port, arrays)]))
        infer = request.infer

        def call() -> object:
            infer(share_outputs=True)
            return request

        return call

    def program(self) -> Program:
        """Calls of one request, each with output tensors of its own."""
        return OpenVinoProgram(request=self.compiled.create_infer_request())

    def outputs(self, raw: object) -> Arrays:
        """Outputs of the last call, half precision widened to float32."""
        tensors = [raw.get_output_tensor(i) for i in range(len(self.compiled.outputs))]  # type: ignore[attr-defined]
        return {str(index): _array(tensor) for index, tensor in enumerate(tensors)}

    def facts(self) -> Mapping[str, Json]:
        """Facts of the compiled graph."""
        return {"provider": "OpenVINO CPU", "device": "cpu", **compiled_facts(self.compiled)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoProgram(Program):
    """Runs of one request; the cache of a stateful graph is in the request's variables."""

    request: Any

    def begin(self, *, whole: bool = False) -> None:
        """Variables as they were at first."""
        self.request.reset_state()

    def kept_bytes(self) -> int:
        """Size of all variables."""
        return sum(each.state.byte_size for each in self.request.query_state())

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Tensors in the graph's own types; what it dropped is left out."""
        return {
            name: _tensor(port, arrays[name])
            for port in self.request.model_inputs
            for name in arrays
            if name in port.get_names()
        }

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """The outputs of one run, in new tensors: the last ones are its inputs."""
        request, make = self.request, import_openvino().Tensor
        for port in request.model_inputs:
            request.set_tensor(port, inputs[_name_of(port, inputs)])
        found = []
        for port in request.model_outputs:
            shape = port.get_partial_shape()
            found.append(make(port.get_element_type(), list(shape.get_min_shape())))
            request.set_tensor(port, found[-1])
        request.infer(share_inputs=True, share_outputs=True)
        return found

    def fetch(self, value: object) -> Array:
        """A copy, half precision widened to float32."""
        return _array(value)

    def size_bytes(self, value: object) -> int:
        """Size of the tensor's elements."""
        return int(value.byte_size)  # type: ignore[attr-defined]


def _name_of(port: Any, arrays: Mapping[str, object]) -> str:
    """The keyword among a port's names: compiling may add names of the operators behind it."""
    found = next((name for name in arrays if name in port.get_names()), None)
    if found is None:
        raise unknown_input(port.any_name, arrays)
    return found


def _tensor(port: Any, array: Array) -> Any:
    """A copy of the array in the port's type."""
    kind = port.get_element_type()
    tensor = import_openvino().Tensor(kind, list(array.shape))
    if kind.get_type_name() == _BFLOAT16:
        tensor.data.view("uint16")[...] = _bfloat16_bits(array)
    else:
        tensor.data[...] = array
    return tensor


def _array(tensor: Any) -> Array:
    """A copy of the tensor in a type of numpy's, half precision widened to float32."""
    import numpy as np

    if tensor.get_element_type().get_type_name() == _BFLOAT16:
        bits = tensor.data.view("uint16").astype(np.uint32) << np.uint32(16)
        wide: Array = bits.view(np.float32)
        return wide
    array: Array = np.array(tensor.data)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _bfloat16_bits(array: Array) -> Array:
    """The upper half of float32, rounded to even: numpy has no bfloat16."""
    import numpy as np

    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounding = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    return ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
