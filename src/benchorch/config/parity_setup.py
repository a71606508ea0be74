"""How outputs are compared: the ``parity`` node of a trial's spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from benchorch.config.components import construct, misspelt
from benchorch.domain import parity_task
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, check_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ParitySetup:
    """What is compared, and by which rules.

    Attributes:
        inputs: how many seeded input sets; those that are timed are among them.
        task: one of `parity_task.TASKS`.
        metric: ``package.module:callable`` of the user, or None.
        least_score: with it the metric decides instead of the tolerance.
        data: the user's own input sets: an .npz or .npy file, a .txt of words where
            tokens are generated, or ``package.module:callable``.
        ignore_written_inputs: whether inputs that a call writes in place are only noted.
    """

    inputs: int
    task: str = parity_task.AUTO
    metric: str | None = None
    least_score: float | None = None
    data: str | None = None
    ignore_written_inputs: bool = False

    def __post_init__(self) -> None:
        if self.task not in parity_task.TASKS:
            known = f" Tasks: {', '.join(parity_task.TASKS)}."
            problem = f"task: {self.task!r} is no task."
            raise ConfigError([misspelt(problem, self.task, parity_task.TASKS, known)])
        rules = {
            "inputs: expected a positive whole number": self.inputs >= 1,
            "least_score: needs parity.metric, which gives the score": (
                self.least_score is None or self.metric is not None
            ),
        }
        check_options(self, rules)


def parity_setup(spec: ConfigNode) -> ParitySetup:
    """The node of a trial's spec, where what a stored one lacks has its default.

    ConfigError with every problem.
    """
    return construct(ParitySetup, cast(ConfigNode, spec["parity"]), "parity")
