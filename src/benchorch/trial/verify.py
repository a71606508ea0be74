"""Numerical parity of a conversion's outputs with eager's."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchorch.domain import parity_task
from benchorch.domain.noise import Noise
from benchorch.domain.outputs import nested
from benchorch.domain.verdict import Kind, Verdict
from benchorch.errors import MeasureError
from benchorch.models.callables import resolve_callable, user_code
from benchorch.results.parity.judge import parity

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[generic]]


def verify(
    outputs: Sequence[Arrays],
    references: Sequence[Arrays],
    tolerance_ratio: float,
    *,
    referees: Sequence[Arrays] = (),
    near: Sequence[Sequence[Arrays]] = (),
    inputs: Sequence[Arrays] = (),
    noise: Noise | None = None,
    task: str = parity_task.AUTO,
    model: str = "",
    metric: str | None = None,
    least_score: float | None = None,
    data_from: int = 0,
) -> Verdict:
    """The verdict on a conversion's outputs for the same inputs as the references'.

    A wrong number is a `Verdict`, never an error: the trial goes on and is shown as disqualified.

    Args:
        outputs: of each input.
        references: eager's.
        tolerance_ratio: the relative L2 error allowed.
        referees: eager's in float64, where they were kept.
        near: eager's whole numbers with weights some epsilons away, several for each input.
        inputs: what was computed on.
        noise: how far eager differs from itself; a model that is not deterministic never passes.
        task: as ``parity.task``.
        model: its class.
        metric: ``package.module:callable`` of the user, called with outputs and references, and
            with inputs where it has a parameter of that name; it returns a number.
        least_score: with it the metric decides, and how far numbers may differ does not.
        data_from: the number of the first input that the metric sees.

    Raises:
        BuildError, MeasureError: of kind ``user_code``, where the metric gives no number.
    """
    verdict = parity(
        outputs,
        references,
        tolerance_ratio,
        referees=referees,
        near=near,
        inputs=inputs,
        task=task,
        model=model,
        judged=least_score is None,
    )
    if noise is not None:
        verdict = _with_noise(verdict, noise)
    if verdict.kind is Kind.NOT_DETERMINISTIC or not metric:
        return verdict
    with_data = slice(data_from, None)
    score = _score(metric, outputs[with_data], references[with_data], inputs[with_data])
    reasons = [*verdict.reasons]
    if least_score is not None and not score >= least_score:
        reasons.append(f"{metric} gave {score:.6g}, less than {least_score:.6g}.")
    return replace(
        verdict,
        passed=not reasons,
        kind=None,
        reasons=tuple(reasons),
        metric=metric,
        score=score if math.isfinite(score) else None,
        least_score=least_score,
    )


def _with_noise(verdict: Verdict, noise: Noise) -> Verdict:
    """The same, or that the model is not deterministic, whatever else was found."""
    if noise.is_random:
        return verdict.not_deterministic(noise.sentence, noise.ratio)
    if not noise.where:
        return replace(verdict, noise_ratio=0.0)
    note = (
        f"the baseline differs from itself by {noise.ratio:.2g} ({noise.where}), which is "
        "float32's rounding in another order"
    )
    return replace(verdict, noise_ratio=noise.ratio, notes=(*verdict.notes, note))


def _score(
    metric: str,
    outputs: Sequence[Arrays],
    references: Sequence[Arrays],
    inputs: Sequence[Arrays],
) -> float:
    function = resolve_callable(metric)
    with user_code(metric):
        more = {"inputs": inputs} if "inputs" in inspect.signature(function).parameters else {}
        found = function([*map(nested, outputs)], [*map(nested, references)], **more)
    try:
        return float(found)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise MeasureError(
            f"{metric} returned {type(found).__name__}, not a number.", kind="user_code"
        ) from error
