"""TensorRT's shared libraries, as far as ONNX Runtime's provider needs them.

The provider is linked with one release of TensorRT and finds it only if the loader does, or if this
process has loaded it already. Wheels of TensorRT lie where no loader looks, and those of another
release do not fit: onnxruntime-gpu 1.31 needs ``libnvinfer.so.10``, ``pip install tensorrt`` brings
release 11. Nothing heavy is imported.

Source: the dynamic section of ``libonnxruntime_providers_tensorrt.so`` in onnxruntime_gpu-1.31.1;
https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html#requirements
"""

import ctypes
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from benchorch.host.environment import packages_of_node

_PROVIDER = "capi/libonnxruntime_providers_tensorrt.so"
_LIBRARIES = ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser")
_LOADERS_OWN = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"),
    *("/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/tensorrt/lib"),
)

LINKED_WITH: Mapping[str, str] = {"1.31.1": "10"}
"""TensorRT's major version by onnxruntime-gpu's release, for nodes whose files are not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The major versions that the installed provider was linked with."""

    tensorrt: str
    cuda: str


@cache
def needed_release() -> Release | None:
    """Release required by the installed ONNX Runtime; None if its files do not show it."""
    for folder in _folders_of("onnxruntime"):
        try:
            content = (folder / _PROVIDER).read_bytes()
        except OSError:
            continue
        tensorrt = re.search(rb"libnvinfer\.so\.(\d+)", content)
        cuda = re.search(rb"libcublas\.so\.(\d+)", content)
        if tensorrt and cuda:
            return Release(tensorrt=tensorrt[1].decode(), cuda=cuda[1].decode())
    return None


def missing_libraries() -> str | None:
    """Reason why ONNX Runtime's TensorRT provider will not load, or None.

    Of the node that is spoken of, by its lock; else of this machine, by its files.
    """
    packages = packages_of_node()
    if packages is not None:
        return _missing_on_node(packages)
    needed = needed_release()
    if needed is None or _directory_of(needed):
        return None
    return (
        f"libnvinfer.so.{needed.tensorrt} is not found, which this onnxruntime-gpu needs: "
        f"pip install 'tensorrt-cu{needed.cuda}=={needed.tensorrt}.*'"
    )


def _missing_on_node(packages: Mapping[str, str]) -> str | None:
    provider = packages.get("onnxruntime-gpu", "")
    needed = LINKED_WITH.get(provider)
    locked = sorted({v for name, v in packages.items() if name.startswith("tensorrt") and v})
    if needed is None or any(version.split(".")[0] == needed for version in locked):
        return None
    return (
        f"onnxruntime-gpu {provider} loads TensorRT {needed}; the lock of these nodes has "
        f"{', '.join(locked) or 'none'}. conversion=tensorrt uses the lock's own."
    )


def load_libraries() -> None:
    """Load TensorRT into this process, so that the provider finds it; nothing where it is not."""
    needed = needed_release()
    directory = _directory_of(needed) if needed else None
    if needed is None or directory is None:
        return
    for name in _LIBRARIES:
        path = directory / f"{name}.so.{needed.tensorrt}"
        if path.exists():
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _directory_of(needed: Release) -> Path | None:
    name = f"libnvinfer.so.{needed.tensorrt}"
    return next((folder for folder in _searched() if (folder / name).exists()), None)


def _searched() -> Iterator[Path]:
    """The wheel's folder first, as Python's own package does, then the loader's."""
    yield from _folders_of("tensorrt_libs")
    yield from map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))
    yield from map(Path, _LOADERS_OWN)


def _folders_of(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(each) for each in (spec and spec.submodule_search_locations) or ()]
