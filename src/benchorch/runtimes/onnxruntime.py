"""ONNX Runtime, in a process that never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, cast, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array, Arrays
from benchorch.frameworks.host_arrays import BFLOAT16, numpy_dtype
from benchorch.frameworks.onnx_files import (
    FUSED,
    MODEL_FILE,
    OPTIMIZED_FILE,
    own_name,
    runtime_distribution,
    size_bytes,
    unknown_input,
)
from benchorch.interfaces.generation import Program
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.runtimes.onnx_session import (
    PROVIDERS,
    SPINNING,
    Provider,
    assignment,
    executed,
    open_session,
    refused,
    weights_beside,
)

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": BFLOAT16,
}
"""ONNX's words for floating tensors."""

_BFLOAT16_TENSOR = "tensor(bfloat16)"
_ONNX_BFLOAT16 = 16  # TensorProto.BFLOAT16: this process does not import onnx
_CAST = (
    b'\x08\x08:2\n\x17\n\x01x\x12\x01y"\x04Cast*\t\n\x02to\x18\x01\xa0\x01\x02\x12\x01g'
    b"Z\t\n\x01x\x12\x04\n\x02\x08\x10b\t\n\x01y\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r"
)
"""A graph in ONNX's own format: y is x, which is bfloat16, as float32."""

# Counting what runs loads the graph once more; that must not take the machine's memory.
_LARGEST_PROFILED_BYTES = 1_000_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntime(Runtime):
    """ONNX Runtime with one execution provider; fails rather than fall back silently.

    Nodes that the provider leaves to another one are counted among the facts.

    Args:
        provider: where the graph runs; ``device`` means where the hardware says.
        spinning: whether threads that wait for work keep their processors busy: calls are
            shorter, and whatever else runs on the machine is slowed down.
    """

    generates = True
    consumes = (Format.ONNX,)
    requires = (runtime_distribution(),)
    version = 2

    provider: Literal["device", "cpu", "cuda", "tensorrt", "openvino"] = "device"
    spinning: bool = True

    def cohabits(self, device: str, threads: int) -> bool:
        """True on a processor with one thread only: pool threads spin between calls.

        Interleaved with two threads each, torch lost a third of its speed to them; its own
        threads wait busily too, so that it does not do to stop these alone.
        """
        return threads == 1 or self._chosen(device).device != "cpu"

    def unavailable(self, device: str) -> str | None:
        """A missing package, or a provider that this device has not."""
        return self._chosen(device).unavailable(device)

    def load(self, request: LoadRequest) -> Executable:
        """A session on one provider with that many threads."""
        provider = self._chosen(request.device)
        directory = request.sources[Format.ONNX]
        model = directory / MODEL_FILE
        session = _session(model, provider, request, spinning=self.spinning)
        return OnnxExecutable(
            session=session,
            place=provider.device,
            counts=cache(partial(_counts, session, directory, provider, request)),
            profiled=request.profile_dir is not None,
        )

    def _chosen(self, device: str) -> Provider:
        return PROVIDERS[device if self.provider == "device" else self.provider]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxExecutable(Executable):
    """A session whose inputs and outputs stay where it runs.

    Attributes:
        session: ONNX Runtime's own.
        place: the device of inputs and outputs.
        counts: further facts, read when they are asked for.
        profiled: whether the session records its nodes.
    """

    session: Any
    place: str
    counts: Callable[[], Mapping[str, Json]] = dict
    profiled: bool = False

    def bind(self, arrays: Arrays) -> Callable[[], object]:
        """A call on inputs that are already there; inputs that the graph dropped are left out."""
        binding = self.session.io_binding()
        fed = _fed(self.session, arrays)
        values = {name: _value(array, self.place) for name, array in fed.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for node in self.session.get_outputs():
            binding.bind_output(node.name, self.place)
        run = self.session.run_with_iobinding

        # On a processor a value is numpy's own memory, which a binding holds only from 1.30 on.
        def call(_values_live_as_long: object = values) -> object:
            run(binding)
            return binding

        return call

    def program(self) -> Program:
        """The session on values that stay where it runs."""
        return OnnxProgram(session=self.session, device=self.place)

    def outputs(self, raw: object) -> Arrays:
        """Outputs of the last call on the host, half precision widened to float32."""
        binding: Any = raw
        if any(node.type == _BFLOAT16_TENSOR for node in self.session.get_outputs()):
            arrays = [_on_host(value, self.place) for value in binding.get_outputs()]
        else:
            arrays = [_widened(array) for array in binding.copy_outputs_to_cpu()]
        return {str(index): array for index, array in enumerate(arrays)}

    def facts(self) -> Mapping[str, Json]:
        """The settings and what was counted."""
        return {**self.settings(), **self.counts()}

    def settings(self) -> Mapping[str, Json]:
        """Dtypes of inputs and outputs, and the session's own metadata."""
        options = self.session.get_session_options()
        return {
            "dtype": "unknown",  # of its operators, which are counted where that is asked for
            "input_dtype": _dtypes(self.session.get_inputs()),
            "output_dtype": _dtypes(self.session.get_outputs()),
            "threads": options.intra_op_num_threads,
            "spinning": options.get_session_config_entry(SPINNING) == "1",
            "provider": self.session.get_providers()[0],
            "device": self.place,
            "io_binding": True,
            **_fused(self.session),
        }

    def own_profile(self) -> Path | None:
        """Every node's time in every call, as the session wrote it."""
        return Path(self.session.end_profiling()) if self.profiled else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxProgram(Program):
    """Runs of a session whose outputs are inputs of the next."""

    session: Any
    device: str

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Values on the device, floats in the graph's own types; what it dropped is left out."""
        found: dict[str, object] = {}
        for node in self.session.get_inputs():
            name = own_name(node.name, arrays)
            if name is not None:
                found[name] = _value(_typed(arrays[name], node), self.device)
        return found

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """The outputs of one run."""
        binding = self.session.io_binding()
        for node in self.session.get_inputs():
            name = own_name(node.name, inputs)
            if name is None:
                raise unknown_input(node.name, inputs)
            binding.bind_ortvalue_input(node.name, inputs[name])
        for node in self.session.get_outputs():
            binding.bind_output(node.name, self.device)
        self.session.run_with_iobinding(binding)
        values: Sequence[object] = binding.get_outputs()
        return values

    def fetch(self, value: object) -> Array:
        """Value on the host, half precision widened to float32."""
        return _on_host(value, self.device)

    def size_bytes(self, value: object) -> int:
        """Size of the value's elements, in its own precision."""
        widened_bytes = self.fetch(value).nbytes
        dtype = _DTYPES.get(cast(Any, value).data_type())
        return widened_bytes // 2 if dtype in ("float16", BFLOAT16) else widened_bytes


def _dtypes(nodes: Sequence[Any]) -> str:
    return (
        "+".join(sorted({_DTYPES[each.type] for each in nodes if each.type in _DTYPES})) or "none"
    )


def _fused(session: Any) -> dict[str, Json]:
    """How many nodes the transformer optimiser fused away, if it was at work."""
    metadata = session.get_modelmeta().custom_metadata_map
    return {"fused_operators": int(metadata[FUSED])} if FUSED in metadata else {}


def _session(model: Path, provider: Provider, request: LoadRequest, *, spinning: bool) -> Any:
    """A session; where it is profiled, one that also writes the graph as it runs."""
    directory = request.profile_dir
    if directory is None:
        return open_session(
            model,
            provider,
            request.threads,
            request.scratch_dir,
            spinning=spinning,
            tf32=request.tf32,
        )
    optimized = directory / OPTIMIZED_FILE
    session = open_session(
        model,
        provider,
        request.threads,
        request.scratch_dir,
        spinning=spinning,
        tf32=request.tf32,
        profile=str(directory / "onnxruntime"),
        optimized=optimized,
    )
    weights_beside(optimized).unlink(missing_ok=True)  # nobody draws them, and they are large
    return session


def _fed(session: Any, arrays: Arrays) -> dict[str, Array]:
    """The inputs that the graph has, copied, in its own types."""
    return {node.name: _typed(_array_of(node.name, arrays), node) for node in session.get_inputs()}


def _typed(array: Array, node: Any) -> Array:
    """A copy of an array in the type of a graph's input."""
    return array.astype(numpy_dtype(_DTYPES.get(node.type, array.dtype.name)), order="C")


def _value(array: Array, place: str) -> Any:
    """An ``OrtValue`` on the device; bfloat16, which numpy lacks, as its bits and ONNX's word."""
    from onnxruntime import OrtValue

    if array.dtype.name != BFLOAT16:
        return OrtValue.ortvalue_from_numpy(array, place, 0)
    bits = array.view("uint16")
    return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _ONNX_BFLOAT16)


def _on_host(value: Any, place: str) -> Array:
    """The elements of an ``OrtValue``; half precision is widened to float32."""
    if value.data_type() != _BFLOAT16_TENSOR:
        return _widened(value.numpy())
    cast = _cast_session(place)
    binding = cast.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y")
    cast.run_with_iobinding(binding)
    array: Array = binding.copy_outputs_to_cpu()[0]
    return array


def _widened(array: Array) -> Array:
    return array.astype("float32") if array.dtype == "float16" else array


@cache
def _cast_session(place: str) -> Any:
    """A session that widens bfloat16, for which ONNX Runtime gives no array."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1  # no pool beside the one that is measured
    device = PROVIDERS[place].name, PROVIDERS["cpu"].name
    return InferenceSession(_CAST, options, providers=list(dict.fromkeys(device)))


def _array_of(name: str, arrays: Arrays) -> Array:
    """The array of a graph's input, which the exporter renames where an output has its name."""
    known = own_name(name, arrays)
    if known is None:
        raise unknown_input(name, arrays)
    return arrays[known]


def _counts(
    session: Any, directory: Path, provider: Provider, request: LoadRequest
) -> Mapping[str, Json]:
    """Placement of the nodes, and executed operators of graphs that are not too large."""
    placed = assignment(session)
    if size_bytes(directory) > _LARGEST_PROFILED_BYTES:
        gigabytes = _LARGEST_PROFILED_BYTES / 1e9
        return {**placed, "uncounted": f"graphs beyond {gigabytes:g} GB are not profiled"}
    fed = _fed(session, request.example.arrays)
    inputs = {name: _value(array, "cpu") for name, array in fed.items()}
    with refused("ONNX Runtime cannot profile the graph"):
        graph, threads = directory / MODEL_FILE, request.threads
        ran = executed(graph, provider, threads, inputs, tf32=request.tf32)
    floats = {*_DTYPES.values()}.intersection(cast("Mapping[str, int]", ran["executed_dtypes"]))
    return {**placed, **ran, "dtype": "+".join(sorted(floats)) or "none"}
