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
from benchorch.trial.tf32 import apply_tf32

if TYPE_CHECKING:
    import torch


def loader(setup: TrialSetup, say: Callable[[str], None]) -> Callable[[], torch.nn.Module]:
    """Loads the model at most once in this process."""

    @cache
    def load() -> torch.nn.Module:
        say("loading the model")
        module = setup.model.load(setup.workload.seed)
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
