"""Measurement protocol: how strictly a trial is measured, apart from what and how much."""

from dataclasses import dataclass

from benchorch.errors import check_options

INPUT_SETS = 8
"""Distinct inputs rotate through the calls, so that neither caches nor branch history replay one,
and no conversion is judged on one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The ``protocol`` node of a trial.

    Attributes:
        pin: whether processes are pinned to as many physical cores as they have threads.
        canary_tolerance_ratio: how much slower than before its trial's first process the
            reference workload may be around a process that counts, where `repeats` allows to
            reject; None runs none.
        repeats: how many rejected repetitions of a trial are measured again at most; with 0, and
            where there would be more, all count.
        pairing: ``auto`` (interleaved inside processes; back-to-back processes where that
            interferes), ``alternated`` (interleaved), ``adjacent`` (back to back) or ``none``.
        pair_window_s: seconds in which one process is interleaved with its baseline.
        slice_ms: how long one of the two runs before the other.
        delta_ratio: equivalence margin: differences up to this share are not practically
            significant.
        split_passes: how often the copying stages are timed apart, in a trial's first process that
            counts; 0 is never.
        cold_caches: whether caches are flushed before every block: another metric.
        tf32: whether GPUs may round the operands of float32 products and convolutions to 10 bits
            of mantissa (TensorFloat-32), in every runtime alike.
        energy_windows: windows of uninterrupted calls under the energy counter; 0 is none.
        energy_window_s: seconds of each, and of the idle baseline before them.
    """

    pin: bool = True
    canary_tolerance_ratio: float | None = 0.02
    repeats: int = 0
    pairing: str = "auto"
    pair_window_s: float = 0.5
    slice_ms: float = 20.0
    delta_ratio: float = 0.01
    split_passes: int = 10
    cold_caches: bool = False
    tf32: bool = False
    energy_windows: int = 0
    energy_window_s: float = 10.0

    def __post_init__(self) -> None:
        rules = {
            "canary_tolerance_ratio: above 0, or null": (
                self.canary_tolerance_ratio is None or self.canary_tolerance_ratio > 0
            ),
            "repeats: at least 0": self.repeats >= 0,
            f"pairing: one of {', '.join(PAIRINGS)}": self.pairing in PAIRINGS,
            "pair_window_s: above 0": self.pair_window_s > 0,
            "slice_ms: above 0": self.slice_ms > 0,
            "delta_ratio: between 0 and 1": 0 < self.delta_ratio < 1,
            "split_passes: at least 0": self.split_passes >= 0,
            "energy_windows: at least 0": self.energy_windows >= 0,
            "energy_window_s: above 0": self.energy_window_s > 0,
        }
        check_options(self, rules)


PAIRINGS = ("auto", "alternated", "adjacent", "none")
