"""Speedup of a trial over its baseline, or why there is no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison
from benchorch.domain.result import Outcome, TrialResult
from benchorch.stats.between_processes import primary_ns
from benchorch.stats.pairs import (
    ADJACENT,
    ALTERNATED,
    Pair,
    design_of,
    extremes,
    halves,
    interferes,
    moves,
    pairs,
)
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.ratio_test import INCONCLUSIVE, compare, compare_pairs
from benchorch.stats.significance import holm


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a comparison rests on, before anything is concluded.

    Attributes:
        pairs: both sides' times in each process of the trial; empty where they were not paired.
        parts: where there was no steady state, the same for parts of the blocks: a verdict
            that not all of them support is none.
        candidate_ns, baseline_ns: each process's primary metric, where there are no pairs.
        refusal: why there is no verdict whatever the numbers; empty where there may be one.
        alpha: error rate, after what interim analyses have cost.
    """

    design: str
    pairs: Sequence[Pair] = ()
    parts: tuple[Sequence[Pair], ...] = ()
    candidate_ns: Sequence[float] = ()
    baseline_ns: Sequence[float] = ()
    refusal: str = ""
    alpha: float = ALPHA
    delta_ratio: float


def question(result: TrialResult, baseline: TrialResult | None) -> Question | None:
    """What is to be compared; None for a baseline, and where either has nothing to compare.

    A trial under load has not: its times are its queue's as much as its own.

    Args:
        baseline: its result, or None where there is none (yet): pairs alone can do without it.
    """
    if result.baseline_id is None or (baseline and baseline.trial_id == result.trial_id):
        return None
    if not (_comparable(result) and (baseline is None or _comparable(baseline))):
        return None
    if any(process.observations.loads for process in result.valid):
        return None
    paired = pairs(result.valid)
    baseline_ns = [] if baseline is None else [primary_ns(process) for process in baseline.valid]
    if not paired and not baseline_ns:
        return None
    design = design_of(result.valid)
    return Question(
        design=design,
        pairs=paired,
        parts=_parts(result, design),
        candidate_ns=[primary_ns(process) for process in result.valid],
        baseline_ns=baseline_ns,
        refusal=_refusal(result, baseline, design, interleaved=bool(paired)),
        alpha=result.stop_alpha,
        delta_ratio=result.delta_ratio,
    )


def answer(asked: Question, comparisons: int = 1) -> Comparison | None:
    """The ratio, and its verdict among so many comparisons read together.

    The interval is Bonferroni's: all of `comparisons` hold at once in 19 of 20 tables.
    """
    found = _compared(asked, asked.pairs, comparisons)
    if found is None:
        return None
    if asked.refusal:
        return _withheld(found, asked.refusal)
    if asked.parts and found.verdict != INCONCLUSIVE:
        parts = [_compared(asked, part, comparisons) for part in asked.parts]
        if any(part is None or part.verdict != found.verdict for part in parts):
            return _withheld(found, "no steady state while the two were compared")
        return replace(found, reason="not steady, but all that was observed supports it")
    return found


def _withheld(found: Comparison, reason: str) -> Comparison:
    """The same numbers without a verdict; more pairs would not bring one."""
    return replace(found, verdict=INCONCLUSIVE, reason=reason, material=False, pairs_needed=None)


def answered_alone(asked: Question) -> Comparison | None:
    """The comparison of one trial with its baseline, read alone."""
    found = answer(asked)
    return found and replace(found, adjusted_p_value=_overall_p_value(found, asked))


def speedups(questions: Mapping[str, Question]) -> dict[str, Comparison]:
    """The comparisons of one table, adjusted for being read together.

    P-values are Holm's, intervals Bonferroni's, and a verdict needs its interval. Comparisons
    that are refused a verdict count for nothing: they cannot be won by chance.
    """
    judged = [name for name, asked in questions.items() if not asked.refusal]
    answers = {name: answer(asked, max(len(judged), 1)) for name, asked in questions.items()}
    found = {name: comparison for name, comparison in answers.items() if comparison is not None}
    once = {
        name: _overall_p_value(found[name], questions[name]) for name in judged if name in found
    }
    known = {name: p for name, p in once.items() if p is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    return {
        name: replace(comparison, adjusted_p_value=adjusted.get(name))
        for name, comparison in found.items()
    }


def _overall_p_value(found: Comparison, asked: Question) -> float | None:
    """The p-value on the scale on which 5 % is 5 % in spite of all interim analyses."""
    if found.p_value is None or asked.refusal:
        return None
    return min(1.0, found.p_value * ALPHA / asked.alpha)


def _parts(result: TrialResult, design: str) -> tuple[Sequence[Pair], ...]:
    """Interleaving cancels what the machine does, so there only the ratio has to hold still."""
    if design == ADJACENT:
        found = extremes(result.valid)
        return found if all(found) else ()
    moving = design == ALTERNATED and moves(result.valid, result.delta_ratio)
    return halves(result.valid) if moving else ()


def _compared(asked: Question, chosen: Sequence[Pair], comparisons: int) -> Comparison | None:
    delta, alpha = asked.delta_ratio, asked.alpha / comparisons
    if asked.pairs:
        return compare_pairs(chosen, asked.design, delta_ratio=delta, alpha=alpha)
    return compare(asked.candidate_ns, asked.baseline_ns, delta_ratio=delta, alpha=alpha)


def _refusal(
    result: TrialResult, baseline: TrialResult | None, design: str, *, interleaved: bool
) -> str:
    """Why the two may not be ranked however clear the difference."""
    own = _threads(result)
    other = own if baseline is None else _threads(baseline)
    if None not in (own, other) and own != other:
        return f"threads differ: {own} against the baseline's {other}"
    if not interleaved:
        why = result.pairing.partition(": ")[2] or "the two were measured one after the other"
        return f"not interleaved: {why}"
    side = interferes(result.valid, result.delta_ratio) if design == ALTERNATED else None
    if side:
        return f"interleaving changes the {side}'s own speed: try protocol.pairing=adjacent"
    return ""


def _comparable(result: TrialResult) -> bool:
    right = result.parity is None or result.parity.passed
    return right and result.outcome is Outcome.OK


def _threads(result: TrialResult) -> Json:
    return result.valid[0].facts.get("threads") if result.valid else None
