"""Parity of generated tokens: where texts part, by how much distributions do, and perplexity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy import generic
from numpy.typing import NDArray

from benchorch.domain.verdict import Kind, TokenParity, Verdict
from benchorch.results.parity.limits import ErrorLimits
from benchorch.results.parity.tasks import divergence, divergence_allowed, finite, log_softmax

Scores = NDArray[generic]
Pairs = Sequence[tuple[Scores, Scores]]


def judge_tokens(verdict: Verdict, pairs: Pairs, texts: Mapping[int, Scores]) -> Verdict:
    """The verdict with the figures of tokens; it fails on a text that becomes less likely.

    The mean of what a token's log-probability loses may be as much as two distributions can be
    apart that diverge by what the rule of next tokens allows.

    Parameters
    ----------
    pairs : sequence of two ndarrays of shape (batch_size, tokens, vocabulary)
        Scores of the conversion and of the baseline, of each input that has been compared.
    texts : mapping from the number of a pair to an ndarray of shape (batch_size, tokens), int64
        The tokens of the user's own text, where that was scored.
    """
    alike = {n: pair for n, pair in enumerate(pairs) if pair[0].shape == pair[1].shape}
    if not alike:
        return verdict
    found = _figures(alike)
    if not texts.keys() & alike.keys():
        return replace(verdict, tokens=found)
    limits = ErrorLimits.of(verdict.tolerance_ratio)
    ours, theirs, allowed = [], [], []
    for number, text in texts.items():
        for rows, (y, ref) in zip(text, zip(*alike[number], strict=True), strict=True):
            right = finite(ref)
            ours.append(_lost(finite(y), rows))
            theirs.append(_lost(right, rows))
            allowed.append(divergence_allowed(right, limits))
    lost, before = (float(np.concatenate(each).mean()) for each in (ours, theirs))
    found = replace(found, perplexity=_exp(lost), baseline_perplexity=_exp(before))
    most = math.sqrt(2 * float(np.concatenate(allowed).mean()))
    if lost - before <= most:
        return replace(verdict, tokens=found)
    reason = (
        f"perplexity on the given text is {_exp(lost):.6g}, the baseline's {_exp(before):.6g}; "
        f"{_exp(before + most):.6g} is allowed."
    )
    return replace(
        verdict,
        tokens=found,
        passed=False,
        kind=Kind.DIFFERS if verdict.passed else verdict.kind,
        reasons=(*verdict.reasons, reason),
    )


def _figures(alike: Mapping[int, tuple[Scores, Scores]]) -> TokenParity:
    firsts, count, agreeing = [], 0, 0
    longest = max(ref.shape[1] for _, ref in alike.values())
    total, counts = np.zeros(longest), np.zeros(longest)
    for number, (y, ref) in alike.items():
        same = y.argmax(axis=-1) == ref.argmax(axis=-1)
        count, agreeing = count + same.size, agreeing + int(same.sum())
        apart = ~same.all(axis=0)
        if apart.any():
            firsts.append((int(apart.argmax()), number))
        for ours, theirs in zip(y, ref, strict=True):  # one sequence at a time: they are large
            total[: len(theirs)] += divergence(finite(ours), finite(theirs))
            counts[: len(theirs)] += 1
    first = min(firsts, default=None)
    return TokenParity(
        positions=count,
        agreeing=agreeing,
        first_divergence=first and first[0],
        first_divergence_input=first and first[1],
        divergence_nats=tuple((total / counts).tolist()),
    )


def _lost(rows: NDArray[generic], tokens: Scores) -> NDArray[generic]:
    """Negative log-probability of each token, shape (tokens,)."""
    found = log_softmax(rows)  # type: ignore[arg-type]
    places = np.asarray(tokens, dtype=np.int64)[: len(found), None]
    return -np.take_along_axis(found, places, axis=1)[:, 0]


def _exp(value: float) -> float:
    """Finite: a token whose probability is 0 has no log-probability that could be shown."""
    return math.exp(min(value, 700.0))
