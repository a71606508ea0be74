"""Which conversion of a PyTorch model serves it fastest, and is it still the same model?"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchorch.frontends.accelerate.backends import RemoteInferenceSession
    from benchorch.frontends.accelerate.function import accelerate
    from benchorch.frontends.accelerate.remote_profile import remote_profile
    from benchorch.frontends.api.benchmark import benchmark

__version__ = "0.1.0"
__all__ = [
    "RemoteInferenceSession",
    "__version__",
    "accelerate",
    "benchmark",
    "remote_profile",
]
_HOMES = {
    "RemoteInferenceSession": "benchorch.frontends.accelerate.backends",
    "accelerate": "benchorch.frontends.accelerate.function",
    "benchmark": "benchorch.frontends.api.benchmark",
    "remote_profile": "benchorch.frontends.accelerate.remote_profile",
}

# Read when it is imported, here and in child processes: from 1.29 on it uploads on Linux, too.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> object:
    """Each on first use: importing benchorch alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
