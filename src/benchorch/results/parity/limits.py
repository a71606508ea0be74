"""Every constant of the comparison, and the limits that follow from a conversion's tolerance.

docs/measuring/parity.md has them in a table, with what each was calibrated on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FLOAT32_EPSILON = 2.0**-23
FLOAT64_EPSILON = 2.0**-52

LOW_PRECISION_RATIO = 1e-3
"""A conversion that allows more than this computes in less than float32."""

ROUNDING_EPSILONS = 8.0
"""Multiple of float32 epsilon, at a tensor's usual magnitude, that never fails."""

SAME_ROUNDING_RATIO = 1e-5
"""Two runs of the baseline that differ by more than this do not differ by rounding."""

SPREAD_EPSILONS = 16.0
"""Rounding in another order is spread over all values, and is no more than this multiple of epsilon
beside an output's usual value ..."""

SPREAD_FACTOR = 8.0
"""... while no value is more than so many times further off than the usual one."""

CENTRED_FACTOR = 5.0
"""The error against what varies may be so many times the tolerance ..."""

CENTRED_MOST = 0.7
"""... and never more than this: at 1 nothing of what varies is left."""

LEAST_VARYING = 8
"""An output of fewer values varies within itself by chance alone."""

SURVIVING_FACTOR = 25.0
"""The error of how channels vary from row to row may be so many times the tolerance: such
variation may be small beside what all rows share ..."""

SURVIVING_MOST = 0.7
"""... but most of it must survive."""

LOST_FACTOR = 5.0
"""The error of a single channel's variation may be so many times that of the usual channel, where
that is beyond the limit of any slice."""

TENTH_FACTOR = 4.0
"""The worst tenth of the slices may start at so many times the tolerance ..."""

TENTH_MOST = 0.7
"""... and never beyond this."""

WORST_FACTOR = 10.0
"""A single slice may be so many times the tolerance away ..."""

WORST_MOST = 0.75
"""... and never as wrong as this: zeros have 1, unrelated values 1.41, negated ones 2."""

WORST_MOST_OF_MANY = 1.2
"""Channels of single rows are so many and so small that one may be this wrong by chance."""

FAINT_RATIO = 0.1
"""Slices fainter than this part of the usual one are measured against that part of it."""

FAINT_SIGNAL_RATIO = 2.0**-16
"""Relative variation below which, in low precision, a value counts as constant."""

GROUP_GAP = 8.0
"""Neighbouring channels that differ by such a factor in size belong to different groups."""

FILL_LEAST = 1e4
"""A value that fills places which mean nothing, such as masked scores, is at least as large ..."""

FILL_FACTOR = 100.0
"""... and so many times larger than all others."""

FAR_LARGER_LEAST = 1e3
"""Values from this size on that are as many times larger than all others hide these: what a mask
has added -10000 to, for example."""

ALIKE_LEAST, ALIKE_FACTOR, ALIKE_RATIO = 50.0, 30.0, 1.25
"""So do smaller values, from this size on and so many times larger than all others, where none is
more than this ratio larger than another: a mask that adds -100."""

ROWS_SHARE, ROWS_LEAST = 0.1, 8
"""Rows of another size are judged by themselves where they are no fewer than this part of all, and
than so many: the values of few rows may be near zero by chance."""

NAMES_LEAST = 256.0
"""Whole numbers beside measured values in one output are ids where they are as large as this;
bfloat16 holds all smaller ones."""

GROUP_SHARE = 0.05
"""A group of fewer channels than this counts only where it is hardly ever exactly zero."""

REFEREE_FACTOR = 2.0
"""How much further from float64 than the baseline's float32 an output may be: its rounding errors
are another draw from the same distribution."""

REFEREE_MOST = 10.0
"""Multiple of the tolerance that float64's excuse allows at most ..."""

REFEREE_MOST_RATIO = 1e-2
"""... and never more than this: only float32's rounding is excused."""

NEAR_TIE_FACTOR = 4.0
"""Scores closer than so many tolerances of their row's spread may change places ..."""

MOVED_SCORE_FACTOR = 4.0
"""... and, in a row of which only the best are an output, than so many times the largest difference
between the conversion's and the reference's. Of rankings of 100 to 1,000 random scores with random
errors, at most 0.6 % of those that moved were beyond it, of five values or more."""

RANKED_LEAST = 0.5
"""Ids that repeat within a row are sorted by scores where more than this part of these differ from
the next: a mask's do not."""

DISAGREEING_RATIO = 0.01
"""Share of clear decisions that may differ."""

FLIPPED_MOST = 0.05
"""Maximum share of integers that may flip in low precision; otherwise the tolerance."""

FLIPPED_PLACE_MOST = 0.5
"""... but one position of the inner axes in no larger share of the rows of all inputs, and one of
two values in no larger share of the places where a side has it ..."""

LOST_VALUE_MOST = 0.9
"""... nor any value in a larger share than this of such places: a class may not vanish."""

UNDECIDED_MOST = 0.05
"""Share of whole numbers that the baseline's own rounding may decide; beyond it none is excused."""

QUANTITY_VALUES = 32
"""Whole numbers of fewer values are classes, whose neighbours may tie by chance alone."""

FEW_ROWS = 8
"""Minimum of rows for a statement about one position."""

DIVERGENCE_FACTOR = 3.0
"""Next-token distributions may diverge as far as logits that are so many tolerances away."""

RANK_LEAST = 0.9
"""Least rank correlation between the similarities of all pairs of embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLimits:
    """Error limits of a conversion with a tolerance.

    Attributes:
        tolerance_ratio: relative L2 of a whole tensor.
        asked_ratio: the conversion's own tolerance; smaller where float64 excuses more.
    """

    tolerance_ratio: float
    asked_ratio: float

    @classmethod
    def of(cls, tolerance_ratio: float) -> ErrorLimits:
        """Without any excuse."""
        return cls(tolerance_ratio=tolerance_ratio, asked_ratio=tolerance_ratio)

    def excused(self, baseline_error_ratio: float) -> ErrorLimits:
        """Limits if the baseline's own float32 is that far from float64; bounded by the factor."""
        # Two draws of the baseline's rounding: its own and the conversion's.
        needed = (1 + REFEREE_FACTOR) * baseline_error_ratio
        most = max(self.asked_ratio, min(REFEREE_MOST * self.asked_ratio, REFEREE_MOST_RATIO))
        return replace(self, tolerance_ratio=min(max(self.asked_ratio, needed), most))

    @property
    def low_precision(self) -> bool:
        """Whether the conversion computes in less than float32."""
        return self.asked_ratio > LOW_PRECISION_RATIO

    @property
    def centred_ratio(self) -> float:
        """Error against what varies within an output."""
        return self._limit(CENTRED_FACTOR, CENTRED_MOST)

    @property
    def surviving_ratio(self) -> float:
        """Error against what varies from row to row."""
        return self._limit(SURVIVING_FACTOR, SURVIVING_MOST)

    @property
    def tenth_ratio(self) -> float:
        """Error of nine slices of ten."""
        return self._limit(TENTH_FACTOR, TENTH_MOST)

    @property
    def worst_ratio(self) -> float:
        """Error of any slice."""
        return self._limit(WORST_FACTOR, WORST_MOST)

    @property
    def worst_of_many_ratio(self) -> float:
        """Error of any channel of a single row."""
        return self._limit(WORST_FACTOR, WORST_MOST_OF_MANY)

    def _limit(self, factor: float, most: float) -> float:
        """Multiple of the tolerance, capped; a larger tolerance is the user's choice for all."""
        tolerance = self.tolerance_ratio
        return 2 * tolerance if tolerance > most else min(factor * tolerance, most)
