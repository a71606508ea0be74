"""Verdict on numerical parity: whether a conversion is still the same model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from benchorch.domain.bounds import Count, Positive


class Kind(StrEnum):
    """Result of the comparison with the baseline."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_DETERMINISTIC = "not_deterministic"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceParity:
    """The worst of one way to cut an output into slices.

    Attributes:
        cut: for people, e.g. ``row`` or ``channel on axis 1``.
        allowed_ratio: the error allowed to nine slices of ten.
        tenth_ratio: the error of the worst tenth's best slice.
        worst_ratio: of the worst slice.
        worst: which one that is, e.g. ``row 3 of input 0``.
    """

    cut: str
    allowed_ratio: float
    tenth_ratio: float
    worst_ratio: float
    worst: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParity:
    """One output tensor against the baseline's, over all seeded inputs.

    Attributes:
        name: the output's path in what the model returns, e.g. ``logits`` or ``past.0.1``.
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
        centred_ratio: the error against the reference's own variation, without what all elements
            have in common; the worst over the inputs; None where nothing varies.
        slices: the error of its rows, channels and tokens.
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
    centred_ratio: float | None = None
    slices: tuple[SliceParity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenParity:
    """Generated tokens against the baseline's, each scored after the same text.

    Attributes:
        positions: how many were compared, over all sequences of all inputs.
        agreeing: at how many of them the likeliest token is the same.
        first_divergence: the first position, from 0, where it is not, and the number of its input;
            None where there is none.
        divergence_nats: of the next token's distribution, Kullback-Leibler, at each position, mean
            over sequences.
        perplexity, baseline_perplexity: on the user's text; None without one.
    """

    positions: Positive
    agreeing: Count
    first_divergence: int | None = None
    first_divergence_input: int | None = None
    divergence_nats: tuple[float, ...] = ()
    perplexity: float | None = None
    baseline_perplexity: float | None = None

    @property
    def mean_divergence_nats(self) -> float:
        """Over all positions."""
        return sum(self.divergence_nats) / len(self.divergence_nats)

    @property
    def sentence(self) -> str:
        """The same for people."""
        place = "no position differs"
        if self.first_divergence is not None:
            place = (
                f"the first that differs is token {self.first_divergence} of input "
                f"{self.first_divergence_input}"
            )
        found = (
            f"greedy tokens agree at {self.agreeing} of {self.positions} positions; {place}; "
            f"KL divergence {self.mean_divergence_nats:.3g} nats, at most "
            f"{max(self.divergence_nats):.3g} at a position"
        )
        if self.perplexity is None:
            return found
        return f"{found}; perplexity {self.perplexity:.6g}, baseline {self.baseline_perplexity:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Passed or failed, with reasons and numbers.

    Attributes:
        passed: whether every rule was kept; true only where `kind` is ``agrees``.
        kind: why not; follows from `passed` where nothing else was stored.
        reasons: one sentence for each violated rule; empty when passed.
        tolerance_ratio: the relative L2 error allowed.
        referee: which outputs passed only because eager float32 is itself as far from float64.
        metric: the user's own, as it was named; empty where there is none.
        score: what it gave.
        least_score: what it has to give; None where it does not decide.
        first_divergence: which module is the first to compute something else, where that was
            looked for and found.
        task: by whose rules it was judged besides; empty for none.
        noise_ratio: by how much the baseline differs from itself, relative L2; 0 where it is
            bit for bit the same, None where it ran only once.
        notes: what was seen and is no reason to fail.
        unwritten: inputs that eager writes in place otherwise than the conversion does, each with a
            sentence, where that is no reason to fail.
        tokens: figures of generated tokens; None where none were generated.
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
    kind: Kind | None = None
    task: str = ""
    noise_ratio: float | None = None
    notes: tuple[str, ...] = ()
    unwritten: Mapping[str, str] = field(default_factory=dict)
    tokens: TokenParity | None = None

    def __post_init__(self) -> None:
        if self.kind is None:
            found = Kind.AGREES if self.passed else Kind.DIFFERS
            object.__setattr__(self, "kind", found)

    def not_deterministic(self, reason: str, noise_ratio: float | None = None) -> "Verdict":
        """The verdict on a model with which nothing can be compared."""
        return replace(
            self,
            passed=False,
            kind=Kind.NOT_DETERMINISTIC,
            reasons=(reason,),
            noise_ratio=noise_ratio,
        )

    @property
    def explanation(self) -> str:
        """Every reason in one line, and where it began; empty when passed."""
        return " ".join((*self.reasons, self.first_divergence)).strip()
