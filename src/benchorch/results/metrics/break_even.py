"""Break-even: the number of calls after which a build has paid for itself."""

import math
from collections.abc import Iterator
from dataclasses import replace

from benchorch.domain.estimate import Estimate
from benchorch.domain.result import TrialResult
from benchorch.stats.between_processes import over_processes, primary_ns
from benchorch.stats.interval_arithmetic import quotient, scaled, total
from benchorch.stats.pairs import pairs
from benchorch.units import ns_to_s


def break_even(result: TrialResult, baseline: TrialResult | None) -> Estimate | None:
    """After how many calls the time that building took is won back against the baseline.

    Estimator: seconds of the build when it was made, over seconds saved by a query, times the
    calls of a query; the interval is that of what is saved, turned over. There is none where it
    reaches 0, and no number where nothing is saved, nothing was built, the outputs are wrong, or
    queries arrive by a schedule; nor for unpaired sides that were not steady.
    """
    built_s, saved = _built_s(result), _saved_s(result, baseline)
    if built_s is None or saved is None or saved.value <= 0:
        return None
    found = quotient(built_s * result.valid[0].observations.calls_per_query, saved)
    return replace(
        found,
        low=None if found.high is None else found.low,
        unit="calls",
        method=f"build time over time saved a call; {saved.method}",
    )


def break_even_warnings(result: TrialResult, baseline: TrialResult | None) -> Iterator[str]:
    """Warnings that building never pays off, or may never."""
    built_s, saved = _built_s(result), _saved_s(result, baseline)
    if built_s is None or saved is None:
        return
    took = f"The {built_s:.3g} s of its build"
    if saved.high is not None and saved.high <= 0:
        yield f"{took} never pay off: it is not faster than the baseline."
    elif _most(saved) <= 0:
        yield f"{took} may never pay off: in no process was it faster than the baseline."
    elif _least(saved) <= 0:
        yield f"{took} may never pay off: what a query saves cannot be told from nothing."


def _least(saved: Estimate) -> float:
    """Smallest saving: by the interval, or without one by the observed values."""
    if saved.low is not None:
        return saved.low
    return saved.value if saved.seen is None else saved.seen[0]


def _most(saved: Estimate) -> float:
    """Largest saving, in the same way; of a single process nothing is known."""
    if saved.high is not None:
        return saved.high
    return math.inf if saved.seen is None or saved.n < 2 else saved.seen[1]


def _built_s(result: TrialResult) -> float | None:
    """Original build time; None without a build, or for wrong outputs."""
    build = result.build
    if build is None or build.original_build_s <= 0 or result.disagrees:
        return None
    return build.original_build_s


def _saved_s(result: TrialResult, baseline: TrialResult | None) -> Estimate | None:
    """Seconds by which a query is shorter than the baseline's; from pairs where there are some."""
    if any(process.observations.scheduled_ns for process in result.valid):
        return None
    paired = [] if result.is_control else pairs(result.valid)
    if paired:
        saved = [ns_to_s(pair.theirs - pair.ours) for pair in paired]
        return over_processes(saved, unit="s")
    if baseline is None or baseline.trial_id == result.trial_id:
        return None
    if not (_steady(result) and _steady(baseline)):
        return None
    return _difference(_headline_s(baseline), _headline_s(result))


def _steady(result: TrialResult) -> bool:
    return all(process.steady_from is not None for process in result.valid)


def _headline_s(result: TrialResult) -> Estimate | None:
    headlines = [ns_to_s(primary_ns(process)) for process in result.valid]
    return over_processes(headlines, unit="s")


def _difference(first: Estimate | None, second: Estimate | None) -> Estimate | None:
    """The first less the second, independent of each other."""
    if first is None or second is None:
        return None
    found = total([first, scaled(second, -1.0)])
    assert found is not None  # of two
    seen = None
    if first.seen and second.seen:
        seen = (first.seen[0] - second.seen[1], first.seen[1] - second.seen[0])
    return replace(found, method="difference of independent medians; MOVER", seen=seen)
