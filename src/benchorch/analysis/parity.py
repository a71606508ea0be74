"""Is it still the same model: outputs against the baseline's, on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.domain.verdict import OutputParity, Verdict

if TYPE_CHECKING:
    from numpy import bool_, float64, generic
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Pairs = Sequence[tuple[Array, Array]]

_KINDS = {"f": "floating point", "i": "whole numbers", "u": "whole numbers", "b": "booleans"}
_FLOAT32_EPSILON = 2.0**-23


def parity(
    outputs: Sequence[Mapping[str, Array]],
    references: Sequence[Mapping[str, Array]],
    tolerance_ratio: float,
) -> Verdict:
    """Passed, or failed with one sentence for each violated rule.

    Outputs are matched by name. Shapes and kinds (floating point, whole numbers, booleans) must
    agree; what is not floating point must be equal; floating point must be finite wherever the
    reference is, and stay within `tolerance_ratio` in relative L2, the worst input deciding.

    Parameters
    ----------
    outputs, references : sequence of mapping from name to ndarray of any shape
        One mapping for each seeded input, in the same order. No input at all fails.
    tolerance_ratio : float
        The relative L2 error allowed, e.g. 1e-3. An error equal to it passes.

    Returns
    -------
    Verdict
        Its numbers are finite: values that are not count as 0 in them, and a reason tells how
        many there were. Outputs that cannot be compared have a reason and no numbers.
    """
    reasons: list[str] = []
    figures: list[OutputParity] = []
    if len(outputs) != len(references) or not references:
        reasons.append(f"{len(outputs)} outputs for {len(references)} references.")
    else:
        sides = list(zip(outputs, references, strict=True))
        reasons += dict.fromkeys(reason for side in sides for reason in _unmatched(*side))
        everywhere = set.intersection(*(set(side) for side in (*outputs, *references)))
        for name in (name for name in references[0] if name in everywhere):
            pairs = [(y[name], ref[name]) for y, ref in sides]
            obstacle = next(filter(None, (_obstacle(name, *pair) for pair in pairs)), None)
            if obstacle:
                reasons.append(obstacle)
                continue
            figures.append(_figures(name, pairs))
            reasons += _violations(figures[-1], pairs, tolerance_ratio)
    return Verdict(
        passed=not reasons,
        reasons=tuple(reasons),
        outputs=tuple(figures),
        tolerance_ratio=tolerance_ratio,
    )


def _unmatched(output: Mapping[str, Array], reference: Mapping[str, Array]) -> Iterator[str]:
    for name in reference:
        if name not in output:
            yield f"output {name} is missing; there are: {', '.join(output) or 'none'}."
    for name in output:
        if name not in reference:
            yield f"output {name} is not among the reference's: {', '.join(reference) or 'none'}."
    if not reference:
        yield "the reference has no outputs to compare with."


def _obstacle(name: str, y: Array, ref: Array) -> str | None:
    """Why two arrays cannot be compared value by value, or None."""
    if y.shape != ref.shape:
        return f"output {name} has shape {y.shape}; the reference has {ref.shape}."
    kinds = [_KINDS.get(array.dtype.kind, str(array.dtype)) for array in (y, ref)]
    if kinds[0] != kinds[1]:
        return f"output {name} holds {kinds[0]} ({y.dtype}); the reference {kinds[1]}."
    return None


def _violations(figures: OutputParity, pairs: Pairs, tolerance_ratio: float) -> Iterator[str]:
    """One sentence for each rule that a comparable output breaks."""
    name, size = figures.name, sum(ref.size for _, ref in pairs)
    if pairs[0][1].dtype.kind != "f":
        unequal = sum(int((y != ref).sum()) for y, ref in pairs)
        if unequal:
            yield f"output {name}: {unequal} of {size} values are not equal."
        return
    strange = sum(int((~_usable(y, ref)).sum()) for y, ref in pairs)
    if strange:
        yield f"output {name}: {strange} of {size} values are NaN or infinite."
    error = figures.relative_l2_ratio
    if error > tolerance_ratio:
        yield f"output {name}: relative L2 error {error:.3g} exceeds {tolerance_ratio:.3g}."


def _usable(y: Array, ref: Array) -> NDArray[bool_]:
    """Where both are finite, or the same infinity, as in a mask of logits."""
    import numpy as np

    return np.asarray((np.isfinite(y) & np.isfinite(ref)) | (np.isinf(ref) & (y == ref)))


def _figures(name: str, pairs: Pairs) -> OutputParity:
    """The worst of each figure over the inputs."""
    numbers = [(_numbers(y), _numbers(ref)) for y, ref in pairs]
    return OutputParity(
        name=name,
        max_abs=max(max_abs(y, ref) for y, ref in numbers),
        relative_l2_ratio=max(relative_l2_ratio(y, ref) for y, ref in numbers),
        cosine_ratio=min(cosine_ratio(y, ref) for y, ref in numbers),
        argmax_agreement_ratio=argmax_agreement_ratio(pairs),
    )


def _numbers(array: Array) -> NDArray[float64]:
    """All values in a row, shape (size,), float64; those that are not finite as 0."""
    import numpy as np

    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    return np.where(np.isfinite(flat), flat, 0.0)


def max_abs(y: NDArray[float64], ref: NDArray[float64]) -> float:
    """The largest absolute difference; 0 for empty arrays."""
    import numpy as np

    return float(np.abs(y - ref).max(initial=0.0))


def relative_l2_ratio(y: NDArray[float64], ref: NDArray[float64]) -> float:
    """``||y - ref|| / ||ref||``: 0 for empty arrays.

    Against a reference of zeros alone the error is counted in float32's epsilons: rounding
    noise stays small, anything else is far beyond every tolerance.

    Parameters
    ----------
    y, ref : ndarray, shape (n,), float64, finite
    """
    import numpy as np

    norm = float(np.linalg.norm(ref)) or _FLOAT32_EPSILON * max(ref.size, 1) ** 0.5
    return float(np.linalg.norm(y - ref)) / norm


def cosine_ratio(y: NDArray[float64], ref: NDArray[float64]) -> float:
    """Cosine of the angle between two arrays: 1 for two without length, 0 for one of them.

    Parameters
    ----------
    y, ref : ndarray, shape (n,), float64, finite
    """
    import numpy as np

    lengths = float(np.linalg.norm(y)), float(np.linalg.norm(ref))
    if 0.0 in lengths:
        return 1.0 if lengths[0] == lengths[1] else 0.0
    cosine = float((y / lengths[0]) @ (ref / lengths[1]))
    return min(1.0, max(-1.0, cosine))


def argmax_agreement_ratio(pairs: Pairs) -> float | None:
    """Share of positions whose largest entry along the last axis is the same one.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape (..., classes)
        Over all of which the positions are counted.

    Returns
    -------
    float or None
        None where there is nothing to choose from: no floats, fewer than 2 classes, no position.
    """
    agreeing = total = 0
    for y, ref in pairs:
        if ref.dtype.kind != "f" or ref.ndim == 0 or ref.shape[-1] < 2 or ref.size == 0:
            return None
        same = y.argmax(axis=-1) == ref.argmax(axis=-1)
        agreeing, total = agreeing + int(same.sum()), total + int(same.size)
    return agreeing / total if total else None
