"""Numerical parity of a conversion's outputs with eager's."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchorch.domain.verdict import Verdict
from benchorch.errors import MeasureError
from benchorch.models.callables import UserCode, resolve_callable
from benchorch.results.metrics.parity import parity

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
    inputs: Sequence[Arrays] = (),
    metric: str | None = None,
    least_score: float | None = None,
) -> Verdict:
    """The verdict on a conversion's outputs for the same seeded inputs as the references'.

    A wrong number is a `Verdict`, never an error: the trial goes on and is shown as disqualified.

    Args:
        outputs: of each seeded input.
        references: eager's.
        tolerance_ratio: the relative L2 error allowed.
        referees: eager's in float64, where they were kept.
        inputs: what was computed on.
        metric: ``package.module:callable`` of the user, called with outputs and references, and
            with inputs where it has a parameter of that name; it returns a number.
        least_score: with it the metric decides, and how far numbers may differ does not.

    Raises:
        BuildError, MeasureError: of kind ``user_code``, where the metric gives no number.
    """
    verdict = parity(
        outputs,
        references,
        tolerance_ratio,
        referees=referees,
        inputs=inputs,
        judged=least_score is None,
    )
    if not metric:
        return verdict
    score = _score(metric, outputs, references, inputs)
    reasons = [*verdict.reasons]
    if least_score is not None and not score >= least_score:
        reasons.append(f"{metric} gave {score:.6g}, less than {least_score:.6g}.")
    return replace(
        verdict,
        passed=not reasons,
        reasons=tuple(reasons),
        metric=metric,
        score=score if math.isfinite(score) else None,
        least_score=least_score,
    )


def _score(
    metric: str,
    outputs: Sequence[Arrays],
    references: Sequence[Arrays],
    inputs: Sequence[Arrays],
) -> float:
    function = resolve_callable(metric)
    with UserCode(metric):
        more = {"inputs": inputs} if "inputs" in inspect.signature(function).parameters else {}
        found = function(outputs, references, **more)
    try:
        return float(found)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise MeasureError(
            f"{metric} returned {type(found).__name__}, not a number.", kind="user_code"
        ) from error
