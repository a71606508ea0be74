"""Verdict on numerical parity: whether a conversion is still the same model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParity:
    """One output tensor against the baseline's, over all seeded inputs.

    Attributes:
        name: the output's position or name.
        shape: of the first input's output.
        dtype: as it was compared; half precision is widened before.
        max_abs: largest absolute difference.
        relative_l2_ratio: ``||y - ref|| / ||ref||``, the worst over the inputs.
        cosine_ratio: cosine similarity, the worst over the inputs.
        signal_to_noise_db: ``20 log10(||ref|| / ||y - ref||)``, the worst; None without noise.
        ulp_p50, ulp_p99: of how many representable numbers lie between two values, where both
            are of one floating dtype; the worst over the inputs.
        not_finite: how many values are NaN or infinite where the reference's are not.
        argmax_agreement_ratio: share of positions whose last-axis argmax agrees, or None.
        next_token_agreement_ratio: the same at the last position of sequences alone, for scores
            of a language model's tokens; otherwise None.
        top_k_overlap_ratio: share of the likeliest five next tokens that are among the
            reference's, or None.
        referee_error_ratio: relative L2 error against eager float64, where that was kept.
        baseline_error_ratio: the baseline's own, against the same.
    """

    name: str
    max_abs: float
    relative_l2_ratio: float
    cosine_ratio: float
    argmax_agreement_ratio: float | None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    signal_to_noise_db: float | None = None
    ulp_p50: float | None = None
    ulp_p99: float | None = None
    not_finite: int = 0
    next_token_agreement_ratio: float | None = None
    top_k_overlap_ratio: float | None = None
    referee_error_ratio: float | None = None
    baseline_error_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Passed or failed, with reasons and numbers.

    Attributes:
        passed: whether every output stayed within its tolerance.
        reasons: one sentence for each violated rule; empty when passed.
        tolerance_ratio: the relative L2 error allowed.
        referee: which outputs passed only because eager float32 is itself as far from float64.
        metric: the user's own, as it was named; empty where there is none.
        score: what it gave.
        least_score: what it has to give; None where it does not decide.
        first_divergence: which module is the first to compute something else, where that was
            looked for and found.
    """

    passed: bool
    reasons: tuple[str, ...]
    outputs: tuple[OutputParity, ...]
    tolerance_ratio: float
    referee: tuple[str, ...] = ()
    metric: str = ""
    score: float | None = None
    least_score: float | None = None
    first_divergence: str = ""

    @property
    def explanation(self) -> str:
        """Every reason in one line, and where it began; empty when passed."""
        return f"{'; '.join(self.reasons)} {self.first_divergence}".strip()
