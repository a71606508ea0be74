"""Earlier sweeps on launched machines, this machine's or the account's: cost and durations.

Each leaves ``cost.json`` in its run's directory, which is archived with the run; so a stack's
bucket has those of everybody who uses it.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import decode, encode
from benchorch.domain.spending import HEAD_KIND
from benchorch.errors import StoreError
from benchorch.executors.scheduling.duration_forecast import PastTrial, journal_lines, past_trials
from benchorch.files import read_json, write_json
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.registry import newest_invocations, state_directory
from benchorch.journal.run_directory import COST
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from benchorch.stores.objects import Objects

MOST_SWEEPS = 20
"""How many earlier sweeps are read, the newest first."""

_READY = {HEAD_KIND: "the sweep"}

_MOST_BYTES = 2_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCost:
    """The cost of one sweep's launched machines, and what it was expected to be.

    Attributes:
        launch_s: by kind, from a machine's launch to its first trial, where that was observed; of
            `HEAD_KIND` until it took the sweep, as whoever sent it observed.
        trials: that were measured.
        simulated: whether the machines were.
    """

    expected_usd: float | None
    spent_usd: float
    launch_s: Mapping[str, float]
    trials: tuple[PastTrial, ...] = ()
    simulated: bool = False

    @property
    def text(self) -> str:
        """For people."""
        usd = self.expected_usd
        expected = "" if usd is None else f"; {usd:.2f} were expected to their end"
        boots = "".join(
            f"; {kind} took {format_seconds(s)} from launch to {_READY.get(kind, 'first trial')}"
            for kind, s in sorted(self.launch_s.items())
        )
        machines = "The simulated machines" if self.simulated else "The machines"
        return f"{machines} cost {self.spent_usd:.2f} USD so far{expected}{boots}."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHistory:
    """Earlier sweeps, the newest first.

    Attributes:
        sent: those that this machine has sent, where `sweeps` are the account's: only they have
            how long a head took.
    """

    sweeps: Sequence[SweepCost] = ()
    sent: Sequence[SweepCost] = ()

    def launches_s(self) -> Mapping[str, Sequence[float]]:
        """Seconds from launch to first trial, by kind."""
        found: dict[str, list[float]] = {}
        for sweep in self.sweeps:
            for kind, seconds in sweep.launch_s.items():
                found.setdefault(kind, []).append(seconds)
        heads = [one.launch_s[HEAD_KIND] for one in self.sent if HEAD_KIND in one.launch_s]
        return found | ({HEAD_KIND: heads} if heads else {})

    def launch_s(self) -> Mapping[str, float]:
        """The median of each kind."""
        return {kind: statistics.median(seconds) for kind, seconds in self.launches_s().items()}

    def trials(self) -> Iterator[PastTrial]:
        """Trials of all sweeps."""
        return (trial for sweep in self.sweeps for trial in sweep.trials)


def write_cost(
    directory: Path,
    *,
    expected_usd: float | None,
    spent_usd: float,
    launch_s: Mapping[str, float],
    simulated: bool,
) -> SweepCost:
    """Leave a sweep's cost in its run's directory; OSError."""
    cost = SweepCost(
        expected_usd=expected_usd,
        spent_usd=spent_usd,
        launch_s=launch_s,
        trials=tuple(past_trials(journal_lines(directory))),
        simulated=simulated,
    )
    write_json(directory / COST, encode(cost))
    return cost


def sweep_history(url: str | None) -> SweepHistory:
    """Earlier sweeps on real machines, by an account's archive of runs, else of this machine.

    Args:
        url: ``s3://bucket/prefix`` of the archive; None where there is none.
    """
    archived = _archived(url) if url else ()
    local = tuple(filter(None, map(_local, newest_invocations(MOST_SWEEPS))))
    found = archived or local
    return SweepHistory(
        sweeps=tuple(sweep for sweep in found if not sweep.simulated),
        sent=local if archived else (),
    )


def _local(directory: Path) -> SweepCost | None:
    with suppress(OSError, *UNREADABLE):
        return decode(SweepCost, read_json(directory / COST))
    return None


@cache
def _archived(url: str) -> tuple[SweepCost, ...]:
    """Archived costs, by one request and one more per sweep that is not cached here."""
    from benchorch.stores.objects import bucket_at

    seen = state_directory() / "costs" / hashlib.sha256(url.encode()).hexdigest()[:16]
    try:
        place = bucket_at(url)
        names = sorted(place.folders(""), reverse=True)[:MOST_SWEEPS]
        found = [_local(seen / name) or _read(place, name, seen / name) for name in names]
    except StoreError:  # the estimate does without
        return ()
    return tuple(sweep for sweep in found if sweep)


def _read(place: Objects, name: str, copy: Path) -> SweepCost | None:
    """A sweep's cost in the archive, kept for the next time; None before its end."""
    content = place.read(f"{name}/{COST}", _MOST_BYTES)
    if content is None:
        return None
    with suppress(*UNREADABLE):
        cost = decode(SweepCost, json.loads(content.data))
        with suppress(OSError):
            copy.mkdir(parents=True, exist_ok=True)
            write_json(copy / COST, encode(cost))
        return cost
    return None
