"""The live module of a trial: loaded, in the workload's dtype, with its steps applied.

Every measuring process imports this, and not what builds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
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


def keep(setup: TrialSetup) -> None:
    """Load the model here, for the first load of each process that is forked from this one.

    One thread loads, for a process with more cannot be forked.
    """
    import torch

    wanted = (setup.model, setup.workload.seed)
    if type(setup.model).kept and not any((model, seed) == wanted for model, seed, _ in _KEPT):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        _KEPT.append((*wanted, setup.model.load(setup.workload.seed)))
        torch.set_num_threads(threads)


def _taken(setup: TrialSetup) -> torch.nn.Module | None:
    """The kept module, once: what is loaded later in this process has memory of its own."""
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
