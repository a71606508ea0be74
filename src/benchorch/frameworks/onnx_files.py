"""Files of an ONNX graph in a directory, and the package that runs it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchorch.errors import MeasureError
from benchorch.host.environment import ONNX_RUNTIMES, is_installed

FUSED = "benchorch_fused"
"""Metadata of a graph: how many nodes fewer there are since the transformer optimiser."""
MODEL_FILE = "model.onnx"
OPTIMIZED_FILE = "optimized.onnx"
"""The graph as ONNX Runtime runs it, after all fusions, where calls are profiled."""

_WEIGHTS_FILE = "model.onnx.data"
# A protobuf message ends at 2 GiB; the graph beside the weights takes some of it.
LARGEST_SINGLE_FILE_BYTES = 1_900_000_000
_RENAMED = "_orig"
"""Suffix that torch's exporter adds to an input that is returned unchanged."""


def runtime_distribution() -> str:
    """The distribution that ``import onnxruntime`` finds; where there is none, what to install."""
    return next((name for name in ONNX_RUNTIMES if is_installed(name)), ONNX_RUNTIMES[0])


def own_name(name: str, names: Collection[str]) -> str | None:
    """The model's name of a graph's input, which the exporter may have renamed; None for none."""
    plain = (name, name.removesuffix(_RENAMED))
    exact = [each for each in plain if each in names]
    # torch.export writes the names of arguments in small letters.
    return next(iter((*exact, *(each for each in names if each.lower() in plain))), None)


def unknown_input(name: str, names: Collection[str]) -> MeasureError:
    """Error for a graph's input that the model has not."""
    return MeasureError(
        f"The graph has an input {name!r}; the model's are {', '.join(names)}.", kind="input_name"
    )


def is_large(directory: Path) -> bool:
    """Whether the graph and its weights are too large for one file."""
    return size_bytes(directory) > LARGEST_SINGLE_FILE_BYTES


def size_bytes(directory: Path) -> int:
    """Size of the graph with its weights, wherever they are stored."""
    return sum(path.stat().st_size for path in directory.glob(f"{MODEL_FILE}*"))


def write_graph(model: Any, directory: Path, *, large: bool) -> None:
    """``model.onnx``, its weights beside it where they are too large for one file.

    Args:
        model: an ``onnx.ModelProto``.
        large: whether the weights get a file of their own.
    """
    import onnx

    beside = {"save_as_external_data": True, "location": _WEIGHTS_FILE} if large else {}
    onnx.save(model, str(directory / MODEL_FILE), **beside)
