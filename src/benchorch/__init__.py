"""Which conversion of a PyTorch model serves it fastest, and is it still the same model?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchorch.api import benchmark

__version__ = "0.1.0"
__all__ = ["__version__", "benchmark"]


def __getattr__(name: str) -> object:
    """`benchmark` on first use: importing benchorch alone costs nothing."""
    if name != "benchmark":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from benchorch.api import benchmark

    return benchmark
