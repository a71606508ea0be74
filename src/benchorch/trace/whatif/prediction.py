"""The prediction of a what-if, with its interval and its limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from benchorch.domain.codec import decode, encode
from benchorch.trace.whatif.sweep import SensitivitySweep

NOT_MODELLED = (
    "caches and memory that work shares",
    "clock frequencies that change with the load",
    "the memory allocator",
    "another choice of kernels",
)
"""What really changes with a program and is taken to stay as it was."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Work whose share of the critical path changes."""

    name: str
    before_ns: int
    after_ns: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A replay of the observed run with changes; times are integer nanoseconds.

    Attributes:
        name: of the what-if; `changes` has a sentence for each change.
        makespan_ns, predicted_ns: observed, and with the changes.
        low_ns, high_ns: what else it could be: if unexplained time is taken out of both runs
            instead of kept in both and, for some changes, if all goes well.
        classes, predicted_classes: time on the critical path by class, before and after.
        tiers: time on the new path by how well its dependencies are known.
        moved: what has more or less of the path than before, the largest difference first.
        bound_path, bound_work: the speedup that the work's path time, and all of its time, allow
            at most by Amdahl's law; None where they set no limit.
        notes: remarks of the changes.
        not_modelled: what the prediction takes to stay as it was.
        sweep: of one speedup, what others would bring, on request.
    """

    name: str
    changes: tuple[str, ...]
    makespan_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    classes: Mapping[str, int]
    predicted_classes: Mapping[str, int]
    tiers: Mapping[str, int]
    moved: tuple[Moved, ...] = ()
    bound_path: float | None = None
    bound_work: float | None = None
    notes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = field(default=NOT_MODELLED)
    sweep: SensitivitySweep | None = None

    @property
    def change_ratio(self) -> float:
        """By how much of the makespan it gets longer; negative where it gets shorter."""
        return self.predicted_ns / self.makespan_ns - 1.0 if self.makespan_ns else 0.0

    @property
    def speedup(self) -> float:
        """The observed makespan over the predicted one."""
        return self.makespan_ns / self.predicted_ns if self.predicted_ns else float("inf")

    @property
    def confidence_ratio(self) -> float:
        """The share of the new path on dependencies that are recorded or follow from meaning."""
        known = self.tiers.get("recorded", 0) + self.tiers.get("semantic", 0)
        return known / self.predicted_ns if self.predicted_ns else 1.0

    @property
    def moved_onto(self) -> tuple[Moved, ...]:
        """What is on the new path only."""
        return tuple(one for one in self.moved if not one.before_ns)

    @property
    def moved_off(self) -> tuple[Moved, ...]:
        """What was on the old path only."""
        return tuple(one for one in self.moved if not one.after_ns)


def to_json(prediction: Prediction) -> str:
    """For ``whatif/<name>.json``, with what follows from it."""
    said = encode(prediction)
    assert isinstance(said, Mapping)
    derived = {
        "change_ratio": prediction.change_ratio,
        "speedup": prediction.speedup if prediction.predicted_ns else None,
        "confidence_ratio": prediction.confidence_ratio,
    }
    return json.dumps({**said, **derived}, indent=2)


def from_json(text: str) -> Prediction:
    """What `to_json` wrote."""
    return decode(Prediction, json.loads(text))
