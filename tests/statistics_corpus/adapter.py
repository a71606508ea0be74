"""What the judge asks of a tool: plain arrays in, plain numbers out.

The tool's side writes one class with these methods. A method that it does not have may raise
`NotImplementedError`: its cells are then reported as "not answered", never as met.

Units: durations in nanoseconds, ratios as plain factors (baseline / candidate: above 1 is
faster), limits as shares (0.02 is 2 %). An end of an interval that is not known is `nan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]
Outcome = Literal["passed", "regression", "cannot_tell"]


class Interval(NamedTuple):
    """An estimate; `low` and `high` are both `nan` where the interval is "not known yet"."""

    point: float
    low: float
    high: float


class Trial(NamedTuple):
    """One conversion: each process's steady median and its reference workload, in time order."""

    medians: Array
    references: Array


class Ratio(NamedTuple):
    """How many times faster than the baseline, with the verdict that is printed beside it."""

    ratio: float
    low: float
    high: float
    verdict: Verdict


class Table(NamedTuple):
    """One table: a verdict per candidate, the pairs each of them used, and who may be fastest.

    `best` holds indices of candidates, and -1 for the baseline: all that cannot be told from
    the fastest. A single member means that the table names a winner.
    """

    verdicts: Sequence[Verdict]
    used: Sequence[int]
    best: frozenset[int]


class Session(NamedTuple):
    """One stored session: per process the median, the smallest call and the reference workload."""

    medians: Array
    floors: Array
    references: Array


class Gate(NamedTuple):
    """A gate's outcome.

    `more`: for `cannot_tell`, how many further processes would tell; `inf` says that no number
    of processes would; `None` says nothing.
    """

    outcome: Outcome
    more: float | None


class Run(NamedTuple):
    """One process under load: when each query was due, and its response counted from then."""

    due: Array
    response: Array


class Adapter(Protocol):
    """The functions of the tool that the judge calls."""

    estimand: Literal["median", "geometric mean"]
    """What the headline is: of the process medians, their median or their geometric mean."""

    tail_estimand: Literal["pooled", "process"]
    """What p90 to p99.9 are: of all calls of all processes, or the median process's own."""

    def headline(self, trial: Trial, peers: Sequence[Trial]) -> Interval:
        """The p50 of a trial of `len(trial.medians)` processes at its final 95 %.

        `peers`: the other trials of the same run on the same machine (may be empty).
        """

    def headline_of_calls(self, series: Sequence[Array]) -> Interval:
        """The same from the calls of each process, everything in between included."""

    def modes(self, medians: Array) -> int:
        """Into how many groups the processes fall (1: none seen)."""

    def quantile(self, series: Sequence[Array], q: float) -> Interval | None:
        """A percentile per call with its interval; `None` where it is not given."""

    def throughput(self, series: Sequence[Array]) -> Interval | None:
        """Calls a second as 1/mean, with its interval; `None` where there is no mean."""

    def steady(self, series: Array) -> bool:
        """Whether this process reached a steady state."""

    def sides(self, processes: int) -> Flags:
        """For each process whether the candidate is loaded first, as a new run would draw it."""

    def ratio(self, pairs: Array, first: Flags) -> Ratio:
        """A comparison of one candidate with all of these pairs, no look before.

        `pairs`: processes x (candidate, baseline); `first`: where the candidate was loaded first.
        """

    def position(self, pairs: Array, first: Flags) -> Interval:
        """The effect of being loaded first: time as the first / time as the second."""

    def table(self, pairs: Array, first: Flags) -> Table:
        """Judge a table, stopping as the tool's rule stops.

        `pairs`: candidates x processes (the most there may be) x (candidate, baseline);
        `first`: candidates x processes. Only the first `used[i]` pairs of i may be looked at.
        """

    def schedule(self, trials: int, processes: int) -> Indices:
        """In which order the processes of a table run: trial numbers, each `processes` times."""

    def interferes(self, alone: Array, paired: Array) -> bool:
        """Whether a process's time in the pair differs from its time alone, at any look.

        Both hold one value per process, in the order in which they arrive.
        """

    def compare(self, old: Session, new: Session, history: Sequence[Session]) -> Ratio:
        """Two stored sessions: how many times faster the new one is."""

    def gate(self, old: Session, new: Session, limit: float, history: Sequence[Session]) -> Gate:
        """Whether the new session is slower than the old one by more than `limit`."""

    def duel(self, pairs: Array, floors: Array, first: Flags, limit: float) -> Gate:
        """Two versions in processes back to back: medians and floors as in `ratio`.

        `pairs` and `floors`: pairs x (new, old); `first`: where the new one ran first.
        """

    def response_quantile(self, runs: Sequence[Run], q: float) -> Interval | None:
        """A percentile of the response; `high` is `inf` for "at least `low`"."""
