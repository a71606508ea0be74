"""Rules of what outputs are for: classes, next tokens, embeddings, targets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy import float64, generic
from numpy.typing import NDArray

from benchorch.domain import parity_task
from benchorch.domain.outputs import is_name
from benchorch.results.parity.decisions import disagreement, outvoted
from benchorch.results.parity.figures import are_token_scores
from benchorch.results.parity.limits import (
    DIVERGENCE_FACTOR,
    FLOAT32_EPSILON,
    RANK_LEAST,
    ROUNDING_EPSILONS,
    ErrorLimits,
)

Array = NDArray[generic]
Floats = NDArray[float64]
Pairs = Sequence[tuple[Array, Array]]

_TOP = (1, 5)
_EMBEDDINGS = ("embeds", "embedding", "embeddings")


def task_of(
    requested: str,
    name: str,
    reference: Array,
    inputs: Mapping[str, Array],
    model: str,
) -> str:
    """Task of one output: the requested one if it fits, else an inferred one."""
    if requested == parity_task.NONE:
        return requested
    fitting = [task for task, fits in _FITS.items() if fits(reference)]
    if requested != parity_task.AUTO:
        return requested if requested in fitting else parity_task.NONE
    found = _inferred(model, name, reference, inputs)
    return found if found in fitting else parity_task.NONE


def _is_scores(reference: Array) -> bool:
    return reference.dtype.kind == "f" and reference.ndim >= 2 and reference.shape[-1] > 1


_FITS: Mapping[str, Callable[[Array], bool]] = {
    parity_task.CLASSIFICATION: _is_scores,
    parity_task.LANGUAGE_MODEL: lambda ref: _is_scores(ref) and ref.ndim == 3,
    parity_task.EMBEDDING: _is_scores,
    parity_task.REGRESSION: lambda ref: ref.dtype.kind in "fiu" and ref.ndim >= 1,
    parity_task.DETECTION: lambda ref: ref.dtype.kind == "f" and ref.ndim >= 2,
    parity_task.IDS: lambda ref: ref.dtype.kind in "iub",
}


def _inferred(model: str, name: str, reference: Array, inputs: Mapping[str, Array]) -> str:
    """Inferred task of an output, by shape, values, name and the model's class."""
    if reference.dtype.kind in "iub" and reference.ndim:
        return parity_task.IDS
    if are_token_scores(reference, inputs):
        return parity_task.LANGUAGE_MODEL
    last = name.rpartition(".")[2]
    if last == "prediction":
        return parity_task.REGRESSION
    if last.endswith(_EMBEDDINGS) and reference.ndim == 2:
        return parity_task.EMBEDDING
    named = last.endswith("logits") or (model.endswith("Classification") and not is_name(name))
    if (named and reference.ndim in (2, 3)) or _are_probabilities(reference):
        return parity_task.CLASSIFICATION
    return parity_task.NONE


def _are_probabilities(reference: Array) -> bool:
    if not _is_scores(reference) or not reference.size:
        return False
    values = np.asarray(reference, dtype=np.float64)
    return bool((values >= 0).all() and np.allclose(values.sum(axis=-1), 1.0, atol=1e-3))


def violations(task: str, pairs: Pairs, limits: ErrorLimits) -> Iterator[str]:
    """A sentence for each rule of a task that one output breaks."""
    rules = _RULES.get(task)
    if rules is not None:
        found = (reason for alike in _by_width(pairs) for reason in rules(alike, limits))
        yield from dict.fromkeys(filter(None, found))


def _by_width(pairs: Pairs) -> Iterable[Pairs]:
    """The inputs by the size of their last axis, which rules count as classes or targets."""
    widths: dict[tuple[int, ...], list[tuple[Array, Array]]] = {}
    for pair in pairs:
        widths.setdefault(pair[1].shape[-1:], []).append(pair)
    return widths.values()


def _classification(pairs: Pairs, limits: ErrorLimits) -> Iterator[str]:
    y, ref = (_rows([pair[side] for pair in pairs]) for side in (0, 1))
    for k in _TOP:
        if k == 1 or ref.shape[1] > k:
            yield disagreement(outvoted(y, ref, k, limits), _top_text(k, "class"))


def _top_text(k: int, what: str) -> str:
    return f"the likeliest {what}" if k == 1 else f"one of the {k} likeliest {what}es"


def _language_model(pairs: Pairs, limits: ErrorLimits) -> Iterator[str]:
    wrong, last, divergences, allowed = [], [], [], []
    for ours, theirs in pairs:
        for y, ref in zip(ours, theirs, strict=True):  # one sequence at a time: they are large
            rows, right = finite(y), finite(ref)
            wrong.append(outvoted(rows, right, 1, limits))
            last.append(wrong[-1][-1:])
            divergences.append(divergence(rows, right))
            allowed.append(divergence_allowed(right, limits))
    yield disagreement(np.concatenate(wrong), "the likeliest next token")
    yield disagreement(np.concatenate(last), "the likeliest token after the last one")
    for name, part in (("on average", slice(None)), ("after the last token", slice(-1, None))):
        found, most = (
            float(np.concatenate([each[part] for each in values]).mean())
            for values in (divergences, allowed)
        )
        if found > most:
            yield (
                f"the distribution of the next token diverges by {found:.3g} nats {name}; "
                f"{most:.3g} is allowed."
            )


def divergence(y: Floats, ref: Floats) -> Floats:
    """Kullback-Leibler divergence of the distributions of two sets of logits, shape (rows,).

    Parameters
    ----------
    y, ref : ndarray, shape (rows, classes), finite
    """
    ours, theirs = log_softmax(y), log_softmax(ref)
    return np.asarray(np.maximum((np.exp(theirs) * (theirs - ours)).sum(axis=1), 0.0))


def log_softmax(scores: Floats) -> Floats:
    """Log-probabilities, shape (rows, classes)."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def divergence_allowed(ref: Floats, limits: ErrorLimits) -> Floats:
    """Half the variance of the error of logits, as far as that is allowed, shape (rows,)."""
    rounding = ROUNDING_EPSILONS * FLOAT32_EPSILON * np.abs(ref).max(axis=1)
    error = DIVERGENCE_FACTOR * limits.tolerance_ratio * ref.std(axis=1) + rounding
    return np.asarray(error**2 / 2 + FLOAT32_EPSILON)


def _embedding(pairs: Pairs, limits: ErrorLimits) -> Iterator[str]:
    y, ref = (_units(_rows([pair[side] for pair in pairs])) for side in (0, 1))
    least = 1 - (2 * limits.tolerance_ratio) ** 2 - ROUNDING_EPSILONS * FLOAT32_EPSILON
    cosines = (y * ref).sum(axis=1)
    if cosines.size and cosines.min() < least:
        yield (
            f"the embedding of row {int(cosines.argmin())} has a cosine of {cosines.min():.4g} "
            f"to the reference's; {least:.4g} is the least allowed."
        )
    if len(ref) < 4:
        return
    places = np.triu_indices(len(ref), 1)
    ours, theirs = (side @ side.T for side in (y, ref))
    ours, theirs = ours[places], theirs[places]
    # Similarities that are all alike have no order that could be kept.
    if theirs.std() <= 4 * limits.tolerance_ratio + ROUNDING_EPSILONS * FLOAT32_EPSILON:
        return
    found = rank_correlation(ours, theirs)
    if found < RANK_LEAST:
        yield (
            f"the similarities of all pairs of rows have a rank correlation of {found:.3g} with "
            f"the reference's; {RANK_LEAST:g} is the least allowed."
        )


def rank_correlation(some: Floats, others: Floats) -> float:
    """Spearman's rank correlation; equal values are ranked in order of appearance.

    Parameters
    ----------
    some, others : ndarray, shape (n,)
    """
    ours, theirs = (
        each.argsort(kind="stable").argsort(kind="stable").astype(np.float64)
        for each in (some, others)
    )
    return float(np.corrcoef(ours, theirs)[0, 1])


def _units(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, np.finfo(float).tiny))


def _regression(pairs: Pairs, limits: ErrorLimits) -> Iterator[str]:
    y, ref = (_targets([pair[side] for pair in pairs]) for side in (0, 1))
    if len(ref) < 2:
        return
    spread = ref.std(axis=0)
    rounding = ROUNDING_EPSILONS * FLOAT32_EPSILON * np.abs(ref).max(axis=0)
    error = np.sqrt(((y - ref) ** 2).mean(axis=0))
    excess = error - limits.worst_ratio * spread - rounding
    worst = int(excess.argmax())
    if excess[worst] > 0:
        yield (
            f"target {worst} is off by {error[worst]:.3g} on average; its spread is "
            f"{spread[worst]:.3g}, of which {limits.worst_ratio:.3g} is "
            "allowed."
        )


def _targets(sides: Sequence[Array]) -> Floats:
    """All rows, shape (rows, targets): the last axis has the targets where there are two."""
    shaped = [each.reshape(-1, each.shape[-1] if each.ndim > 1 else 1) for each in sides]
    return np.concatenate([finite(each) for each in shaped])


def _rows(sides: Sequence[Array]) -> Floats:
    """All positions of all inputs, shape (rows, classes), finite."""
    return np.concatenate([finite(each.reshape(-1, each.shape[-1])) for each in sides])


def finite(rows: Array) -> Floats:
    """Rows in float64; non-finite values are replaced by the lowest, for masks of logits."""
    values = np.asarray(rows, dtype=np.float64)
    finite = np.isfinite(values)
    if finite.all():
        return values
    least = values[finite].min(initial=0.0)
    return np.where(finite, values, least - 1.0)


_RULES: Mapping[str, Callable[[Pairs, ErrorLimits], Iterator[str]]] = {
    parity_task.CLASSIFICATION: _classification,
    parity_task.LANGUAGE_MODEL: _language_model,
    parity_task.EMBEDDING: _embedding,
    parity_task.REGRESSION: _regression,
}
