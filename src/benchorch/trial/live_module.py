"""The live module of a trial: loaded, in the workload's dtype, with its steps applied.

Every measuring process imports this, and not what builds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from benchorch.config.trial_setup import TrialSetup
from benchorch.frameworks.module_precision import in_workload_dtype
from benchorch.interfaces.conversion import ModuleStep, StateStep, Step
from benchorch.interfaces.model import Model
from benchorch.trial.tf32 import apply_tf32

if TYPE_CHECKING:
    import torch


_KEPT: list[tuple[Model, int, torch.nn.Module]] = []
"""Loaded models with their seeds, never called: a template's, for processes forked from it."""

MOST_KEPT = 3
"""A process loads no more modules of one model: alone, and on both sides of an interleaved pair."""


def keep(setup: TrialSetup, count: int = 1) -> None:
    """Load so many modules of the model here, for processes that are forked from this one.

    Copies take a third of the time in which weights are drawn. One thread loads, for a process with
    more cannot be forked.
    """
    import torch

    model, seed = setup.model, setup.workload.seed
    if not type(model).kept or any(kept[:2] == (model, seed) for kept in _KEPT):
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    module = model.load(seed)
    _KEPT.extend((model, seed, each) for each in (module, *_copies(module, count - 1)))
    torch.set_num_threads(threads)


def _copies(module: torch.nn.Module, count: int) -> list[torch.nn.Module]:
    """So many copies; none where a copy might call this module or cannot be made.

    A function is not copied, nor is what it encloses.
    """
    owned = [value for part in module.modules() for value in vars(part).values()]
    owned += [value for each in owned if isinstance(each, dict) for value in each.values()]
    if any(isinstance(each, FunctionType) and each.__closure__ for each in owned):
        return []
    try:
        return [deepcopy(module) for _ in range(count)]
    except (AttributeError, RuntimeError, TypeError, ValueError):  # as classes refuse to be copied
        return []


def _taken(setup: TrialSetup) -> torch.nn.Module | None:
    """A kept module, once: each that is loaded in a process has memory of its own."""
    for number, (model, seed, module) in enumerate(_KEPT):
        if (model, seed) == (setup.model, setup.workload.seed):
            del _KEPT[number]
            return module
    return None


def loader(setup: TrialSetup, say: Callable[[str], None]) -> Callable[[], torch.nn.Module]:
    """Loads the model at most once in this process."""

    @cache
    def load() -> torch.nn.Module:
        say("loading the model")
        module = _taken(setup) or setup.model.load(setup.workload.seed)
        apply_tf32(setup)  # the model's code may have set it
        return in_workload_dtype(module, setup.workload.dtype)

    return load


def transformed(
    setup: TrialSetup,
    steps: Sequence[tuple[str, Step]],
    load: Callable[[], torch.nn.Module],
    states: Mapping[str, Path],
) -> Callable[[], torch.nn.Module]:
    """Applies these steps to what `load` returns, at most once.

    Args:
        states: the directory of each state step's artifact, by the step's name.
    """

    @cache
    def module() -> torch.nn.Module:
        example = setup.example(setup.workload.seed)
        changed = load()
        for name, step in steps:
            if isinstance(step, ModuleStep):
                changed = step.transform(changed, example)
            elif isinstance(step, StateStep):
                changed = step.restore(changed, states[name], example)
        return changed

    return module


def module_of(
    setup: TrialSetup,
    states: Mapping[str, Path],
    load: Callable[[], torch.nn.Module] | None = None,
) -> Callable[[], torch.nn.Module]:
    """Makes the live module with all its steps applied, for a runtime that needs it.

    Args:
        setup: whose model and steps these are.
        states: directories of the weights that steps left, by the steps' names.
        load: gives the model before any step, which the steps change in place; None to load it.
    """
    return transformed(setup, setup.steps, load or loader(setup, lambda _: None), states)
