"""Is it still the same model?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParity:
    """One output tensor against the baseline's, over all seeded inputs.

    Attributes:
        name: the output's position or name.
        max_abs: largest absolute difference.
        relative_l2_ratio: ``||y - ref|| / ||ref||``, the worst over the inputs.
        cosine_ratio: cosine similarity, the worst over the inputs.
        argmax_agreement_ratio: share of positions whose last-axis argmax agrees, or None.
    """

    name: str
    max_abs: float
    relative_l2_ratio: float
    cosine_ratio: float
    argmax_agreement_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Passed or failed, with reasons and numbers.

    Attributes:
        passed: whether every output stayed within its tolerance.
        reasons: one sentence for each violated rule; empty when passed.
        tolerance_ratio: the relative L2 error allowed.
    """

    passed: bool
    reasons: tuple[str, ...]
    outputs: tuple[OutputParity, ...]
    tolerance_ratio: float
