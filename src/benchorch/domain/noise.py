"""Difference of a baseline from itself, with its cause."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Two runs of the baseline on the same inputs.

    Attributes:
        ratio: the largest relative L2 difference of an output; 0 where they are bit for bit equal.
        beyond_rounding: whether some value differs by more than float32's rounding explains.
        where: the worst output and input, for people; empty where nothing differs.
        causes: what changed between the two, e.g. ``torch's random generator advanced``.
    """

    ratio: float = 0.0
    beyond_rounding: bool = False
    where: str = ""
    causes: tuple[str, ...] = ()

    @property
    def is_random(self) -> bool:
        """Whether the model is not deterministic: by a known cause, or by more than rounding."""
        return bool(self.where) and (bool(self.causes) or self.beyond_rounding)

    @property
    def sentence(self) -> str:
        """Message for a model that is not deterministic."""
        why = "; ".join(self.causes[:3]) or ("cause unknown: perhaps global state, time or threads")
        return (
            f"the model is not deterministic: run twice on the same inputs, the baseline differs "
            f"from itself by {self.ratio:.2g} ({self.where}): {why}."
        )
