"""Is what the conversion computes still what eager computes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.analysis.parity import parity
from benchorch.domain.verdict import Verdict

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray


def verify(
    outputs: Sequence[Mapping[str, NDArray[generic]]],
    references: Sequence[Mapping[str, NDArray[generic]]],
    tolerance_ratio: float,
) -> Verdict:
    """The verdict on a conversion's outputs for the same seeded inputs as the references'.

    A wrong number is a `Verdict`, never an error: the trial goes on and is shown as disqualified.
    """
    return parity(outputs, references, tolerance_ratio)
