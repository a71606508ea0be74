"""Numbers of programs by default and in the slow suite."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def each_of(seeds: range, by_default: int) -> list[ParameterSet]:
    """A test for every seed; all but the first few are slow."""
    return [
        pytest.param(seed, marks=[pytest.mark.slow] if place >= by_default else [])
        for place, seed in enumerate(seeds)
    ]


def all_of(seeds: range, by_default: int) -> list[ParameterSet]:
    """A test for the first few together, and a slow one for all."""
    return [
        pytest.param(seeds[:by_default], id=f"{by_default} programs"),
        pytest.param(seeds, id=f"{len(seeds)} programs", marks=pytest.mark.slow),
    ]
