"""The prediction of a what-if: the period with the changes, and how far it may be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import final

NOT_MODELLED = (
    "caches and memory that work shares",
    "kernels that share a device's units and slow each other",
    "clock frequencies that change with the load",
    "the memory allocator",
    "another choice of kernels",
)
"""What really changes with a program and is taken to stay as it was."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Work whose share of the critical path changes; times of a period."""

    name: str
    before_ns: int
    after_ns: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A replay of the observed run with changes; times are those of one period, in ns.

    Attributes:
        name: of the what-if; `changes` has a sentence for each change.
        makespan_ns, predicted_ns: the period observed, and with the changes.
        low_ns, high_ns: a 90 % interval of it, see `interval`.
        causes, predicted_causes: shares of the critical path by cause, before and after.
        reasons: what the interval is made of, in ns.
        moved: what has more or less of the path than before, the largest difference first.
        notes: remarks of the changes.
        not_modelled: what the prediction takes to stay as it was.
    """

    name: str
    changes: tuple[str, ...]
    makespan_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    causes: Mapping[str, float]
    predicted_causes: Mapping[str, float]
    reasons: Mapping[str, int]
    moved: tuple[Moved, ...] = ()
    notes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = field(default=NOT_MODELLED)

    @property
    def change_ratio(self) -> float:
        """By how much of the period it gets longer; negative where it gets shorter."""
        return self.predicted_ns / self.makespan_ns - 1.0 if self.makespan_ns else 0.0

    @property
    def speedup(self) -> float:
        """The observed period over the predicted one."""
        return self.makespan_ns / self.predicted_ns if self.predicted_ns else float("inf")

    def as_mapping(self) -> dict[str, object]:
        """For ``whatif/<name>.json``, with what follows from it."""
        derived = {
            "change_ratio": self.change_ratio,
            "speedup": self.speedup if self.predicted_ns else None,
        }
        return {**asdict(self), **derived}
