"""Expected duration and cost of a sweep, checked against the budget before it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from benchorch.config.components import construct, make
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.session import profile_words
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError
from benchorch.formatting import plural
from benchorch.interfaces.executor import Executor
from benchorch.journal.registry import state_directory
from benchorch.results.metrics.cost import trial_usd
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from benchorch.interfaces.price_source import PriceSource

SOURCES = ("auto", "aws", "bundled")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """How prices are found: the `pricing` node.

    Args:
        region: whose prices.
        source: ``auto``, ``aws`` or ``bundled``.
        market: ``on_demand`` or ``spot``, for the budget.
        usd_per_hour: the user's own prices, by kind of machine.
    """

    region: str
    source: str
    market: str
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {self.source!r}")
        if self.market not in list(Market):
            raise ValueError(f"market must be one of {', '.join(Market)}, got {self.market!r}")
        wrong = [kind for kind, usd in self.usd_per_hour.items() if not usd > 0]
        if wrong:
            raise ValueError(f"usd_per_hour must be above 0, is not for {', '.join(wrong)}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a sweep may take and cost: the `budget` node.

    Args:
        minutes: after which no process is added; None: one for each trial, and three rounds.
        max_usd: what it may be expected to cost.
    """

    minutes: float | None = None
    max_usd: float | None = None

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be above 0 or null, got {self.minutes}")
        if self.max_usd is not None and not self.max_usd > 0:
            raise ValueError(f"max_usd must be above 0 or null, got {self.max_usd}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Forecast of one trial: seconds on a machine, and their cost; None where unpaid."""

    seconds: float
    usd: float | None


def pricing_of(session: ConfigNode) -> Pricing:
    """The `pricing` node; ConfigError with every problem."""
    return construct(Pricing, node_of(session, "pricing"), "pricing")


def budget_of(session: ConfigNode) -> Budget:
    """The `budget` node; ConfigError with every problem."""
    return construct(Budget, node_of(session, "budget"), "budget")


def snapshot(trials: Sequence[Trial], pricing: Pricing) -> PriceSnapshot | None:
    """Prices of paid machines, EC2's and those that the user has priced; None without any."""
    machines = {trial.hardware_kind: trial.hardware for trial in trials}
    rented = {kind: node for kind, node in machines.items() if node.get("size") is not None}
    kinds = [kind for kind in machines if kind in rented or kind in pricing.usd_per_hour]
    if not kinds:
        return None
    from benchorch.results.pricing.price_book import PriceBook, bundled_prices, vcpus_of

    book = PriceBook(
        region=pricing.region,
        own=pricing.usd_per_hour,
        source=_source(pricing) if rented else None,
        cache=state_directory() / "prices",
        bundled=bundled_prices(),
    )
    vcpus = {kind: vcpus_of(node) for kind, node in rented.items()}
    return book.snapshot(kinds, {kind: n for kind, n in vcpus.items() if n is not None})


def prices_of(plan: Plan, spec: ConfigNode) -> tuple[Price, ...]:
    """The hourly prices of the machine in a trial's spec, one a market."""
    if plan.prices is None:
        return ()
    kind = str(node_of(spec, "hardware")["kind"])
    found = (plan.prices.of(kind, market) for market in Market)
    return tuple(price for price in found if price is not None)


def expected(plan: Plan, trials: Sequence[Trial] | None = None) -> Mapping[str, Expected]:
    """The forecast of each trial, by its id; shared builds count for the first one."""
    from benchorch.executors.scheduling.duration_forecast import forecasts, past_durations

    chosen = plan.trials if trials is None else trials
    market = Market(str(node_of(plan.session, "pricing")["market"]))
    past = past_durations()
    known = forecasts(chosen, past) if chosen else {}
    profiled = _profiled(plan, chosen)
    there: set[str] = set()
    found = {}
    for trial in chosen:
        forecast = known[trial.trial_id]
        builds = {name: s for name, s in forecast.builds.items() if name not in there}
        there.update(builds)
        seconds = forecast.measure_s + sum(builds.values())
        seconds += past.profile_s(trial) if trial.trial_id in profiled else 0.0
        price = plan.prices.of(trial.hardware_kind, market) if plan.prices else None
        usd = trial_usd(seconds, price.usd_per_hour) if price else None
        found[trial.trial_id] = Expected(seconds=seconds, usd=usd)
    return found


def _profiled(plan: Plan, trials: Sequence[Trial]) -> Collection[str]:
    """The trials that are expected to be profiled; for a winner stands the first candidate."""
    if str(node_of(plan.session, "profiler").get("_target_", "")).endswith(".NoProfiler"):
        return ()
    node = node_of(plan.session, "executor")
    in_a_row = node and not make(node, Executor, "executor").measures_in_rounds()
    words = profile_words(plan)
    if in_a_row or "all" in words:
        return {trial.trial_id for trial in trials}
    first = {trial.baseline_id: trial.trial_id for trial in reversed(trials) if trial.baseline_id}
    return {
        trial.trial_id
        for trial in trials
        if trial.labels.get("conversion") in words
        or ("winner" in words and trial.trial_id in first.values())
        or ("baseline" in words and trial.baseline_id is None)
    }


def check_budget(plan: Plan, todo: Sequence[Trial]) -> None:
    """ConfigError where a rented machine has no price, or the sweep would cost too much."""
    pricing = node_of(plan.session, "pricing")
    if plan.prices is None or not pricing:
        return
    market = Market(str(pricing["market"]))
    unknown = sorted(
        {
            trial.hardware_kind
            for trial in todo
            if trial.hardware.get("size") is not None
            and plan.prices.of(trial.hardware_kind, market) is None
        }
    )
    if unknown:
        region = pricing["region"]
        raise ConfigError(
            [
                f"{kind} has no known {market} price in {region}, so nothing is started. Set "
                f"one: '+pricing.usd_per_hour={{{kind}: 1.0}}'."
                for kind in unknown
            ]
        )
    most = budget_of(plan.session).max_usd
    if most is None:
        return
    cost = sum(one.usd or 0.0 for one in expected(plan, todo).values())
    if cost > most:
        raise ConfigError(
            [
                f"The sweep is expected to cost {cost:.2f} USD, more than budget.max_usd={most:g}, "
                "so nothing is started. Reduce the sweep or raise budget.max_usd; see "
                "python -m benchorch plan."
            ]
        )


def summary_lines(plan: Plan, forecast: Mapping[str, Expected]) -> Sequence[str]:
    """Minutes and dollars of each kind of machine, then of all together."""
    by_kind: dict[str, list[Expected]] = {}
    for trial in plan.trials:
        by_kind.setdefault(trial.hardware_kind, []).append(forecast[trial.trial_id])
    lines = [f"{kind}  {_line(those)}" for kind, those in by_kind.items()]
    if len(by_kind) > 1:
        lines.append(f"all  {_line(list(forecast.values()))}")
    lines += [f"note  {warning}" for warning in (plan.prices.warnings if plan.prices else ())]
    return lines


def total_usd(forecast: Mapping[str, Expected]) -> float | None:
    """Of all trials that are paid for; None where none is."""
    paid = [one.usd for one in forecast.values() if one.usd is not None]
    return sum(paid) if paid else None


def _line(those: Sequence[Expected]) -> str:
    duration = format_seconds(sum(one.seconds for one in those))
    paid = [one.usd for one in those if one.usd is not None]
    cost = f", about {sum(paid):.2f} USD" if paid else ""
    return f"{plural(len(those), 'trial')}, about {duration}{cost}"


def _source(pricing: Pricing) -> PriceSource | None:
    if pricing.source == "bundled":
        return None
    from benchorch.hardware.aws_prices import AwsPrices, has_credentials

    return AwsPrices() if pricing.source == "aws" or has_credentials() else None
