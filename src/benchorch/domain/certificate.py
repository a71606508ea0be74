"""Results of comparing identical and slightly slower work on one machine."""

from dataclasses import dataclass

EXTRA = (0.0, 0.01, 0.02, 0.05)
"""Shares of extra work injected into one side of a process; 0 is the A/A comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """Times of one process in which work and slightly more work were interleaved, ns per call.

    Attributes:
        more: median and first percentile of the side that may have more to do.
        base: of the other.
    """

    more: tuple[float, float]
    base: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A calibration of one machine.

    Attributes:
        made_at: ISO 8601 in UTC.
        host, cpu_model: the machine.
        rounds: each a process for every one of `EXTRA`, back to back.
    """

    made_at: str
    host: str
    cpu_model: str
    rounds: tuple[tuple[Interleaving, ...], ...]
    schema_version: int = 1

    def is_of(self, host: object, cpu_model: object) -> bool:
        """Whether it was made on this machine."""
        return (self.host, self.cpu_model) == (host, cpu_model)
