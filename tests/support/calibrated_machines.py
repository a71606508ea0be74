"""Calibrations of machines that are made up."""

from __future__ import annotations

import math

import numpy as np

from benchorch.domain.certificate import EXTRA, Certificate, Interleaving


def machine(
    *,
    process_sd: float,
    floor_sd: float = 0.001,
    rounds: int = 40,
    host: str = "here",
    cpu_model: str = "cpu",
) -> Certificate:
    """Processes differ by `process_sd`, which the two sides of a process share."""
    rng = np.random.default_rng(1)

    def process(extra: float) -> Interleaving:
        level, floor = 1e5 * math.exp(process_sd * rng.standard_normal()), 9e4
        sides = [
            (
                level * (1 + more) * math.exp(0.002 * rng.standard_normal()),
                floor * (1 + more) * math.exp(floor_sd * rng.standard_normal()),
            )
            for more in (extra, 0.0)
        ]
        return Interleaving(more=sides[0], base=sides[1])

    return Certificate(
        made_at="2026-11-23T10:00:00+00:00",
        host=host,
        cpu_model=cpu_model,
        rounds=tuple(tuple(process(extra) for extra in EXTRA) for _ in range(rounds)),
    )
