"""ONNX Runtime, in a process that never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.refusal import refusal

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_DISTRIBUTIONS = {"cpu": ("onnxruntime", "onnxruntime-gpu"), "cuda": ("onnxruntime-gpu",)}
_DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
"""ONNX's words for floating tensors that numpy knows."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntime(Runtime):
    """One execution provider, and a failure rather than a silent step back to another.

    Args:
        provider: where the graph runs; ``device`` means where the hardware says.
    """

    consumes: ClassVar[tuple[Format, ...]] = (Format.ONNX,)
    requires: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    version: ClassVar[int] = 1

    provider: Literal["device", "cpu", "cuda"] = "device"

    def unavailable(self, device: str) -> str | None:
        """A missing package, or a provider that this device has not."""
        wanted = self._place(device)
        if wanted == "cuda" and device != "cuda":
            return f"provider 'cuda' needs hardware with an NVIDIA GPU; this one's is {device!r}"
        distributions = _DISTRIBUTIONS[wanted]
        if any(_installed(name) for name in distributions):
            return None
        return f"{distributions[0]} is not installed: pip install {distributions[0]}"

    def load(self, request: LoadRequest) -> Executable:
        """A session on one provider with that many threads."""
        assert request.source is not None  # an ONNX graph is a file
        place = self._place(request.device)
        session = _session(request.source / "model.onnx", _PROVIDERS[place], request.threads)
        return OnnxExecutable(session=session, place=place)

    def _place(self, device: str) -> str:
        return device if self.provider == "device" else self.provider


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxExecutable(Executable):
    """A session whose inputs and outputs stay where it runs."""

    session: Any
    place: str

    def bind(self, arrays: Mapping[str, NDArray[generic]]) -> Callable[[], object]:
        """A call on inputs that are already there; inputs that the graph dropped are left out."""
        from onnxruntime import OrtValue

        binding = self.session.io_binding()
        for node in self.session.get_inputs():
            array = arrays[node.name]
            array = array.astype(_DTYPES.get(node.type, array.dtype), order="C")
            value = OrtValue.ortvalue_from_numpy(array, self.place, 0)
            binding.bind_ortvalue_input(node.name, value)
        for node in self.session.get_outputs():
            binding.bind_output(node.name, self.place)
        run = self.session.run_with_iobinding

        def call() -> object:
            run(binding)
            return binding

        return call

    def outputs(self, raw: object) -> Mapping[str, NDArray[generic]]:
        """What the last call left, on the host, half precision widened to float32."""
        arrays = raw.copy_outputs_to_cpu()  # type: ignore[attr-defined]
        return {
            str(index): array.astype("float32") if array.dtype == "float16" else array
            for index, array in enumerate(arrays)
        }

    def facts(self) -> Mapping[str, Json]:
        """The outputs' dtype and what the session says of itself."""
        types = [node.type for node in self.session.get_outputs()]
        return {
            "dtype": "+".join(sorted({_DTYPES[each] for each in types if each in _DTYPES})),
            "threads": self.session.get_session_options().intra_op_num_threads,
            "provider": self.session.get_providers()[0],
            "device": self.place,
        }

    def close(self) -> None:
        """Nothing was changed outside of the session."""


def _session(model: Path, provider: str, threads: int) -> Any:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    errors = (native.Fail, native.InvalidGraph, native.InvalidProtobuf, native.NoSuchFile)
    more = (native.NotImplemented, native.RuntimeException, native.EPFail)
    with refusal(MeasureError, "ONNX Runtime cannot load the graph", *errors, *more):
        session = onnxruntime.InferenceSession(str(model), options, providers=[provider])
    used = session.get_providers()
    if used[0] != provider:
        raise MeasureError(
            f"ONNX Runtime runs on {used[0]} instead of {provider}.",
            kind="provider_fallback",
            remedy="check that onnxruntime-gpu and its CUDA libraries load on this machine",
        )
    return session


def _installed(distribution: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
