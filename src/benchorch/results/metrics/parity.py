"""Numerical parity of outputs with the baseline's, on the same inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.domain.verdict import OutputParity, Verdict

if TYPE_CHECKING:
    from numpy import bool_, float64, generic, int64
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Pairs = Sequence[tuple[Array, Array]]

_KINDS = {"f": "floating point", "i": "whole numbers", "u": "whole numbers", "b": "booleans"}
_FLOAT32_EPSILON = 2.0**-23
# How much further from float64 than the baseline's float32 an output may be: its rounding errors
# are another draw from the same distribution.
_REFEREE_FACTOR = 2.0
_TOP_K = 5
_ENOUGH_VALUES = 1_000_000  # for quantiles


def parity(
    outputs: Sequence[Mapping[str, Array]],
    references: Sequence[Mapping[str, Array]],
    tolerance_ratio: float,
    *,
    referees: Sequence[Mapping[str, Array]] = (),
    inputs: Sequence[Mapping[str, Array]] = (),
    judged: bool = True,
) -> Verdict:
    """Passed, or failed with one sentence for each violated rule.

    Outputs are matched by name. Shapes and kinds (floating point, whole numbers, booleans) must
    agree; what is not floating point must be equal; floating point must be finite wherever the
    reference is, and stay within `tolerance_ratio` in relative L2, the worst input deciding. Where
    float64 outputs are available, an output that is about as near to them as the reference itself
    passes as well.

    Parameters
    ----------
    outputs, references : sequence of mapping from name to ndarray of any shape
        One mapping for each seeded input, in the same order. No input at all fails.
    tolerance_ratio : float
        The relative L2 error allowed, e.g. 1e-3. An error equal to it passes.
    referees : sequence of mapping from name to ndarray, optional
        The reference in float64, one mapping for each input.
    inputs : sequence of mapping from name to ndarray, optional
        What was computed on; shows which outputs are scores of tokens.
    judged : bool, default True
        Whether values that differ are a reason to fail; if not, only outputs that cannot be
        compared and values that are no numbers are.

    Returns
    -------
    Verdict
        Its numbers are finite: values that are not count as 0 in them, and a reason has their
        number. Outputs that cannot be compared have a reason and no numbers.
    """
    reasons: list[str] = []
    figures: list[OutputParity] = []
    saved: list[str] = []
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
            figures.append(_figures(name, pairs, [r[name] for r in referees if name in r], inputs))
            reasons += _strange(figures[-1], pairs)
            if judged and _excused(figures[-1], tolerance_ratio):
                saved.append(name)
            elif judged:
                reasons += _violations(figures[-1], pairs, tolerance_ratio)
    return Verdict(
        passed=not reasons,
        reasons=tuple(reasons),
        outputs=tuple(figures),
        tolerance_ratio=tolerance_ratio,
        referee=tuple(saved),
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


def _strange(figures: OutputParity, pairs: Pairs) -> Iterator[str]:
    if figures.not_finite:
        size = sum(ref.size for _, ref in pairs)
        name = figures.name
        yield f"output {name}: {figures.not_finite} of {size} values are NaN or infinite."


def _violations(figures: OutputParity, pairs: Pairs, tolerance_ratio: float) -> Iterator[str]:
    """A sentence where a comparable output's numbers are too different."""
    name, size = figures.name, sum(ref.size for _, ref in pairs)
    if pairs[0][1].dtype.kind != "f":
        unequal = sum(int((y != ref).sum()) for y, ref in pairs)
        if unequal:
            yield f"output {name}: {unequal} of {size} values are not equal."
        return
    error = figures.relative_l2_ratio
    if error > tolerance_ratio:
        yield f"output {name}: relative L2 error {error:.3g} exceeds {tolerance_ratio:.3g}."


def _excused(figures: OutputParity, tolerance_ratio: float) -> bool:
    """Whether an output beyond the tolerance is as right as the reference is."""
    ours, theirs = figures.referee_error_ratio, figures.baseline_error_ratio
    if ours is None or theirs is None or figures.relative_l2_ratio <= tolerance_ratio:
        return False
    return ours <= _REFEREE_FACTOR * theirs


def _usable(y: Array, ref: Array) -> NDArray[bool_]:
    """Where both are finite, or the same infinity, as in a mask of logits."""
    import numpy as np

    return np.asarray((np.isfinite(y) & np.isfinite(ref)) | (np.isinf(ref) & (y == ref)))


def _figures(
    name: str, pairs: Pairs, referees: Sequence[Array], inputs: Sequence[Mapping[str, Array]]
) -> OutputParity:
    """The worst of each figure over the inputs."""
    numbers = [(_numbers(y), _numbers(ref)) for y, ref in pairs]
    error = max(relative_l2_ratio(y, ref) for y, ref in numbers)
    middle, most = _ulp_quantiles(pairs)
    following, overlap = _next_tokens(pairs, inputs)
    ours, theirs = _against_referees(numbers, [_numbers(referee) for referee in referees])
    return OutputParity(
        name=name,
        shape=pairs[0][0].shape,
        dtype=str(pairs[0][0].dtype),
        max_abs=max(max_abs(y, ref) for y, ref in numbers),
        relative_l2_ratio=error,
        cosine_ratio=min(cosine_ratio(y, ref) for y, ref in numbers),
        signal_to_noise_db=-20 * math.log10(error) if error else None,
        ulp_p50=middle,
        ulp_p99=most,
        not_finite=sum(int((~_usable(y, ref)).sum()) for y, ref in pairs if ref.dtype.kind == "f"),
        argmax_agreement_ratio=argmax_agreement_ratio(pairs),
        next_token_agreement_ratio=following,
        top_k_overlap_ratio=overlap,
        referee_error_ratio=ours,
        baseline_error_ratio=theirs,
    )


def _against_referees(
    numbers: Sequence[tuple[NDArray[float64], NDArray[float64]]],
    exact: Sequence[NDArray[float64]],
) -> tuple[float | None, float | None]:
    """Our worst error against float64 and the reference's own; None where there is none."""
    sizes = [ref.shape for _, ref in numbers]
    if not exact or [each.shape for each in exact] != sizes:
        return None, None
    pairs = list(zip(numbers, exact, strict=True))
    ours = max(relative_l2_ratio(y, right) for (y, _), right in pairs)
    return ours, max(relative_l2_ratio(ref, right) for (_, ref), right in pairs)


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


def ulp_distances(y: Array, ref: Array) -> NDArray[float64]:
    """How many representable numbers each value is away from the reference's.

    The bits of floating-point numbers, read as whole numbers, count them in order of size.

    Parameters
    ----------
    y, ref : ndarray of one shape and one floating dtype

    Returns
    -------
    ndarray, shape (n,), float64
        Only of values that are finite on both sides.
    """
    import numpy as np

    usable = np.isfinite(y) & np.isfinite(ref)
    ours, theirs = (_in_order(np.ascontiguousarray(array[usable])) for array in (y, ref))
    # Unsigned, since a distance across zero may not fit into a signed number.
    upper, lower = (extreme(ours, theirs).view(np.uint64) for extreme in (np.maximum, np.minimum))
    return (upper - lower).astype(np.float64)


def _in_order(array: Array) -> NDArray[int64]:
    """Whole numbers that follow each other as the floating-point numbers do."""
    import numpy as np

    bits = array.view(np.dtype(f"i{array.dtype.itemsize}"))
    lowest = np.iinfo(bits.dtype).min
    return np.where(bits < 0, lowest - bits, bits).astype(np.int64)


def _ulp_quantiles(pairs: Pairs) -> tuple[float | None, float | None]:
    """Median and 99th percentile of the distances, of the worst input each."""
    import numpy as np

    if any(ref.dtype.kind != "f" or y.dtype != ref.dtype for y, ref in pairs):
        return None, None
    found = [ulp_distances(_sample(y), _sample(ref)) for y, ref in pairs]
    quantiles = [np.quantile(each, (0.5, 0.99)) for each in found if each.size]
    if not quantiles:
        return None, None
    return float(max(each[0] for each in quantiles)), float(max(each[1] for each in quantiles))


def _sample(array: Array) -> Array:
    """All values in a row, or regularly spaced ones where there are very many."""
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _ENOUGH_VALUES)]


def _next_tokens(
    pairs: Pairs, inputs: Sequence[Mapping[str, Array]]
) -> tuple[float | None, float | None]:
    """How often a language model would go on in the same way, and with the same alternatives.

    Scores of tokens are known by their shape (batch, length, classes) and by inputs of whole
    numbers, shape (batch, length), all of which are classes and not just a mask.
    """
    import numpy as np

    if len(inputs) < len(pairs) or not _are_token_scores(pairs[0][1], inputs[0]):
        return None, None
    same: list[bool] = []
    shared: list[float] = []
    for y, ref in pairs:
        k = min(_TOP_K, ref.shape[-1])
        for ours, theirs in zip(y[:, -1], ref[:, -1], strict=True):
            same.append(bool(ours.argmax() == theirs.argmax()))
            best = [set(np.argpartition(each, -k)[-k:].tolist()) for each in (ours, theirs)]
            shared.append(len(best[0] & best[1]) / k)
    return (sum(same) / len(same), sum(shared) / len(shared)) if same else (None, None)


def _are_token_scores(scores: Array, inputs: Mapping[str, Array]) -> bool:
    if scores.dtype.kind != "f" or scores.ndim != 3 or 0 in scores.shape or scores.shape[-1] < 2:
        return False
    tokens = [
        array
        for array in inputs.values()
        if array.dtype.kind in "iu" and array.shape == scores.shape[:2]
    ]
    largest = [int(array.max()) for array in tokens]
    return bool(largest) and 1 < max(largest) < scores.shape[-1]


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
