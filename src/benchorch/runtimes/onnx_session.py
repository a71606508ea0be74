"""ONNX Runtime sessions on one provider, and their node placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.tensorrt_libraries import load_libraries, missing_libraries
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.host.environment import ONNX_RUNTIMES, is_installed

SPINNING = "session.intra_op.allow_spinning"
_RECORD = "session.record_ep_graph_assignment_info"
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_ERRORS_ONLY = 3
_BYTE_TYPES = {"int8", "uint8", "int4", "uint4"}
_PRODUCTS = ("MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU")
_CAST = "Cast"
_QUANTIZED_WEIGHTS = "MatMulNBits"
"""Operator whose weights are packed before it runs, and so are missing among its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Execution provider of ONNX Runtime.

    Attributes:
        name: as ONNX Runtime calls it.
        device: where its inputs and outputs lie.
        distributions: which of ONNX Runtime's distributions have it.
        after: keys of providers that take what this one cannot run, before the CPU does.
        needs: the device that must be there, or None for any.
    """

    name: str
    device: str
    distributions: tuple[str, ...]
    after: tuple[str, ...] = ()
    needs: str | None = None

    def unavailable(self, device: str) -> str | None:
        """Reason why it is unavailable, or None."""
        if self.needs not in (None, device):
            return f"{self.name} needs hardware with an NVIDIA GPU; this one's is {device!r}"
        if any(is_installed(name) for name in self.distributions):
            return missing_libraries() if self.name.startswith("Tensorrt") else None
        distribution = self.distributions[0]
        instead = [name for name in ONNX_RUNTIMES if is_installed(name)]
        remove = f"pip uninstall {' '.join(instead)} && " if instead else ""
        return f"{distribution} is not installed: {remove}pip install {distribution}"

    def load_libraries(self) -> None:
        """Load what the provider is linked with and does not find itself."""
        import onnxruntime

        if self.device == "cuda" and hasattr(onnxruntime, "preload_dlls"):  # since 1.21
            onnxruntime.preload_dlls()
        if self.name.startswith("Tensorrt"):
            load_libraries()

    def with_options(
        self, threads: int, scratch: Path | None, *, tf32: bool
    ) -> list[tuple[str, dict[str, str]]]:
        """Names and options of the provider and of those after it, as a session takes them."""
        return [
            (each.name, each.options(threads, scratch, tf32=tf32))
            for each in (self, *(PROVIDERS[name] for name in self.after))
        ]

    def options(self, threads: int, scratch: Path | None, *, tf32: bool) -> dict[str, str]:
        """Options of the provider; without a scratch folder it keeps no compiled engines."""
        if self.name.startswith("OpenVINO"):
            # Left alone it computes in bfloat16 where the processor can.
            return {"device_type": "CPU", "precision": "FP32", "num_of_threads": str(threads)}
        if self.name.startswith("Tensorrt") and scratch is not None:
            # It has no option for TF32, obeys the environment, and knows engines by graph alone.
            engines = scratch / ("tensorrt-tf32" if tf32 else "tensorrt")
            return {"trt_engine_cache_enable": "True", "trt_engine_cache_path": str(engines)}
        if self.name.startswith("CUDA"):
            return {"use_tf32": str(int(tf32))}
        return {}


PROVIDERS: Mapping[str, Provider] = {
    "cpu": Provider(name="CPUExecutionProvider", device="cpu", distributions=ONNX_RUNTIMES),
    "cuda": Provider(
        name="CUDAExecutionProvider",
        device="cuda",
        distributions=("onnxruntime-gpu",),
        needs="cuda",
    ),
    "tensorrt": Provider(
        name="TensorrtExecutionProvider",
        device="cuda",
        distributions=("onnxruntime-gpu",),
        after=("cuda",),
        needs="cuda",
    ),
    "openvino": Provider(
        name="OpenVINOExecutionProvider",
        device="cpu",
        distributions=("onnxruntime-openvino",),
    ),
}


def open_session(
    model: Path,
    provider: Provider,
    threads: int,
    scratch: Path,
    *,
    spinning: bool = True,
    tf32: bool = False,
    profile: str = "",
    optimized: Path | None = None,
) -> Any:
    """An ``InferenceSession``, which copies nothing between devices that it need not.

    Args:
        model: the graph's file.
        provider: where all of it ought to run.
        threads: how many threads one operator may use.
        scratch: where a provider may keep compiled engines.
        spinning: whether threads that wait for work keep their processors busy.
        tf32: whether a GPU may round the operands of float32 products.
        profile: how the file that tells every node's time begins; empty for none.
        optimized: where the graph is written as it runs, its weights in a file beside it.

    Raises:
        MeasureError: the graph cannot be loaded, or the provider is not there.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry(_RECORD, "1")
    options.add_session_config_entry(SPINNING, str(int(spinning)))
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        options.add_session_config_entry(_WEIGHTS_FILE, weights_beside(optimized).name)
    chosen = provider.with_options(threads, scratch, tf32=tf32)
    provider.load_libraries()
    try:
        with refused("ONNX Runtime cannot load the graph"):
            session = onnxruntime.InferenceSession(str(model), options, providers=chosen)
    except MeasureError as error:
        if "NOT_IMPLEMENTED" in str(error):
            error.kind, error.remedy = "no_kernel", _IN_FLOAT32
        raise
    used = session.get_providers()
    if used[0] != provider.name:
        raise MeasureError(
            f"ONNX Runtime runs on {used[0]} instead of {provider.name}.",
            kind="provider_fallback",
            remedy=f"check that {provider.distributions[0]} and the libraries it needs load here",
        )
    return session


def weights_beside(model: Path) -> Path:
    """Path of the weights of a graph that ONNX Runtime writes."""
    return model.with_name(f"{model.name}.data")


_IN_FLOAT32 = (
    "if the model is in bfloat16 or float16, for which this provider lacks kernels, measure it in "
    "float32: conversion=fp32+onnxruntime"
)


@contextmanager
def refused(what: str) -> Iterator[None]:
    """MeasureError for what ONNX Runtime raises, whose classes derive from Exception alone."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    errors = (native.Fail, native.InvalidGraph, native.InvalidProtobuf, native.NoSuchFile)
    more = (native.NotImplemented, native.RuntimeException, native.EPFail, native.InvalidArgument)
    with wrap_errors(MeasureError, what, *errors, *more):
        yield


def assignment(session: Any) -> dict[str, Json]:
    """Nodes by provider, and how many are not on the first one; as placed, before fusions.

    Nothing where this version of ONNX Runtime does not tell.
    """
    tell = getattr(session, "get_provider_graph_assignment_info", None)
    if tell is None:
        return {}
    nodes: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for part in tell():
        nodes[part.ep_name] += len(part.get_nodes())
        parts[part.ep_name] += 1
    first = session.get_providers()[0]
    delegated: dict[str, Json] = (
        {}
        if first == PROVIDERS["cpu"].name
        else {"delegate": first, "delegated_subgraphs": parts[first]}
    )
    return {"nodes": dict(nodes), "fallback_nodes": nodes.total() - nodes[first], **delegated}


def executed(
    model: Path,
    provider: Provider,
    threads: int,
    inputs: Mapping[str, Any],
    *,
    tf32: bool = False,
) -> dict[str, Json]:
    """Executed nodes after all fusions, from one profiled call of a session of its own.

    Args:
        model: the graph's file.
        provider: as for `open_session`.
        threads: as for `open_session`.
        inputs: an ``OrtValue`` of the graph's own type for each of its inputs.
        tf32: as for `open_session`.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        prefix = str(Path(name) / "profile")
        scratch = Path(name)
        session = open_session(model, provider, threads, scratch, tf32=tf32, profile=prefix)
        session.run_with_ort_values(None, dict(inputs))
        events = read_json(Path(session.end_profiling()))
    nodes = [
        (event["args"]["op_name"], _types(event["args"].get("input_type_shape", [])))
        for event in events
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time")
    ]
    computing = [types for operator, types in nodes if operator != _CAST]
    return {
        "executed_nodes": len(nodes),
        "executed_dtypes": dict(Counter(map(_main_type, computing))),
        "casts": len(nodes) - len(computing),
        "quantized_share": _quantized_share(nodes),
    }


def _types(inputs: list[dict[str, Json]]) -> list[str]:
    """The types of a node's inputs; constants that were packed beforehand are missing."""
    return [_name(word) for each in inputs for word in each]


def _name(word: str) -> str:
    """ONNX Runtime's word for a type as ours."""
    return {"float": "float32", "double": "float64"}.get(word, word)


def _main_type(types: list[str]) -> str:
    """Type of a node's arithmetic: that of its first input."""
    return types[0] if types else "none"


def _quantized_share(nodes: list[tuple[str, list[str]]]) -> float:
    """Share of matrix products and convolutions with operands of 8 bits or fewer."""
    products = [node for node in nodes if any(word in node[0] for word in _PRODUCTS)]
    quantized = [node for node in products if _is_quantized(*node)]
    return round(len(quantized) / len(products), 4) if products else 0.0


def _is_quantized(operator: str, types: list[str]) -> bool:
    if operator == _QUANTIZED_WEIGHTS or operator.startswith("DynamicQuantize"):
        return True
    return bool(_BYTE_TYPES.intersection(types))
