"""Capture of a running script's module: its graph and weights, so that the script runs once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json
from benchorch.errors import summary_of
from benchorch.frameworks.eval_mode import served
from benchorch.models.script_watch import FirstCall
from benchorch.units import format_bytes

if TYPE_CHECKING:
    import torch

MOST_BYTES = 4 << 30
"""Weights that are written for one script; each call's program holds its model's."""

_TOLERANCE = 1e-2  # of the largest value: half precision differs in its last digits


class NotCapturedError(Exception):
    """Why a call is not captured, as a sentence without its end."""


def capture(first_call: FirstCall, folder: Path) -> dict[str, Json]:
    """Write the exported program of a call; the keys of ``model`` that name it.

    The script's module, its modes and its random numbers stay as they are.

    Raises:
        NotCapturedError: torch.export cannot, or what it made gives other answers.
    """
    import torch

    from benchorch.frameworks.torch_program import foreign_operators
    from benchorch.models.kept_programs import keep_program

    arguments = {name: each.to("cpu") for name, each in first_call.arguments.tensors.items()}
    alone = torch.random.fork_rng(devices=[])
    try:
        with served(first_call.module) as module, alone, torch.no_grad():
            called = _callable(first_call, module)
            with torch.autocast("cpu", enabled=False):
                program = torch.export.export(called, (), arguments)
                expected = called(**arguments)
                answer = program.module()(**arguments)
    except Exception as error:  # whatever a user's code or a tracer raises
        raise NotCapturedError(f"torch.export: {summary_of(error)}") from error
    foreign = foreign_operators(program)
    if foreign:
        raise NotCapturedError(f"its exported graph needs operators of its packages: {foreign[0]}")
    if not alike(expected, answer):
        raise NotCapturedError("its exported graph gives other answers, so it depends on more")
    return keep_program(program, folder)


def _callable(first_call: FirstCall, module: torch.nn.Module) -> torch.nn.Module:
    from benchorch.models.architectures.called import called, goes_by_name

    arguments, dtype = first_call.arguments, first_call.autocast
    direct = goes_by_name(module, arguments, first_call.answer) and not arguments.keywords
    return module if direct and not dtype else called(module, arguments, dtype)


def alike(expected: object, answer: object) -> bool:
    """Whether two results hold the same tensors but for rounding."""
    import torch

    from benchorch.frameworks.torch_call import tensors_in

    pairs = list(zip(tensors_in(expected), tensors_in(answer), strict=False))
    if len(tensors_in(expected)) != len(tensors_in(answer)):
        return False
    for one, other in pairs:
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.is_complex():
            one, other = (torch.view_as_real(each.resolve_conj()) for each in (one, other))
        a, b = one.to(torch.float64), other.to(torch.float64)
        scale = float(a.nan_to_num(0, 0, 0).abs().max()) if a.numel() else 0.0
        if not torch.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True):
            return False
    return True


def too_large(spent: int, size: int) -> str:
    """Why weights of that size are not written after `spent` bytes of others; "" where they are."""
    if spent + size <= MOST_BYTES:
        return ""
    return f"its weights ({format_bytes(size)}) would make it more than {format_bytes(MOST_BYTES)}"
