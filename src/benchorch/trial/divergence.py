"""First divergence: the first module whose outputs differ, located once parity has failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.tensors import Example
from benchorch.errors import summary_of
from benchorch.frameworks.torch_call import call_by_keyword, live_tensors, tensors_in
from benchorch.frameworks.torch_program import load_program

if TYPE_CHECKING:
    import torch

    # What each module gave, in the order in which they ended: (qualified name, output number).
    Record = dict[tuple[str, int], torch.Tensor]


def first_divergence(
    *,
    original: Callable[[], torch.nn.Module],
    converted: Callable[[], torch.nn.Module],
    changed: bool,
    program: Path | None,
    example: Example,
    tolerance_ratio: float,
) -> str:
    """The first module whose outputs are beyond the tolerance, in the order of execution.

    Args:
        original: makes the module as it was loaded.
        converted: makes it with its module steps applied; called after `original` was recorded.
        changed: whether there are such steps.
        program: directory of the chain's exported program, or None.
        example: the call in which they are compared.
        tolerance_ratio: relative L2.

    Returns:
        A sentence; empty where nothing can be said, as for files that hold no modules.
    """
    try:
        if not changed and program is None:
            return ""
        right = _record(original(), example)
        stages = {"the module steps": converted} if changed else {}
        if program is not None:
            stages["the export"] = lambda: _unflattened(program)
        for stage, make in stages.items():
            given = _named_alike(_record(make(), example), right)
            found = _first_beyond(right, given, tolerance_ratio)
            if found:
                return f"After {stage} {found}"
        return f"Not in a module: {' and '.join(stages)} left all of them within the tolerance."
    except Exception as error:  # a failed search must not cost the verdict
        return f"Where it begins is unknown: {summary_of(error)}"


def _unflattened(program: Path) -> torch.nn.Module:
    import torch

    return torch.export.unflatten(load_program(program))


def _record(module: torch.nn.Module, example: Example) -> Record:
    """Floating outputs of every module in one call on the CPU, in float64."""
    record: Record = {}
    module = module.to("cpu")
    with ExitStack() as hooks:
        for name, part in module.named_modules():
            handle = part.register_forward_hook(_writer(record, name))
            hooks.callback(handle.remove)
        tensors = live_tensors(module, example.arrays, "cpu")
        call_by_keyword(module, example.keywords)(tensors)()
    return record


def _writer(record: Record, name: str) -> Callable[[object, object, object], None]:
    def write(module: object, inputs: object, output: object) -> None:
        for number, tensor in enumerate(tensors_in(output)):
            if tensor.is_floating_point():
                # The last call counts of a module that is called more than once.
                record.pop((name, number), None)
                record[name, number] = tensor.detach().double()

    return write


def _named_alike(found: Record, right: Record) -> Record:
    """Record without the name of a wrapper around the whole model, if there is one."""
    if any(name and (name, number) in right for name, number in found):
        return found
    return {(name.partition(".")[2], number): tensor for (name, number), tensor in found.items()}


def _first_beyond(right: Record, found: Record, tolerance_ratio: float) -> str:
    agreed = ""
    for (name, number), expected in right.items():
        given = found.get((name, number))
        if given is None or given.shape != expected.shape:
            continue
        error = _relative_l2(given, expected)
        if not error <= tolerance_ratio:
            place = f"module {name!r}" if name else "the model's own forward"
            before = f"; {agreed!r} before it still agrees" if agreed else ""
            return f"{place} is the first beyond {tolerance_ratio:.2g}: {error:.3g}{before}."
        agreed = name or agreed
    return ""


def _relative_l2(given: torch.Tensor, expected: torch.Tensor) -> float:
    norm = float(expected.norm()) or 1.0
    return float((given - expected).norm()) / norm
