"""Rules that all uses of TensorRT share; nothing of it is imported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError

NOT_ON_CPU = "TensorRT runs on NVIDIA GPUs alone: hardware=local_gpu"

Profile = Mapping[str, Sequence[int]]
"""Smallest, best and largest size of each open symbol: ``{"batch_size": [1, 8, 32]}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Shapes of one input with open sizes.

    Attributes:
        axes: the symbol of each open axis.
        smallest, best, largest: whole shapes.
    """

    axes: Mapping[int, str]
    smallest: tuple[int, ...]
    best: tuple[int, ...]
    largest: tuple[int, ...]


def check_profile(profile: Mapping[str, object]) -> None:
    """ValueError where a symbol has no three whole numbers, the smallest first."""
    for symbol, sizes in profile.items():
        if not _is_range(sizes):
            raise ValueError(
                f"profile.{symbol}: got {sizes!r}, it must be the smallest, the best and the "
                "largest size, e.g. [1, 8, 32]"
            )


def _is_range(sizes: object) -> bool:
    if not isinstance(sizes, list | tuple) or len(sizes) != 3:
        return False
    whole = all(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
    return whole and sizes[0] >= 1 and all(low <= high for low, high in pairwise(sizes))


def bounds_of(example: Example, profile: Profile, step: str) -> dict[str, Bounds]:
    """Bounds of each input that has open sizes; BuildError unless all of those have some.

    Args:
        example: its ``dynamic`` symbols are open.
        profile: an option of the step.
        step: its name in the configuration, for the remedy.
    """
    for symbol in example.dynamic:
        if symbol not in profile:
            raise BuildError(
                f"TensorRT needs bounds for the open size {symbol!r}, and the profile has none.",
                remedy=f"conversion.steps.{step}.profile='{{{symbol}: [1, 8, 32]}}', or "
                "workload.dynamic=[]",
            )
    for symbol in profile:
        if symbol not in example.dynamic:
            raise BuildError(
                f"The profile bounds {symbol!r}, which is not open.",
                remedy=f"workload.dynamic=[{symbol}]",
            )
    found = {spec.name: _bounds(spec, example, profile) for spec in example.specs}
    return {name: bounds for name, bounds in found.items() if bounds.axes}


def _bounds(spec: TensorSpec, example: Example, profile: Profile) -> Bounds:
    axes = {axis: str(size) for axis, size in enumerate(spec.shape) if size in profile}
    shape = example.arrays[spec.name].shape
    smallest, best, largest = (
        tuple(profile[axes[axis]][which] if axis in axes else n for axis, n in enumerate(shape))
        for which in range(3)
    )
    return Bounds(axes=axes, smallest=smallest, best=best, largest=largest)


def at_best_sizes(example: Example, bounds: Mapping[str, Bounds]) -> Example:
    """The same call with open sizes at their best, by repeating or leaving out rows."""
    import numpy as np

    arrays = dict(example.arrays)
    for name, each in bounds.items():
        for axis in each.axes:
            rows = np.arange(each.best[axis]) % arrays[name].shape[axis]
            arrays[name] = arrays[name].take(rows, axis)
    return replace(example, arrays=arrays)
