"""Speedup of a trial over its baseline, or why there is no verdict."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison
from benchorch.domain.result import TrialResult
from benchorch.formatting import interval_text
from benchorch.stats.between_processes import primary_ns
from benchorch.stats.family import (
    EQUIVALENT,
    FASTER,
    SLOWER,
    UNDECIDED,
    Candidate,
    Standing,
    Terms,
    judged,
)
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
from benchorch.stats.ratio_test import (
    DELTA_RATIO,
    INCONCLUSIVE,
    compare,
    compare_pairs,
    paired_comparison,
)
from benchorch.stats.sequential_testing import CONVERGED

CONTROL_ALPHA = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a comparison rests on, before anything is concluded.

    Attributes:
        pairs: both sides' times in each process of the trial; empty where they were not paired.
        parts: where there was no steady state, the same for parts of the blocks, or at the levels
            that are worst for either side: a verdict that not all of them support is none.
        candidate_ns, baseline_ns: each process's primary metric, where there are no pairs.
        refusal: why there is no verdict whatever the numbers; empty where there may be one.
        looks: counts of pairs at which it was judged before; empty where it was not.
        alone: whether its stopping rule found it decided without knowing other candidates.
    """

    design: str
    pairs: Sequence[Pair] = ()
    parts: tuple[Sequence[Pair], ...] = ()
    candidate_ns: Sequence[float] = ()
    baseline_ns: Sequence[float] = ()
    refusal: str = ""
    looks: tuple[int, ...] = ()
    alone: bool = False
    delta_ratio: float


def question(result: TrialResult, baseline: TrialResult | None) -> Question | None:
    """Comparison to make; None for a baseline, and if either side lacks data.

    A trial under load has not: its times are its queue's as much as its own.

    Args:
        baseline: its result, or None where there is none (yet): pairs alone can do without it.
    """
    if result.baseline_id is None or (baseline and baseline.trial_id == result.trial_id):
        return None
    if not (result.is_sound and (baseline is None or baseline.is_sound)):
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
        looks=result.stop_looks,
        alone=result.stop_reason == CONVERGED,
        delta_ratio=result.delta_ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Comparisons of the candidates of one baseline.

    Attributes:
        comparisons: of each candidate that has a ratio, by its name.
        best: the names of all that cannot be told from the fastest, the baseline's among them
            where it may be; empty where nothing could be judged.
        judged: names of the candidates that could be judged; others were refused a verdict.
    """

    comparisons: Mapping[str, Comparison]
    best: tuple[str, ...] = ()
    judged: frozenset[str] = frozenset()


def answered_alone(case: Question) -> Comparison | None:
    """The comparison of one trial with its baseline, read alone."""
    return answers({"": case}, "baseline").comparisons.get("")


def answers(questions: Mapping[str, Question], baseline: str) -> Answers:
    """The comparisons of one table, as one family.

    A verdict needs its interval, and intervals, verdicts and the set of best err together in one
    of twenty tables (`stats.family`). Comparisons that are refused a verdict count for nothing:
    they cannot be won by chance.

    Args:
        baseline: its name.
    """
    judged_ones = {name: one for name, one in questions.items() if one.pairs and not one.refusal}
    terms = _terms(questions.values(), baseline)
    family = judged([_candidate(*one) for one in judged_ones.items()], terms)
    alpha = terms.contrast_alpha(len(judged_ones))
    found = {
        standing.name: _answer(judged_ones[standing.name], standing, alpha)
        for standing in family.standings
    }
    withheld = {
        standing.name
        for standing in family.standings
        if standing.verdict != UNDECIDED and found[standing.name].verdict == INCONCLUSIVE
    }
    for name, case in questions.items():
        refused = None if name in found else _compared(case, case.pairs, alpha)
        if refused is not None:
            found[name] = _withheld(refused, case.refusal)
    return Answers(
        comparisons={name: found[name] for name in questions if name in found},
        best=tuple(sorted(_best(judged_ones, terms, withheld))) if judged_ones else (),
        judged=frozenset(judged_ones),
    )


def _best(judged_ones: Mapping[str, Question], terms: Terms, withheld: Set[str]) -> Set[str]:
    """The set of best; what was given no verdict beats nothing, and may itself be the best."""
    others = [_candidate(*one) for one in judged_ones.items() if one[0] not in withheld]
    return judged(others, replace(terms, planned=len(judged_ones))).best | withheld


def control(result: TrialResult) -> Comparison | None:
    """A/A control: a baseline against a copy of itself, at 99 %; None without one.

    It is a check of the method and no claim of the table, so it takes no part in the family. At
    1 % one control of a hundred fails by luck.
    """
    paired = pairs(result.valid) if result.is_control else []
    if not paired:
        return None
    return compare_pairs(
        paired, design_of(result.valid), delta_ratio=result.delta_ratio, alpha=CONTROL_ALPHA
    )


def control_warnings(result: TrialResult) -> Iterator[str]:
    """Warnings that a copy of the baseline differs from the baseline."""
    found = control(result)
    if found is None or found.verdict not in ("faster", "slower"):
        return
    times = interval_text(found.ratio)
    yield (
        f"The A/A control failed: a second copy of the baseline ran at {times} times its speed. "
        "Differences of that size are the method's, not a conversion's: try "
        "protocol.pairing=adjacent, or a quieter machine."
    )


def _terms(questions: Collection[Question], baseline: str) -> Terms:
    """Error levels of the family: those of its most careful member."""
    return Terms(
        baseline=baseline,
        delta_ratio=min((one.delta_ratio for one in questions), default=DELTA_RATIO),
        looks=max((one.looks for one in questions), key=len, default=()),
    )


def _candidate(name: str, case: Question) -> Candidate:
    ratios = tuple(pair.log_ratio for pair in case.pairs)
    return Candidate(name=name, log_ratios=ratios, alone=case.alone)


def _answer(case: Question, standing: Standing, alpha: float) -> Comparison:
    """The ratio and its verdict, if all that was observed supports it."""
    found = paired_comparison(
        standing, case.pairs, design=case.design, delta_ratio=case.delta_ratio
    )
    if not case.parts or found.verdict == INCONCLUSIVE:
        return found
    parts = [_compared(case, part, alpha) for part in case.parts]
    lacking = [part for part in parts if not _supports(part, found.verdict, case)]
    if lacking:
        more = _pairs_to_support(found.verdict, case.delta_ratio, lacking)
        return _withheld(found, "no steady state while the two were compared", more)
    return replace(found, reason="not steady, but all that was observed supports it")


def _supports(part: Comparison | None, verdict: str, case: Question) -> bool:
    """Whether a part has the verdict too.

    Of the worst levels their direction is enough for a difference, though not for equivalence:
    they are the most extreme of several, which noise alone drives apart.
    """
    if part is None:
        return False
    if case.design == ADJACENT and verdict != EQUIVALENT:
        return _points_to(part.ratio.value, case.delta_ratio) == verdict
    return part.verdict == verdict


def _pairs_to_support(
    verdict: str, delta_ratio: float, lacking: Sequence[Comparison | None]
) -> int | None:
    """Further pairs predicted to let every part support the verdict; None where one contradicts."""
    needed = [
        part.pairs_needed
        for part in lacking
        if part and part.pairs_needed and _points_to(part.ratio.value, delta_ratio) == verdict
    ]
    return max(needed) if len(needed) == len(lacking) else None


def _points_to(ratio: float, delta_ratio: float) -> str:
    """The verdict on a ratio that is known exactly."""
    if abs(math.log(ratio)) < math.log1p(delta_ratio):
        return EQUIVALENT
    return FASTER if ratio > 1 else SLOWER


def _withheld(found: Comparison, reason: str, pairs_needed: int | None = None) -> Comparison:
    """The same numbers without a verdict.

    Args:
        pairs_needed: further pairs that may bring one; None where none would.
    """
    return replace(
        found,
        verdict=INCONCLUSIVE,
        reason=reason,
        material=False,
        pairs_needed=pairs_needed,
        adjusted_p_value=None,
    )


def _parts(result: TrialResult, design: str) -> tuple[Sequence[Pair], ...]:
    """Interleaving cancels what the machine does, so there only the ratio has to hold still."""
    if design == ADJACENT:
        found = extremes(result.valid)
        return found if all(found) else ()
    moving = design == ALTERNATED and moves(result.valid, result.delta_ratio)
    return halves(result.valid) if moving else ()


def _compared(case: Question, chosen: Sequence[Pair], alpha: float) -> Comparison | None:
    delta = case.delta_ratio
    if case.pairs:
        return compare_pairs(chosen, case.design, delta_ratio=delta, alpha=alpha)
    return compare(case.candidate_ns, case.baseline_ns, delta_ratio=delta, alpha=alpha)


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


def _threads(result: TrialResult) -> Json:
    return result.valid[0].facts.get("threads") if result.valid else None
