"""TensorFloat-32 in this process: one setting for every library that multiplies float32 on a GPU.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html, "TensorFloat-32 (TF32) on Ampere";
``NVIDIA_TF32_OVERRIDE`` in NVIDIA's cuBLAS, cuDNN and TensorRT guides.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""The only setting that ONNX Runtime's TensorRT provider obeys, which has no option for it."""


def set_tf32(*, allowed: bool) -> None:
    """Let float32 products be rounded to 10 bits of mantissa on the GPU, or see to it that none is.

    Called before the first library of CUDA is loaded, because those read the environment once, and
    again after code of the user's has run, which may set torch's flags too.
    """
    if allowed:
        os.environ.pop(OVERRIDE, None)
    else:
        os.environ[OVERRIDE] = "0"
    import torch

    with _deprecations_ignored():
        for each in (torch.backends, torch.backends.cudnn):
            each.fp32_precision = "none"  # type: ignore[attr-defined]  # or others' is inherited
        torch.set_float32_matmul_precision("highest")  # of the processor too
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed


def tf32_in_use() -> bool | None:
    """Whether torch rounds float32 products and convolutions now; None where it is some of them."""
    import torch

    with _deprecations_ignored():
        try:
            found = {torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32}
        except RuntimeError:  # torch's two interfaces were mixed and contradict each other
            return None
    return found.pop() if len(found) == 1 else None


@contextmanager
def _deprecations_ignored() -> Iterator[None]:
    """Torch advises against these flags since 2.9, and earlier versions have no others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
