"""How outputs are compared: the ``parity`` node of a trial's spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from benchorch.config.components import misspelt
from benchorch.domain import parity_task
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode


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


_KEYS = ("inputs", "task", "metric", "least_score", "data", "ignore_written_inputs")


def parity_setup(spec: ConfigNode) -> ParitySetup:
    """The checked node of a trial's spec; keys that a stored spec lacks have their defaults."""
    node = cast(ConfigNode, spec["parity"])
    return ParitySetup(
        inputs=cast(int, node["inputs"]),
        task=cast(str, node.get("task") or parity_task.AUTO),
        metric=cast("str | None", node.get("metric")),
        least_score=cast("float | None", node.get("least_score")),
        data=cast("str | None", node.get("data")),
        ignore_written_inputs=cast(bool, node.get("ignore_written_inputs", False)),
    )


def parity_problems(node: ConfigNode) -> list[str]:
    """Every problem of the node, one sentence each."""
    problems: list[str] = [
        misspelt(f"parity.{n}: unknown key.", n, _KEYS) for n in node if n not in _KEYS
    ]
    inputs, task = node.get("inputs"), node.get("task", parity_task.AUTO)
    if isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 1:
        problems.append(f"parity.inputs: expected a positive whole number, got {inputs!r}.")
    if task not in parity_task.TASKS:
        known = ", ".join(parity_task.TASKS)
        problem = f"parity.task: {task!r} is no task."
        problems.append(misspelt(problem, str(task), parity_task.TASKS, f" Tasks: {known}."))
    ignored = node.get("ignore_written_inputs", False)
    if not isinstance(ignored, bool):
        problems.append(f"parity.ignore_written_inputs: expected true or false, got {ignored!r}.")
    return [*problems, *_score_problems(node.get("metric"), node.get("least_score"), node)]


def _score_problems(metric: Json, least: Json, node: ConfigNode) -> list[str]:
    problems = []
    if metric is not None and not isinstance(metric, str):
        problems.append(f"parity.metric: expected 'package.module:callable', got {metric!r}.")
    if least is not None and (isinstance(least, bool) or not isinstance(least, int | float)):
        problems.append(f"parity.least_score: expected a number, got {least!r}.")
    elif least is not None and metric is None:
        problems.append("parity.least_score: needs parity.metric, which gives the score.")
    data = node.get("data")
    if data is not None and not isinstance(data, str):
        problems.append(
            "parity.data: expected an .npz or .npy file, or 'package.module:callable', "
            f"got {data!r}."
        )
    return problems
