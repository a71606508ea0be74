"""Helpers of the quantising steps: quiet imports, calibration calls, missing packages."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from benchorch.errors import BuildError
from benchorch.frameworks.torch_call import tensors_of
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION
from benchorch.host.environment import is_installed

if TYPE_CHECKING:
    import torch

    from benchorch.interfaces.conversion import BuildRequest

_SHOWN = 8
TILE = 16
"""Size of which dimensions must be multiples in kernels for float8 and packed int4."""


def missing(distribution: str, remedy: str) -> str | None:
    """Reason and remedy where a distribution is not installed; imports nothing."""
    return None if is_installed(distribution) else f"{distribution} is not installed: {remedy}"


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings: of kernels for other devices, of APIs on their way to another package."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def calibrate(
    call: Callable[..., object],
    request: BuildRequest,
    samples: int,
    dtypes: tuple[str, ...],
    device: str = "cpu",
) -> None:
    """Call the model on `samples` calibration inputs.

    Args:
        call: takes every input by keyword.
        request: gives the inputs.
        samples: how many of them.
        dtypes: floating dtypes of the weights, which the inputs follow.
        device: where the weights are.
    """
    import torch

    with torch.no_grad():
        for number in range(samples):
            inputs = tensors_of(request.calibration(number), device, dtypes)
            call(**inputs, **request.example.keywords)


def require_matches(patterns: Sequence[str], names: Sequence[str]) -> None:
    """BuildError for a pattern that fits no name: what it was to keep would be quantised."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = get_close_matches(pattern, names, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            shown = ", ".join(dict.fromkeys(names[-_SHOWN:]))
            raise BuildError(
                f"exclude: no node is called {pattern!r}.{meant} The last ones are {shown}.",
                kind="unknown_node",
                remedy="exclude takes names and patterns such as 'head.*'",
            )


def matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether any of the names fits any of the patterns."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def linear_layers(
    module: torch.nn.Module, scheme: str, *, inputs: int = 1, outputs: int = 1
) -> frozenset[str]:
    """Names of the torch.nn.Linear whose sizes torchao's scheme takes; BuildError without any.

    Args:
        module: whose layers are looked at; one that has several names has each of them.
        scheme: for people.
        inputs, outputs: what both sizes must be multiples of.
    """
    import torch

    named = module.named_modules(remove_duplicate=False)
    linear = {name: each for name, each in named if isinstance(each, torch.nn.Linear)}
    found = frozenset(
        name
        for name, each in linear.items()
        if each.in_features % inputs == 0 and each.out_features % outputs == 0
    )
    if found:
        return found
    sizes = f" of input sizes that {inputs} divides and output sizes that {outputs} divides"
    raise BuildError(
        f"torchao's {scheme} quantises torch.nn.Linear{sizes if linear else ''}, and the model has "
        f"none{f' among its {len(linear)}' if linear else ''}.",
        remedy=ANOTHER_CONVERSION,
    )


def only_weights(dtype: str) -> str:
    """The precision of products of weights in a dtype that compute in floating point."""
    return f"{dtype} weights"


def check_samples(samples: int) -> None:
    """ValueError unless there is something to calibrate with."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}.")
