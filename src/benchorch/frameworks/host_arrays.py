"""Arrays on the host in every dtype of an input; ml_dtypes adds the bfloat16 that numpy lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from numpy import dtype, generic
    from numpy.typing import NDArray

BFLOAT16 = "bfloat16"


def numpy_dtype(name: str) -> dtype[Any]:
    """Numpy's dtype of one of `domain.tensors.DTYPES`."""
    import numpy as np

    if name != BFLOAT16:
        return np.dtype(name)
    import ml_dtypes

    bfloat16: dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def dtype_name(tensor: torch.Tensor) -> str:
    """A tensor's dtype as in YAML: ``bfloat16``."""
    return str(tensor.dtype).removeprefix("torch.")


def is_floating(array: NDArray[generic]) -> bool:
    """Whether it holds floating-point numbers; numpy counts bfloat16 among no kind of numbers."""
    return array.dtype.kind == "f" or array.dtype.name == BFLOAT16


def array_of(tensor: Any) -> NDArray[generic]:
    """A tensor's values on the host in its own dtype, or an array as it is."""
    import numpy as np

    detach = getattr(tensor, "detach", None)
    if detach is None:
        return np.asarray(tensor)
    held = detach().cpu()
    if str(held.dtype) != f"torch.{BFLOAT16}":
        return np.asarray(held.numpy())
    return np.asarray(held.float().numpy().astype(numpy_dtype(BFLOAT16)))
