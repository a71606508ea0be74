"""Intervals, counts and trial names as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.units import format_ms

_VARYING = ("model", "workload", "hardware", "hardware_kind", "scenario", "axes")


def interval_text(estimate: Estimate) -> str:
    """``12.3 [12.1, 12.5]``, or the value alone where n allows no interval."""
    if estimate.low is None or estimate.high is None:
        return format_ms(estimate.value)
    low, high = format_ms(estimate.low), format_ms(estimate.high)
    return f"{format_ms(estimate.value)} [{low}, {high}]"


def varying_labels(labels: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The labels that differ between trials, besides the conversion."""
    return tuple(name for name in _VARYING if len({label.get(name) for label in labels}) > 1)


def cell_name(labels: Mapping[str, str], varying: Sequence[str]) -> str:
    """A trial's name in this plan: its conversion, and whatever else differs."""
    others = [labels[name] for name in varying if labels.get(name)]
    return " ".join([*others, labels["conversion"]])


def plural(count: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
