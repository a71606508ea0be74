"""Figures of two outputs, for people: errors, angles, representable numbers, agreements."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import bool_, float64, generic, int64
from numpy.typing import NDArray

from benchorch.domain.verdict import OutputParity
from benchorch.results.parity.limits import (
    ALIKE_FACTOR,
    ALIKE_LEAST,
    ALIKE_RATIO,
    FAR_LARGER_LEAST,
    FILL_FACTOR,
    FILL_LEAST,
    FLOAT32_EPSILON,
)

Array = NDArray[generic]
Pairs = Sequence[tuple[Array, Array]]

_TOP_K = 5
_ENOUGH_VALUES = 100_000  # for quantiles
_BLOCK = 2**15  # values at a time, which stay in the cache


def usable(y: Array, ref: Array) -> NDArray[bool_]:
    """Mask where both are finite, both NaN, or the same infinity, as in a mask of logits."""
    alike = (np.isnan(y) & np.isnan(ref)) | (np.isinf(ref) & (y == ref))
    return np.asarray((np.isfinite(y) & np.isfinite(ref)) | alike)


def _unusable(y: Array, ref: Array) -> int:
    if np.isfinite(y).all() and np.isfinite(ref).all():
        return 0
    return int((~usable(y, ref)).sum())


def figures(
    name: str, pairs: Pairs, referees: Sequence[Array], inputs: Sequence[Mapping[str, Array]]
) -> OutputParity:
    """The worst of each figure over the inputs; nothing is judged here."""
    floating = pairs[0][1].dtype.kind == "f"
    apart = [distances(*measured(y, ref)) for y, ref in pairs]
    error = max(each.relative_l2_ratio for each in apart)
    middle, most = _ulp_quantiles(pairs)
    following, overlap = _next_tokens(pairs, inputs)
    ours, theirs = against_referees(pairs, referees)
    return OutputParity(
        name=name,
        shape=pairs[0][0].shape,
        dtype=str(pairs[0][0].dtype),
        max_abs=max(each.max_abs for each in apart),
        relative_l2_ratio=error,
        cosine_ratio=min(each.cosine_ratio for each in apart),
        signal_to_noise_db=-20 * math.log10(error) if error else None,
        ulp_p50=middle,
        ulp_p99=most,
        not_finite=sum(_unusable(y, ref) for y, ref in pairs) if floating else 0,
        argmax_agreement_ratio=argmax_agreement_ratio(pairs),
        next_token_agreement_ratio=following,
        top_k_overlap_ratio=overlap,
        referee_error_ratio=ours,
        baseline_error_ratio=theirs,
    )


def against_referees(pairs: Pairs, referees: Sequence[Array]) -> tuple[float | None, float | None]:
    """Our worst error against float64 and the reference's own; None where there is none."""
    if not referees or [each.shape for each in referees] != [ref.shape for _, ref in pairs]:
        return None, None
    found = [measured(*pair, right) for pair, right in zip(pairs, referees, strict=True)]
    ours, theirs = (
        max(distances(each[side], each[2]).relative_l2_ratio for each in found) for side in (0, 1)
    )
    return ours, theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Sums over all values of an output and its reference.

    Attributes:
        size: how many values each has.
        max_abs: the largest absolute difference; 0 for empty arrays.
        error, output, reference: sums of squares, of the difference and of both.
        product: sum of ``y * ref``.
    """

    size: int
    max_abs: float = 0.0
    error: float = 0.0
    output: float = 0.0
    reference: float = 0.0
    product: float = 0.0

    @property
    def relative_l2_ratio(self) -> float:
        """``||y - ref|| / ||ref||``: 0 for empty arrays.

        Against a reference of zeros alone the error is counted in float32's epsilons: rounding
        noise stays small, anything else is far beyond every tolerance.
        """
        norm = math.sqrt(self.reference) or FLOAT32_EPSILON * math.sqrt(max(self.size, 1))
        return math.sqrt(self.error) / norm

    @property
    def cosine_ratio(self) -> float:
        """Cosine of the angle between both: 1 for two without length, 0 for one of them."""
        lengths = math.sqrt(self.output), math.sqrt(self.reference)
        if 0.0 in lengths:
            return 1.0 if lengths[0] == lengths[1] else 0.0
        return min(1.0, max(-1.0, self.product / lengths[0] / lengths[1]))


def distances(y: Array, ref: Array) -> Distances:
    """How far two arrays are apart, in float64.

    Parameters
    ----------
    y, ref : ndarray of one shape, finite
    """
    ours, theirs = y.reshape(-1), ref.reshape(-1)
    most = np.zeros(5)
    for start in range(0, ours.size, _BLOCK):
        some = slice(start, start + _BLOCK)
        a, b = ours[some].astype(np.float64), theirs[some].astype(np.float64)
        error = a - b
        most[1:] += error @ error, a @ a, b @ b, a @ b
        most[0] = max(most[0], error.max(), -error.min())
    return Distances(
        size=ours.size,
        max_abs=float(most[0]),
        error=float(most[1]),
        output=float(most[2]),
        reference=float(most[3]),
        product=float(most[4]),
    )


def finite(array: Array) -> NDArray[float64]:
    """The values in float64; those that are not finite as 0."""
    return np.asarray(finite_values(array), dtype=np.float64)


def finite_values(array: Array) -> Array:
    """The values in their own dtype; those that are not finite as 0."""
    if array.dtype.kind != "f":
        return array
    right = np.isfinite(array)
    return array if right.all() else np.where(right, array, array.dtype.type(0))


def measured(y: Array, ref: Array, *others: Array) -> list[Array]:
    """Both sides and others of their shape, with 0 for values that measure nothing.

    Those are values that are not finite, and one that fills: exactly the same on both sides at
    several places, and far larger than all others, as the least number of a dtype in place of
    masked scores is.
    """
    found = [finite_values(each) for each in (y, ref, *others)]
    fills = _fills(*found[:2])
    return found if fills is None else [np.where(fills, 0, each) for each in found]


def _fills(y: Array, ref: Array) -> NDArray[bool_] | None:
    if ref.dtype.kind != "f" or not ref.size or y.shape != ref.shape:
        return None
    sizes = np.abs(ref)
    most = sizes.max()
    if most < FILL_LEAST:
        return None
    fills = np.asarray((sizes == most) & (y == ref))
    rest = sizes[~fills].max(initial=0)
    is_fill = int(fills.sum()) > 1 and 0 < rest < most / FILL_FACTOR
    return fills if is_fill else None


def far_larger(references: Sequence[Array]) -> list[NDArray[bool_]]:
    """Masks of values that are far larger than all others; empty where none are.

    Beside scores to which a mask has added -10000, for example, no error of the others counts.
    """
    sizes = [np.abs(finite_values(each)) for each in references]
    alike = max((each.max(initial=0) for each in sizes), default=0) / ALIKE_RATIO
    return _beyond(sizes, FAR_LARGER_LEAST, FILL_FACTOR) or _beyond(
        sizes, max(alike, ALIKE_LEAST), ALIKE_FACTOR
    )


def _beyond(sizes: Sequence[Array], least_size: float, factor: float) -> list[NDArray[bool_]]:
    """Masks of sizes from one on, if the least of them is the factor larger than all others."""
    found = [np.asarray(each, np.float64) >= least_size for each in sizes]
    if not any(mask.any() for mask in found):
        return []
    large, small = (
        [each[mask == is_large] for each, mask in zip(sizes, found, strict=True)]
        for is_large in (True, False)
    )
    least = min((each.min() for each in large if each.size), default=0.0)
    most = max((each.max() for each in small if each.size), default=0.0)
    return found if 0 < most < least / factor else []


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
    usable = np.isfinite(y) & np.isfinite(ref)
    ours, theirs = (_in_order(np.ascontiguousarray(array[usable])) for array in (y, ref))
    # Unsigned, since a distance across zero may not fit into a signed number.
    upper, lower = (extreme(ours, theirs).view(np.uint64) for extreme in (np.maximum, np.minimum))
    return (upper - lower).astype(np.float64)


def _in_order(array: Array) -> NDArray[int64]:
    """Whole numbers that follow each other as the floating-point numbers do."""
    bits = array.view(np.dtype(f"i{array.dtype.itemsize}"))
    lowest = np.iinfo(bits.dtype).min
    return np.where(bits < 0, lowest - bits, bits).astype(np.int64)


def _ulp_quantiles(pairs: Pairs) -> tuple[float | None, float | None]:
    """Median and 99th percentile of the distances, of the worst input each."""
    if any(ref.dtype.kind != "f" or y.dtype != ref.dtype for y, ref in pairs):
        return None, None
    found = [ulp_distances(_sample(y), _sample(ref)) for y, ref in pairs]
    quantiles = [np.quantile(each, (0.5, 0.99), method="hazen") for each in found if each.size]
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
    if len(inputs) < len(pairs) or not are_token_scores(pairs[0][1], inputs[0]):
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


def are_token_scores(scores: Array, inputs: Mapping[str, Array]) -> bool:
    """Whether an output scores a vocabulary at each of the input's tokens."""
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
