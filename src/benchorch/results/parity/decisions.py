"""Decisions represented by outputs: classes, tokens, ids; near-ties are excluded."""

from collections.abc import Sequence

import numpy as np
from numpy import bool_, float64, generic
from numpy.typing import NDArray

from benchorch.results.parity.limits import (
    DISAGREEING_RATIO,
    FEW_ROWS,
    FLIPPED_MOST,
    FLIPPED_PLACE_MOST,
    FLOAT32_EPSILON,
    LOST_VALUE_MOST,
    MOVED_SCORE_FACTOR,
    NAMES_LEAST,
    NEAR_TIE_FACTOR,
    QUANTITY_VALUES,
    RANKED_LEAST,
    ROUNDING_EPSILONS,
    UNDECIDED_MOST,
    ErrorLimits,
)

Array = NDArray[generic]
Floats = NDArray[float64]
Pairs = Sequence[tuple[Array, Array]]


# All pairs of a row's ids are compared.
_LONGEST_ORDER = 256


def margins(scores: Floats, limits: ErrorLimits) -> Floats:
    """How close two scores of a row are to be a tie, shape (rows,).

    Parameters
    ----------
    scores : ndarray, shape (rows, classes)
        The reference's, finite.
    """
    rounding = ROUNDING_EPSILONS * FLOAT32_EPSILON * np.abs(scores).max(axis=1, initial=0.0)
    return np.asarray(NEAR_TIE_FACTOR * limits.tolerance_ratio * scores.std(axis=1) + rounding)


def outvoted(y: Floats, ref: Floats, k: int, limits: ErrorLimits) -> NDArray[bool_]:
    """Rows whose best `k` classes hold one that the reference clearly puts below its own.

    Parameters
    ----------
    y, ref : ndarray, shape (rows, classes), finite
    """
    k = min(k, ref.shape[1])
    ties = margins(ref, limits)
    wrong = np.zeros(len(ref), dtype=bool)
    # A class can rise above another by twice the largest error: few rows have to be sorted.
    unclear = np.flatnonzero(2 * np.abs(y - ref).max(axis=1, initial=0.0) >= ties)
    if unclear.size:
        ours, theirs = y[unclear], ref[unclear]
        chosen = np.argpartition(ours, -k, axis=1)[:, -k:]
        least = np.partition(theirs, -k, axis=1)[:, -k]
        worst = np.take_along_axis(theirs, chosen, axis=1).min(axis=1)
        wrong[unclear] = worst < least - ties[unclear]
    return wrong


def disagreement(wrong: NDArray[bool_], what: str) -> str:
    """A sentence where too many rows decide otherwise; empty where they do not."""
    count = int(wrong.sum())
    if count <= DISAGREEING_RATIO * wrong.size:
        return ""
    first = int(np.flatnonzero(wrong)[0])
    return (
        f"{what} is another one in {count} of {wrong.size} (first in number {first}), near-ties "
        f"aside; {100 * DISAGREEING_RATIO:g} % may differ."
    )


def undecided(pairs: Pairs, near: Sequence[Sequence[Array]]) -> list[NDArray[bool_]]:
    """Mask of each input where the reference itself gives the same with weights epsilons away.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape
    near : sequence of sequence of ndarray
        The reference's other answers to each input.

    Returns
    -------
    list of ndarray
        Empty where there is no such answer, or where more than a share of the values follow
        from rounding: such an output decides nothing.
    """
    others = [
        [one for one in each if one.shape == ref.shape]
        for (_, ref), each in zip(pairs, near or [()] * len(pairs), strict=True)
    ]
    moved = [[one != ref for one in each] for (_, ref), each in zip(pairs, others, strict=True)]
    count = sum(int(np.any(each, axis=0).sum()) for each in moved if each)
    if not 0 < count <= UNDECIDED_MOST * sum(ref.size for _, ref in pairs):
        return []
    return [
        np.any([one == y for one in each], axis=0) if each else np.zeros(y.shape, dtype=bool)
        for (y, _), each in zip(pairs, others, strict=True)
    ]


def moved_by_one(pairs: Pairs, near: Sequence[Sequence[Array]]) -> int:
    """How many whole numbers rounding moves, if they are quantities such as pixels; 0 of ids.

    Nearly tied ids become any other, and neighbours in an order change places. Of quantities the
    reference's own become the next number with weights epsilons away, 8 or more and none another,
    and so do the conversion's, in no more than half of each input's: ids that count from another
    first one are no rounding.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape
    near : sequence of sequence of ndarray
        The reference's other answers to each input.
    """
    if not near or not have_many_values(pairs) or any(_is_order(ref) for _, ref in pairs):
        return 0
    moved = [
        np.maximum.reduce(
            [np.zeros(ref.shape), *(_apart(one, ref) for one in each if one.shape == ref.shape)]
        )
        for (_, ref), each in zip(pairs, near, strict=True)
    ]
    ours = [_apart(*pair) for pair in pairs]
    own = sum(int((each > 0).sum()) for each in moved)
    is_next = max(each.max(initial=0) for each in (*moved, *ours)) <= 1
    is_some = all((each > 0).sum() <= FLIPPED_PLACE_MOST * each.size for each in ours)
    return own if own >= FEW_ROWS and is_next and is_some else 0


def have_many_values(pairs: Pairs) -> bool:
    """Whether they are whole numbers of more values than classes have whose neighbours tie."""
    if any(ref.dtype.kind not in "iu" for _, ref in pairs):
        return False
    return len(np.unique(np.concatenate([ref.ravel() for _, ref in pairs]))) >= QUANTITY_VALUES


def _is_order(ids: Array) -> bool:
    """Whether each row has all numbers from its least on, as ranks do."""
    if not ids.ndim or ids.shape[-1] < FEW_ROWS:
        return False
    return bool((np.diff(np.sort(ids, axis=-1).astype(np.float64), axis=-1) == 1).all())


def _apart(y: Array, ref: Array) -> Floats:
    return np.asarray(np.abs(y.astype(np.float64) - ref.astype(np.float64)))


def flipped(
    pairs: Pairs,
    ties: Sequence[NDArray[bool_] | None],
    limits: ErrorLimits,
    undecided: Sequence[NDArray[bool_]] = (),
) -> str:
    """A sentence where too many whole numbers, booleans or texts are not equal.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape
    ties : sequence of ndarray of that shape, or None
        Where the reference itself could as well have had another value.
    undecided : sequence of ndarray of that shape, optional
        Where it has this very value with weights epsilons away.
    """
    unequal = [np.asarray(y != ref) for y, ref in pairs]
    if undecided:
        unequal = [each & ~free for each, free in zip(unequal, undecided, strict=True)]
    clear = [each if tie is None else each & ~tie for each, tie in zip(unequal, ties, strict=True)]
    count, size = (sum(int(f(each)) for each in clear) for f in (np.sum, np.size))
    share = min(limits.tolerance_ratio, FLIPPED_MOST) if limits.low_precision else 0.0
    if count <= share * size:
        return _flipped_place(clear) or _lost_value(pairs, clear)
    number = next(i for i, each in enumerate(clear) if each.any())
    first = ", ".join(map(str, np.argwhere(clear[number])[0]))
    allowed = f"{100 * share:g} % may differ" if share else "all must be"
    ids = pairs[0][1].dtype.kind in "iu"
    hint = ", but for near-ties of scores that are an output, too" if ids else ""
    return (
        f"{count} of {size} values are not equal (first at [{first}] of input {number}); "
        f"{allowed}{hint}."
    )


def _flipped_place(flips: Sequence[NDArray[bool_]]) -> str:
    """A sentence where one position of the inner axes is wrong in most rows of most inputs.

    Parameters
    ----------
    flips : sequence of ndarray of bool, shape (rows, ...)
        Judged where all inputs share the inner shape and have 8 rows or more together.
    """
    inner = {each.shape[1:] for each in flips if each.ndim > 1}
    rows = np.concatenate(flips) if len(inner) == 1 and min(e.ndim for e in flips) > 1 else None
    if rows is None:
        return ""
    shares = rows.mean(axis=0)
    if len(rows) < FEW_ROWS or shares.max(initial=0) <= FLIPPED_PLACE_MOST:
        return ""
    place = [int(at) for at in np.unravel_index(int(shares.argmax()), shares.shape)]
    return (
        f"the value at position {place} is another one in {100 * shares.max():.0f} % of "
        f"{len(rows)} rows; {100 * FLIPPED_PLACE_MOST:g} % may."
    )


def _lost_value(pairs: Pairs, flips: Sequence[NDArray[bool_]]) -> str:
    """A sentence where one value is another one nearly wherever a side has it.

    A share of all values says nothing of what is found in one place of a thousand. Of two values,
    such as flags, more has to remain of each.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape
    flips : sequence of ndarray of bool of that shape
        Judged where any is true, and of values in 8 places or more.
    """
    wrong = np.concatenate([each.reshape(-1) for each in flips])
    if not wrong.any():
        return ""
    most = LOST_VALUE_MOST
    for side, whose in ((1, "the reference"), (0, "the conversion")):
        given = np.concatenate([pair[side].reshape(-1) for pair in pairs])
        values, places, counts = np.unique(given, return_inverse=True, return_counts=True)
        if side and len(values) == 2:
            most = FLIPPED_PLACE_MOST
        shares = np.bincount(places.reshape(-1), weights=wrong) / counts
        worst = int(np.where(counts >= FEW_ROWS, shares, 0.0).argmax())
        if counts[worst] >= FEW_ROWS and shares[worst] > most:
            return (
                f"where {whose} has {values[worst]}, {100 * shares[worst]:.0f} % of "
                f"{counts[worst]} values are not equal; {100 * most:g} % may differ."
            )
    return ""


def renamed(pairs: Pairs) -> str:
    """A sentence where ids among measured values, such as a tracker's, are mostly other ones.

    A channel holds ids where all of it are whole numbers, not all the same and some beyond what
    bfloat16 holds exactly, and other channels of the output are not whole.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape (..., channels)
    """
    if any(ref.ndim < 2 or ref.dtype.kind != "f" or not ref.size for _, ref in pairs):
        return ""
    if len({ref.shape[-1] for _, ref in pairs}) > 1:
        return ""
    y, ref = (
        np.concatenate([pair[side].reshape(-1, pair[side].shape[-1]) for pair in pairs])
        for side in (0, 1)
    )
    whole = (np.isfinite(ref) & (np.trunc(ref) == ref)).all(axis=0)
    named = whole & (np.abs(ref).max(axis=0) >= NAMES_LEAST) & (ref != ref[0]).any(axis=0)
    if whole.all() or not named.any():
        return ""
    shares = np.where(named, (np.abs(y - ref) >= 0.5).mean(axis=0), 0.0)
    worst = int(shares.argmax())
    if shares[worst] <= FLIPPED_PLACE_MOST:
        return ""
    return (
        f"channel {worst} holds whole numbers, such as ids, and {100 * shares[worst]:.0f} % of "
        f"them are other ones; {100 * FLIPPED_PLACE_MOST:g} % may be. If they are quantities, "
        "parity.task=regression."
    )


def tied(
    y: Array, ids: Array, others: Sequence[tuple[Array, Array]], limits: ErrorLimits
) -> NDArray[bool_] | None:
    """Mask where the ids `y` score as well as the reference's; None without its scores.

    Either ids of the largest score along the last axis, ``ids == scores.argmax(-1)``, or an
    order such as topk's, with scores of the ids' own shape or with those of all classes.

    Parameters
    ----------
    y, ids : ndarray, shape (...)
    others : sequence of two ndarrays
        The conversion's and the reference's other outputs for the same input.
    """
    for ours, each in others:
        if ours.dtype.kind + each.dtype.kind != "ff" or not each.size:
            continue
        if not np.isfinite(each).all():
            continue
        values = np.asarray(each, dtype=np.float64)
        if _is_mask(values):
            continue
        if each.ndim > ids.ndim and each.shape[:-1] == ids.shape and each.shape[-1] > 1:
            flat = values.reshape(-1, each.shape[-1])
            if np.array_equal(flat.argmax(axis=1), ids.ravel()):
                return _as_good(y.ravel(), flat, limits).reshape(ids.shape)
        if each.shape == ids.shape == ours.shape and ids.ndim and ids.shape[-1] > 1:
            found = _neighbours_tied(y, ids, (ours, values), limits)
            if found is not None:
                return found
        if each.ndim == ids.ndim > 0 and each.shape[:-1] == ids.shape[:-1]:
            found = _ranked_alike(y, ids, values, limits)
            if found is not None:
                return found
    return None


def _is_mask(scores: Floats) -> bool:
    """Whether no row has more than two values: constants and masks rank nothing.

    Rows of fewer than 8 values are one together; fewer values at all are no mask.
    """
    rows = scores.reshape(-1, scores.shape[-1] if scores.ndim else 1)
    if rows.shape[1] < FEW_ROWS:
        rows = rows.reshape(1, -1)
    if rows.shape[1] < FEW_ROWS:
        return False
    least, most = (f(axis=1, keepdims=True) for f in (rows.min, rows.max))
    return bool(((rows == least) | (rows == most)).all())


def _ranked_alike(
    y: Array, ids: Array, scores: Floats, limits: ErrorLimits
) -> NDArray[bool_] | None:
    """Where other ids of the same rank score nearly the same; None unless `ids` rank the scores.

    Parameters
    ----------
    y, ids : ndarray, shape (..., k)
    scores : ndarray, shape (..., classes)
    """
    k, classes = ids.shape[-1], scores.shape[-1]
    if k > classes or not _name_classes(ids, classes):
        return None
    got = np.take_along_axis(scores, ids.astype(np.int64), axis=-1)
    falling = -np.sort(-scores, axis=-1)
    if not any(np.array_equal(got, each[..., :k]) for each in (falling, falling[..., ::-1])):
        return None
    if not _name_classes(y, classes):
        return np.zeros(ids.shape, dtype=bool)
    ours = np.take_along_axis(scores, y.astype(np.int64), axis=-1)
    near = margins(scores.reshape(-1, classes), limits).reshape(*ids.shape[:-1], 1)
    return np.asarray(np.abs(ours - got) <= near)


def _name_classes(ids: Array, classes: int) -> bool:
    """Whether all are numbers of classes, and none of them twice in a row."""
    if not ids.size or ids.dtype.kind not in "iu":
        return False
    inside = bool(((ids >= 0) & (ids < classes)).all())  # type: ignore[operator]
    return inside and bool(_distinct(ids).all())


def _distinct(ids: Array) -> NDArray[bool_]:
    """Rows without a repeated id, shape (...)."""
    ordered = np.sort(ids, axis=-1)
    return np.asarray((ordered[..., 1:] != ordered[..., :-1]).all(axis=-1))


def _as_good(chosen: Array, scores: Floats, limits: ErrorLimits) -> NDArray[bool_]:
    """Rows whose chosen class scores nearly as much as the best one, shape (rows,)."""
    inside = (chosen >= 0) & (chosen < scores.shape[1])  # type: ignore[operator]
    column = np.where(inside, chosen, 0).astype(np.int64)[:, None]
    got = np.take_along_axis(scores, column, axis=1)[:, 0]
    return np.asarray(inside & (got >= scores.max(axis=1) - margins(scores, limits)))


def _neighbours_tied(
    y: Array, ids: Array, ordered: tuple[Array, Array], limits: ErrorLimits
) -> NDArray[bool_] | None:
    """Mask where ids of a sorted row changed places with a near-tie; None for rows without order.

    Ids that repeat within a row, such as a class for each position, have an order only where most
    scores differ from the next. Times and positions are sorted too: ids change places only as far
    as the conversion's scores differ from the reference's.

    Parameters
    ----------
    y, ids : ndarray, shape (..., k)
    ordered : two ndarrays of that shape
        The conversion's scores and the reference's.
    """
    ours, flat = (np.asarray(each, np.float64).reshape(-1, ids.shape[-1]) for each in ordered)
    steps = np.diff(flat, axis=1)
    if flat.shape[1] > _LONGEST_ORDER or not ((steps <= 0).all() or (steps >= 0).all()):
        return None
    got, theirs = y.reshape(flat.shape), ids.reshape(flat.shape)
    distinct = _distinct(theirs)
    if not distinct.all() and (steps != 0).mean() <= RANKED_LEAST:
        return None
    margin = margins(flat, limits)
    close = np.abs(steps) <= margin[:, None]
    edge = np.zeros((len(flat), 1), dtype=bool)
    near = np.hstack([edge, close]) | np.hstack([close, edge])
    # Fewer scores may all be near the reference's by chance.
    reach = np.full(len(flat), _moved_most(ours, flat)) if flat.size >= FEW_ROWS else margin
    for row in np.flatnonzero((got != theirs).any(axis=1)):
        near[row] &= _moved_within(reach[row], got[row], theirs[row], flat[row])
        if distinct[row]:
            near[row] &= (got[row][:, None] == got[row]).sum(axis=1) == 1
    return np.asarray(near.reshape(ids.shape))


def _moved_most(ours: Floats, scores: Floats) -> float:
    """How far apart scores may be that changed places, by the errors of those that are given."""
    rounding = ROUNDING_EPSILONS * FLOAT32_EPSILON * float(np.abs(scores).max())
    return MOVED_SCORE_FACTOR * float(np.abs(ours - scores).max()) + rounding


def _moved_within(reach: float, y: Array, ids: Array, scores: Floats) -> NDArray[bool_]:
    """Where the reference has the id of a place, too, with nearly the same score, shape (k,)."""
    same = y[:, None] == ids
    found = np.asarray((same & (np.abs(scores[:, None] - scores) <= reach)).any(axis=1))
    # What comes just after the last one is not known, and may have taken its place.
    found[-1] |= not same[-1].any()
    return found
