"""Cache of Torch-TensorRT's engines between processes.

Its own cache knows a graph by the names of its operators alone and fits whatever weights there are
into the engine that it finds. So it gets a place of its own for each model and each way to
compile it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.files import write_bytes
from benchorch.host.environment import package_versions

if TYPE_CHECKING:
    import torch

_PACKAGES = ("torch", "torch-tensorrt", "tensorrt")


def engine_cache(scratch: Path, module: torch.nn.Module, options: Mapping[str, Json]) -> Any:
    """A ``custom_engine_cache`` for Torch-TensorRT below a scratch directory of ours.

    Args:
        scratch: belongs to one model; it may vanish at any time.
        module: as it is compiled; its dtypes and shapes tell it from other forms of that model.
        options: what else an engine depends on.
    """
    from torch_tensorrt.dynamo._engine_cache import BaseEngineCache

    settings: dict[str, Json] = {
        "state": {
            name: [str(tensor.dtype), list(tensor.shape)]
            for name, tensor in module.state_dict().items()
        },
        "options": dict(options),
        "packages": package_versions(_PACKAGES),
        "device": _device(),
    }
    directory = scratch / "engines" / digest_of(settings)
    directory.mkdir(parents=True, exist_ok=True)

    class KeptEngines(BaseEngineCache):  # type: ignore[misc]  # upstream's class is not annotated
        """Engine cache with one complete file per engine."""

        def __init__(self) -> None:
            pass

        def save(self, hash: str, blob: bytes, *_: Any, **__: Any) -> None:
            write_bytes(directory / hash, blob)

        def load(self, hash: str, *_: Any, **__: Any) -> bytes | None:
            path = directory / hash
            return path.read_bytes() if path.is_file() else None

    return KeptEngines()


def _device() -> Json:
    """The GPU, whose engines run on no other; None where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
