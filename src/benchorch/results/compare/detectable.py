"""Differences that a calibrated machine can detect, with their rates, by statistic."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchorch.domain.certificate import EXTRA, Certificate
from benchorch.stats.detection import (
    POWER,
    DetectedShares,
    by_mean,
    by_median,
    found_by_pairs,
    smallest_apart,
    smallest_by_pairs,
)

STATISTICS = ("median", "floor")
INTERLEAVED, BACK_TO_BACK, APART = "interleaved", "back to back", "apart"
TESTS = (by_mean, by_median)
"""Tests of pairs for each of `STATISTICS`."""

DESIGNS = (INTERLEAVED, BACK_TO_BACK, APART)
COUNTS = (5, 8, 12, 18, 27)
"""Pairs of a comparison, or processes of either side."""

_SHOWN = 12
_SUMMED = {INTERLEAVED: STATISTICS[:1], BACK_TO_BACK: STATISTICS, APART: STATISTICS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Row of a calibration.

    Attributes:
        n: pairs.
        extra_ratio: what was added to one side's work.
        found: how often either verdict came.
    """

    design: str
    statistic: str
    n: int
    extra_ratio: float
    found: DetectedShares


def powers(certificate: Certificate) -> Iterator[Power]:
    """How often each known difference was found, for each number of pairs there is."""
    for design in (INTERLEAVED, BACK_TO_BACK):
        for place, statistic in enumerate(STATISTICS):
            groups = log_ratios(certificate, design, place)
            for n in COUNTS:
                for extra_ratio, values in zip(EXTRA, groups, strict=True):
                    found = found_by_pairs(values, n, TESTS[place])
                    if found is not None:
                        yield Power(
                            design=design,
                            statistic=statistic,
                            n=n,
                            extra_ratio=extra_ratio,
                            found=found,
                        )


def smallest(certificate: Certificate, design: str, statistic: str, n: int) -> float | None:
    """The least share of more work that is found in nine of ten comparisons of this kind.

    Args:
        n: pairs; or of processes measured apart, of either side.
    """
    place = STATISTICS.index(statistic)
    if design == APART:
        return smallest_apart([math.log(r[0].base[place]) for r in certificate.rounds], n)
    return smallest_by_pairs(log_ratios(certificate, design, place), n, TESTS[place])


def log_ratios(certificate: Certificate, design: str, place: int) -> Sequence[Sequence[float]]:
    """Logarithms of more work's time over less work's, a group for each of `EXTRA`.

    Interleaved, both are of one process; back to back, of two processes of one round.
    """
    groups: list[list[float]] = [[] for _ in EXTRA]
    for processes in certificate.rounds:
        for index, (one, group) in enumerate(zip(processes, groups, strict=True)):
            other = one if design == INTERLEAVED else processes[index - 1]
            group.append(math.log(one.more[place] / other.base[place]))
    return groups


def summary(certificate: Certificate) -> str:
    """The calibration in one line, for the end of every table."""
    shown = []
    for design, names in _SUMMED.items():
        shares = [(name, smallest(certificate, design, name, _SHOWN)) for name in names]
        known = [f"{percent(share)} by the {name}" for name, share in shares if share is not None]
        shown += [f"{design} {' and '.join(known)}"] if known else []
    called = false_verdicts(certificate)
    return (
        f"finds in {POWER:.0%} of cases with {_SHOWN} processes a side: {', '.join(shown)}; "
        f"identical work called different in {called:.1%} (doctor --calibrate, "
        f"{certificate.made_at[:10]})"
    )


def false_verdicts(certificate: Certificate) -> float:
    """How often identical work, interleaved, was called different by `_SHOWN` pairs."""
    same = log_ratios(certificate, INTERLEAVED, 0)[0]
    found = found_by_pairs(same, min(_SHOWN, len(same)))
    return sum(found) if found else math.nan


def too_fine(certificate: Certificate, limit_ratio: float, n: int) -> str:
    """Why a gate between sessions cannot keep to a limit here; empty where it can.

    Args:
        n: processes of either side.
    """
    count = max((k for k in COUNTS if k <= n), default=COUNTS[0])
    by_median = smallest(certificate, APART, "median", count)
    if by_median is None or by_median <= limit_ratio:
        return ""
    by_floor = smallest(certificate, APART, "floor", count)
    paired = {s: smallest(certificate, BACK_TO_BACK, s, count) for s in STATISTICS}
    others = [("the floor, latency_ms/p01", by_floor)]
    others += [(f"gate --against REV by the {name}", share) for name, share in paired.items()]
    known = [(name, share) for name, share in others if share is not None]
    able = [f"{name} ({percent(share)})" for name, share in known if share <= limit_ratio]
    least = min(known, key=lambda one: one[1])
    instead = (
        f"What could: {', '.join(able)}."
        if able
        else f"Nothing here can; least is seen by {least[0]} ({percent(least[1])})."
    )
    return (
        f"the limit of {percent(limit_ratio)} is below what medians of two sessions can tell on "
        f"this machine ({percent(by_median)} with {count} processes a side, calibrated "
        f"{certificate.made_at[:10]}). {instead}"
    )


def percent(share: float) -> str:
    """``2.3 %``."""
    return f"{100 * share:.2g} %" if share < 0.995 else "more than 100 %"
