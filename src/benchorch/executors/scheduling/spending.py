"""Spending meter: what the launched machines have cost, and what the budget still allows.

The budget is kept three times: no machine is launched and no trial is begun whose expected cost
would pass it, and when it is reached everything ends. Without a limit only the cost is metered.

Pure bookkeeping: no clock, no network.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from benchorch.domain.price import Market, PriceSnapshot, usd_of
from benchorch.domain.result import Failure
from benchorch.domain.spending import BUDGET_REACHED, Spending, SpendingRules
from benchorch.executors.scheduling.cluster_file import Placement

LAUNCH_S = 300.0
"""Assumed from the launch of a machine to its first trial, where none was observed before."""

IDLE_S = 300.0
"""A stack's machine is terminated so long after its last trial (`idle_minutes`)."""

HEAD_START_S = 180.0
"""Assumed from the launch of a stack's head until it takes a sweep, where none was observed."""

HEAD_IDLE_S = 1800.0
"""A stack's head ends so long after its last sweep (`head_idle_minutes`)."""

BESIDES_USD_PER_HOUR = 0.04
"""Hourly extras of a machine: public IPv4 address (0.005) and 100 GiB of fast gp3."""

END_S = 60.0
"""A machine may be billed for so long after its end was requested."""

REPORT_S = 10.0
"""How often the spending is reported while it grows."""

_REMEDY = "Finished results are kept. Raise budget.max_usd and run it again with resume=."


@final
@dataclass(slots=True, kw_only=True)
class SpendingMeter:
    """The spending of one sweep.

    Attributes:
        usd: so far, with what was spent before the sweep was resumed.
    """

    rules: SpendingRules = field(default_factory=SpendingRules)
    prices: PriceSnapshot | None = None
    usd: float = field(init=False)
    _machines: Mapping[Placement, int] = field(default_factory=dict)
    _observed_s: float | None = None
    _ends_s: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    _launched_s: dict[str, float] = field(default_factory=dict)
    _launch_s: dict[str, float] = field(default_factory=dict)
    _reported: Spending | None = None
    _reported_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.usd = self.rules.spent_usd

    def observe(self, now_s: float, machines: Mapping[Placement, int]) -> None:
        """Count the time since the last observation, at what ran then.

        Args:
            now_s: a monotonic time in seconds.
            machines: that are billed now, booting ones included.
        """
        if self._observed_s is not None:
            self.usd += usd_of(now_s - self._observed_s, self._usd_per_hour())
        kinds = {placement.kind for placement, count in machines.items() if count}
        begin_s = now_s if self._observed_s is not None else -math.inf  # it may be there for hours
        self._launched_s = {kind: self._launched_s.get(kind, begin_s) for kind in kinds}
        self._observed_s, self._machines = now_s, machines

    def begin(self, trial_id: str, kind: str, expected_s: float, machine: str) -> None:
        """Note that a trial runs on a machine until its result, expected to take so long."""
        self._ends_s[trial_id] = (machine, kind, self._now_s + expected_s)
        took_s = self._now_s - self._launched_s.get(kind, -math.inf)
        if took_s < math.inf:
            self._launch_s.setdefault(kind, took_s)

    def end(self, trial_id: str) -> None:
        """Note that a trial no longer runs."""
        self._ends_s.pop(trial_id, None)

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget."""
        return self.rules.max_usd is not None

    def reached(self) -> Failure | None:
        """Failure of all open trials once machines could exceed the budget; else None."""
        if self.rules.max_usd is None or self._left_usd() > 0:
            return None
        return self._failure("the machines were ended")

    def cannot_idle(self) -> bool:
        """Whether machines that stay until they are idle for long enough would pass the budget."""
        return self.is_limited and self._left_usd() < usd_of(IDLE_S, self._usd_per_hour())

    def declined(self, kind: str, expected_s: float, machine: str) -> Failure | None:
        """Why a trial may not begin on a machine that is there, or None.

        Beside others it costs the time by which it outlasts them.
        """
        _, until_s = self._busy().get(machine, (kind, self._now_s))
        more_s = max(0.0, self._now_s + expected_s - until_s)
        usd = usd_of(more_s, self._price(kind, self.rules.market))
        if not self.is_limited or usd <= self._uncommitted_usd():
            return None
        return self._failure(f"this trial is expected to cost {usd:.2f}")

    def no_launch(self, kind: str) -> Failure | None:
        """Why the first machine of a kind may not be launched, or None."""
        usd = usd_of(self._boot_s(kind), self._price(kind, self.rules.market))
        if not self.is_limited or self._count(kind) or usd <= self._uncommitted_usd():
            return None
        return self._failure(f"launching a {kind} is expected to cost {usd:.2f}")

    def affordable(
        self,
        queued: Mapping[str, int],
        queued_s: Mapping[str, float],
        agents: Mapping[str, int],
        slots: Mapping[str, int],
    ) -> Mapping[str, int]:
        """For how many queued trials of each kind a machine may be there.

        One machine of a kind suffices for all of its trials; each further one costs its launch and
        its idle end.

        Args:
            queued: of each kind, how many trials wait.
            queued_s: the seconds that they are expected to take, one after the other.
            agents: of each kind, how many slots have work.
            slots: of each kind, how many trials a machine measures side by side.
        """
        price = {kind: self._price(kind, self.rules.market) for kind in queued}
        free = {k: max(0, self._count(k) * slots[k] - agents.get(k, 0)) for k in queued}
        left_usd = self._uncommitted_usd()
        for kind, count in queued.items():  # what these and machines that are there still take
            boot_s = self._boot_s(kind) * (free[kind] // slots[kind])
            work_s = queued_s[kind] / max(1, min(slots[kind], count))
            left_usd -= usd_of(work_s + boot_s + IDLE_S * self._count(kind), price[kind])
        found = {}
        for kind, count in queued.items():
            each_usd = usd_of(self._boot_s(kind) + IDLE_S, price[kind])
            more = int(max(0.0, left_usd) // each_usd) if each_usd else count
            least = 0 if self._count(kind) else 1
            found[kind] = min(count, free[kind] + max(more, least) * slots[kind])
            launches = math.ceil(max(0, found[kind] - free[kind]) / slots[kind])
            left_usd -= launches * each_usd
        return found

    def report(self) -> Spending | None:
        """The spending where machines came or went, or where it has grown for some time."""
        spending = self._spending()
        before = self._reported or Spending(usd=spending.usd)
        is_old = self._now_s - self._reported_s >= REPORT_S
        if spending.machines == before.machines and (spending.usd == before.usd or not is_old):
            return None
        self._reported, self._reported_s = spending, self._now_s
        return spending

    def last_report(self) -> Spending | None:
        """The spending at the end; None where no machine was launched."""
        return None if self._reported is None else self._spending()

    def _spending(self) -> Spending:
        kinds: Counter[str] = Counter()
        for placement, count in self._machines.items():
            kinds[placement.kind] += count
        return Spending(
            usd=self.usd,
            max_usd=self.rules.max_usd,
            machines=dict(+kinds),
            launch_s=dict(self._launch_s),
        )

    @property
    def _now_s(self) -> float:
        return self._observed_s or 0.0

    def _left_usd(self) -> float:
        """Remaining budget, less the cost of ending all machines now."""
        assert self.rules.max_usd is not None
        return self.rules.max_usd - self.usd - usd_of(END_S, self._usd_per_hour())

    def _uncommitted_usd(self) -> float:
        """Remaining budget, less the expected cost of machines with running trials."""
        return self._left_usd() - sum(
            usd_of(until_s - self._now_s, self._price(kind, self.rules.market))
            for kind, until_s in self._busy().values()
        )

    def _busy(self) -> dict[str, tuple[str, float]]:
        """Kind of each machine with running trials, and the expected end of its last trial."""
        found: dict[str, tuple[str, float]] = {}
        for machine, kind, ends_s in self._ends_s.values():
            _, until_s = found.get(machine, (kind, self._now_s))
            found[machine] = kind, max(until_s, ends_s)
        return found

    def _usd_per_hour(self) -> float:
        """Hourly cost of all billed machines."""
        return self.rules.head_usd_per_hour + sum(
            count * self._price(placement.kind, placement.market)
            for placement, count in self._machines.items()
        )

    def _price(self, kind: str, market: Market) -> float:
        """An hour of one machine with what it needs besides; an unknown spot price is on demand's.

        Only what is known is metered: `check_budget` lets no machine without a price begin.
        """
        if self.prices is None:
            return 0.0
        found = self.prices.of(kind, market) or self.prices.of(kind, Market.ON_DEMAND)
        return found.usd_per_hour + BESIDES_USD_PER_HOUR if found else 0.0

    def _boot_s(self, kind: str) -> float:
        return self.rules.launch_s.get(kind, LAUNCH_S)

    def _count(self, kind: str) -> int:
        return sum(count for placement, count in self._machines.items() if placement.kind == kind)

    def _failure(self, why: str) -> Failure:
        spent = f"{self.usd:.2f} of budget.max_usd={self.rules.max_usd:g} is spent"
        return Failure(
            stage="schedule", kind=BUDGET_REACHED, message=f"{spent}; {why}", remedy=_REMEDY
        )
