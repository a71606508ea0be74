"""Rules that all uses of TensorRT share; nothing of it is imported."""

from __future__ import annotations

from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.interfaces.conversion import SAME_ARITHMETIC_RATIO

ELSEWHERE = "TensorRT runs on NVIDIA GPUs alone: hardware=local_gpu"
"""Why it is unavailable on any other device."""

_TF32_RATIO = 5e-3


def products_ratio(*, tf32: bool) -> float:
    """Error of float32 products: 10 bits of mantissa, or another order of operations."""
    return _TF32_RATIO if tf32 else SAME_ARITHMETIC_RATIO


def refuse_open_sizes(example: Example) -> None:
    """BuildError where a size is open: engines are built for the sizes they are shown."""
    if example.dynamic:
        raise BuildError(
            "TensorRT needs bounds for open sizes, and workload.dynamic names none.",
            remedy="workload.dynamic=[]",
        )
