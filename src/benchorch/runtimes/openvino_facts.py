"""Facts of an OpenVINO execution, read from its compiled graph."""

from collections import Counter
from typing import Any

from benchorch.domain.codec import Json

_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
_BYTES = {"i8", "u8", "i4", "u4"}
_NO_WORK = {"Input", "Output", "Const", "Parameter", "Result", "Constant"}
_CASTS = {"Convert", "Reorder"}
_PRODUCTS = ("FullyConnected", "MatMul", "Convolution", "Deconvolution", "LSTM", "GRU", "RNN")


def dtype_name(word: str) -> str:
    """OpenVINO's word for a type as in YAML."""
    return _NAMES.get(word, word)


def device_config(precision: str | None, threads: int) -> dict[str, Json]:
    """Device configuration: one stream of that many threads on the process's processors.

    Args:
        precision: OpenVINO's word for what to compute in; None leaves it to the device.
        threads: of one call.
    """
    config: dict[str, Json] = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": "1",
        # Whoever started this process has chosen its processors.
        "ENABLE_CPU_PINNING": False,
    }
    return config if precision is None else {**config, "INFERENCE_PRECISION_HINT": precision}


def compiled_facts(compiled: Any) -> dict[str, Json]:
    """Types, threads and operators of an ``openvino.CompiledModel``."""
    nodes = [node.get_rt_info() for node in compiled.get_runtime_model().get_ops()]
    working = [node for node in nodes if _kind(node) not in _NO_WORK]
    computing = [node for node in working if _kind(node) not in _CASTS]
    types = [dtype_name(_told(node, "runtimePrecision")) for node in computing]
    hint = dtype_name(_type_word(compiled.get_property("INFERENCE_PRECISION_HINT")))
    return {
        "dtype": _floating(working) or hint,
        "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
        "streams": int(compiled.get_property("NUM_STREAMS")),
        "precision_hint": hint,
        "executed_nodes": len(working),
        "executed_dtypes": dict(Counter(types)),
        "casts": len(working) - len(computing),
        "executed_kinds": dict(Counter(_kind(node) for node in working)),
        "quantized_share": _quantized_share(working),
        "kernels": dict(Counter(_told(node, "primitiveType") for node in working)),
        **_activations(compiled),
    }


def _floating(nodes: list[Any]) -> str:
    """The floating types that operators compute in, casts apart."""
    types = {_told(node, "runtimePrecision") for node in nodes if _kind(node) not in _CASTS}
    return "+".join(sorted(_NAMES[each] for each in types if each in _NAMES))


def _quantized_share(nodes: list[Any]) -> float:
    """Share of matrix products and convolutions with operands of 8 bits or fewer."""
    products = [node for node in nodes if _kind(node).startswith(_PRODUCTS)]
    quantized = [node for node in products if _told(node, "runtimePrecision") in _BYTES]
    return round(len(quantized) / len(products), 4) if products else 0.0


def _kind(node: Any) -> str:
    return _told(node, "layerType")


def _activations(compiled: Any) -> dict[str, Json]:
    """Group size in which activations are rounded to int8 beside packed weights; 0: never."""
    name = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
    known = compiled.get_property("SUPPORTED_PROPERTIES")
    if name not in known:
        return {}
    return {"dynamic_quantization_group_size": int(compiled.get_property(name))}


def _told(node: Any, key: str) -> str:
    """The runtime's information about a node, or an empty string."""
    return str(node[key].astype(str)) if key in node else ""


def _type_word(kind: Any) -> str:
    return str(kind.get_type_name()) if hasattr(kind, "get_type_name") else str(kind)
