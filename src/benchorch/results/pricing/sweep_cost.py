"""Expected duration and cost of a sweep, checked against the budget before it starts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from benchorch.config.components import construct, make
from benchorch.domain.price import Market, Price, PriceSnapshot, usd_of
from benchorch.domain.session import profile_words
from benchorch.domain.spending import HEAD_KIND, SpendingRules
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.executors.scheduling.spending import (
    BESIDES_USD_PER_HOUR,
    HEAD_IDLE_S,
    HEAD_START_S,
    IDLE_S,
    LAUNCH_S,
)
from benchorch.interfaces.executor import Executor, Way
from benchorch.journal.registry import state_directory
from benchorch.results.pricing.sweep_history import SweepHistory, sweep_history

if TYPE_CHECKING:
    from benchorch.interfaces.price_source import PriceSource

SOURCES = ("auto", "aws", "bundled")

DEFAULT_REGION = "us-east-1"
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d")

OWN = "config"
"""The source of a price that the user has set."""

HEAD, HEAD_FAMILY, HEAD_VCPUS = "m7i.large", "m7i", 2
"""A stack's head, which is there while anything runs."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """How prices are found: the `pricing` node.

    Args:
        region: whose prices; None: `DEFAULT_REGION`'s.
        source: ``auto``, ``aws`` or ``bundled``.
        market: ``on_demand`` or ``spot``, for the budget.
        usd_per_hour: the user's own prices, by kind of machine.
    """

    region: str | None
    source: str
    market: str
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {self.source!r}")
        if self.region is not None and not _REGION.fullmatch(self.region):
            raise ValueError(f"region must be one of AWS's, e.g. eu-central-1, got {self.region!r}")
        if self.market not in list(Market):
            raise ValueError(f"market must be one of {', '.join(Market)}, got {self.market!r}")
        wrong = [kind for kind, usd in self.usd_per_hour.items() if not usd > 0]
        if wrong:
            raise ValueError(f"usd_per_hour must be above 0, is not for {', '.join(wrong)}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a sweep's time and cost: the `budget` node.

    Args:
        minutes: after which no process is added; None: one for each trial, and three rounds.
        max_usd: what it may cost; held before it starts and, on launched machines, while it runs.
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
class TrialForecast:
    """Forecast of one trial.

    Attributes:
        seconds: on a machine.
        usd: their cost; None where unpaid.
        build_s: those of them that go into what no trial before it builds.
    """

    seconds: float
    usd: float | None
    build_s: float = 0.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Forecast of one launched machine from its launch to its end.

    Attributes:
        kind: e.g. ``g5.xlarge``, or `HEAD_KIND`.
        seconds: launch, all trials of its kind, as many side by side as it has GPUs, idle time; of
            a head that runs already, those that the others take.
        usd: with its disk and address; None where its price is unknown.
    """

    kind: str
    seconds: float
    usd: float | None


def pricing_of(session: ConfigNode) -> Pricing:
    """The `pricing` node; ConfigError with every problem."""
    return construct(Pricing, node_of(session, "pricing"), "pricing")


def market_of(plan: Plan) -> Market:
    """How the plan's machines are paid for; ConfigError for a word that a damaged plan has."""
    word = str(node_of(plan.session, "pricing").get("market", Market.ON_DEMAND))
    if word not in tuple(Market):
        problem = f"plan {plan.plan_id}: session.pricing.market is {word!r}"
        raise ConfigError([f"{problem}; expected {' or '.join(Market)}."])
    return Market(word)


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
        region=pricing.region or DEFAULT_REGION,
        own=pricing.usd_per_hour,
        source=_source(pricing) if rented else None,
        cache=state_directory() / "prices",
        bundled=bundled_prices(),
    )
    vcpus = {kind: vcpus_of(node) for kind, node in rented.items()}
    return book.snapshot(kinds, {kind: n for kind, n in vcpus.items() if n is not None})


def prices_of(plan: Plan, spec: ConfigNode) -> tuple[Price, ...]:
    """The hourly prices of what a trial uses of its machine, one a market.

    That is the machine, or one GPU's part of it where it has several.
    """
    if plan.prices is None:
        return ()
    from benchorch.results.pricing.price_book import gpus_of

    hardware = node_of(spec, "hardware")
    found = (plan.prices.of(str(hardware["kind"]), market) for market in Market)
    return tuple(price.of_one_of(gpus_of(hardware)) for price in found if price is not None)


def expected(plan: Plan, trials: Sequence[Trial] | None = None) -> Mapping[str, TrialForecast]:
    """The forecast of each trial, by its id; shared builds count for the first one."""
    from benchorch.executors.scheduling.duration_forecast import forecasts, past_durations

    chosen = plan.trials if trials is None else trials
    market = market_of(plan)
    past = past_durations(history_of(plan).trials())
    places = _places(plan, chosen)
    known = {k: v for those in places for k, v in forecasts(those, past).items()}
    profiled = _profiled(plan, chosen)
    beside = trials_beside(chosen, launched_kinds(plan, chosen))
    built: dict[str, set[str]] = {}
    for those in places:
        there: set[str] = set()
        built |= {trial.trial_id: there for trial in those}
    found = {}
    for trial in chosen:
        forecast, there = known[trial.trial_id], built[trial.trial_id]
        builds = {name: s for name, s in forecast.builds.items() if name not in there}
        there.update(builds)
        build_s = sum(builds.values())
        seconds = forecast.measure_s + build_s
        seconds += past.profile_s(trial) if trial.trial_id in profiled else 0.0
        price = plan.prices.of(trial.hardware_kind, market) if plan.prices else None
        share = beside.get(trial.hardware_kind, 1)
        usd = usd_of(seconds, price.usd_per_hour / share) if price else None
        found[trial.trial_id] = TrialForecast(seconds=seconds, usd=usd, build_s=build_s)
    return found


def _places(plan: Plan, trials: Sequence[Trial]) -> Sequence[Sequence[Trial]]:
    """Trials by the store of their builds: this machine's, or the one of all other machines."""
    executor = _executor(plan)
    kinds = {trial.hardware_kind for trial in trials}
    here = {kind for kind in kinds if executor and executor.way(kind) is Way.LOCAL}
    return [
        [trial for trial in trials if trial.hardware_kind in here],
        [trial for trial in trials if trial.hardware_kind not in here],
    ]


def trials_beside(trials: Sequence[Trial], launched: Collection[str]) -> Mapping[str, int]:
    """How many trials run side by side on a launched machine of each kind, one a GPU."""
    from benchorch.results.pricing.price_book import gpus_of

    gpus = {trial.hardware_kind: gpus_of(trial.hardware) for trial in trials}
    counts = Counter(trial.hardware_kind for trial in trials)
    return {kind: min(gpus[kind], counts[kind]) for kind in gpus.keys() & set(launched)}


def _profiled(plan: Plan, trials: Sequence[Trial]) -> Collection[str]:
    """Trials expected to be profiled; the first candidate represents a winner."""
    if str(node_of(plan.session, "profiler").get("_target_", "")).endswith(".NoProfiler"):
        return ()
    executor, words = _executor(plan), profile_words(plan)
    all_of = {
        kind
        for kind in {trial.hardware_kind for trial in trials}
        if "all" in words or (executor and not executor.measures_in_rounds(kind))
    }
    first = {trial.baseline_id: trial.trial_id for trial in reversed(trials) if trial.baseline_id}
    return {
        trial.trial_id
        for trial in trials
        if trial.hardware_kind in all_of
        or trial.labels.get("conversion") in words
        or ("winner" in words and trial.trial_id in first.values())
        or ("baseline" in words and trial.baseline_id is None)
    }


def spending_rules(plan: Plan, spent_usd: float) -> SpendingRules:
    """How the plan's machines are paid for while it runs.

    Args:
        spent_usd: before the run was resumed.
    """
    return SpendingRules(
        max_usd=budget_of(plan.session).max_usd,
        spent_usd=spent_usd,
        market=market_of(plan),
        head_usd_per_hour=_head_usd_per_hour() if plan.prices else 0.0,
        launch_s=history_of(plan).launch_s(),
    )


def launched_kinds(plan: Plan, trials: Sequence[Trial]) -> Collection[str]:
    """The kinds of hardware whose machines the plan's executor launches for these trials."""
    executor = _executor(plan)
    kinds = {trial.hardware_kind for trial in trials}
    return {kind for kind in kinds if executor and executor.launches(kind)}


def history_of(plan: Plan) -> SweepHistory:
    """Earlier sweeps on such machines as the plan launches; empty where it launches none."""
    executor = _executor(plan)
    if executor is None or not launched_kinds(plan, plan.trials):
        return SweepHistory()
    return sweep_history(executor.archive_url())


def _executor(plan: Plan) -> Executor | None:
    node = node_of(plan.session, "executor")
    return make(node, Executor, "executor") if node else None


def check_budget(plan: Plan, todo: Sequence[Trial], spent_usd: float = 0.0) -> None:
    """ConfigError where a rented machine has no price, or the sweep would cost too much."""
    pricing = node_of(plan.session, "pricing")
    if plan.prices is None or not pricing:
        return
    market = market_of(plan)
    unknown = [kind for kind in sorted(rented_kinds(todo)) if plan.prices.of(kind, market) is None]
    if unknown:
        region = pricing.get("region")
        raise ConfigError(
            [
                f"{kind} has no known {market} price in {region}, so nothing is started. Let "
                "AWS's list answer (pricing.source=aws, with credentials), or set one: "
                f"'+pricing.usd_per_hour={{{kind}: 1.0}}'."
                for kind in unknown
            ]
        )
    if problem := over_budget(plan, todo, spent_usd):
        raise ConfigError([problem])


def over_budget(plan: Plan, todo: Sequence[Trial], spent_usd: float = 0.0) -> Problem | None:
    """Why `budget.max_usd` is too small for what is to do; None where it is not."""
    most = budget_of(plan.session).max_usd
    if most is None or not todo:
        return None
    cost = total_usd(plan, expected(plan, todo), launched_kinds(plan, todo)) or 0.0
    if cost + spent_usd <= most:
        return None
    before = f"{spent_usd:.2f} USD are spent, and " if spent_usd else ""
    what = "what is left" if spent_usd else "The sweep"
    enough = math.ceil(100 * (cost + spent_usd)) / 100
    return Problem(
        f"{before}{what} is expected to cost {cost:.2f} USD, more than "
        f"budget.max_usd={most:g}, so nothing is started. Reduce the sweep or raise "
        "budget.max_usd.",
        Correction(settings=[f"budget.max_usd={enough:g}"]),
        key="budget.max_usd",
    )


def machines(
    plan: Plan, forecast: Mapping[str, TrialForecast], launched: Collection[str]
) -> Sequence[Machine]:
    """One machine of each launched kind, and the stack's head; empty without launches.

    Args:
        launched: the kinds whose machines are launched for the run.
    """
    seconds: dict[str, float] = {}
    launch_s = history_of(plan).launch_s()
    trials = [trial for trial in plan.trials if trial.trial_id in forecast]
    beside = trials_beside(trials, launched)
    for trial in trials:
        kind = trial.hardware_kind
        if kind in launched:
            so_far = seconds.get(kind, launch_s.get(kind, LAUNCH_S) + IDLE_S)
            seconds[kind] = so_far + forecast[trial.trial_id].seconds / beside[kind]
    found = [_machine(kind, s, _usd_per_hour(plan, kind)) for kind, s in seconds.items()]
    if found:
        head_s, start_s = max(seconds.values()), head_start_s(plan)
        if start_s is not None:
            head_s += start_s + HEAD_IDLE_S - IDLE_S
        found.append(_machine(HEAD_KIND, head_s, _head_usd_per_hour()))
    return found


def rounds_s(plan: Plan) -> float:
    """Expected seconds of the trials that are measured in rounds, which `budget.minutes` ends."""
    executor, forecast = _executor(plan), expected(plan)
    return sum(
        forecast[trial.trial_id].seconds
        for trial in plan.trials
        if executor and executor.measures_in_rounds(trial.hardware_kind)
    )


def head_start_s(plan: Plan) -> float | None:
    """Seconds until a head takes the sweep; None where one runs, or none is needed."""
    executor = _executor(plan)
    if executor is None or not executor.launches_head():
        return None
    return history_of(plan).launch_s().get(HEAD_KIND, HEAD_START_S)


def _machine(kind: str, seconds: float, usd_per_hour: float | None) -> Machine:
    usd = None if usd_per_hour is None else usd_of(seconds, usd_per_hour + BESIDES_USD_PER_HOUR)
    return Machine(kind=kind, seconds=seconds, usd=usd)


def _usd_per_hour(plan: Plan, kind: str) -> float | None:
    market = market_of(plan)
    price = plan.prices.of(kind, market) if plan.prices else None
    return price.usd_per_hour if price else None


def _head_usd_per_hour() -> float:
    """Price of the head in the bundled list, which a plan for another region names."""
    from benchorch.results.pricing.price_book import bundled_prices

    return HEAD_VCPUS * float(str(node_of(bundled_prices(), "per_vcpu")[HEAD_FAMILY]))


def cheapest_first(plan: Plan, launched: Collection[str] = ()) -> Plan:
    """The plan with the trials of the kind first whose part of the sweep costs least.

    Kinds whose price is unknown are the last.
    """
    forecast, rented = expected(plan), rented_kinds(plan.trials)
    whole = {machine.kind: machine for machine in machines(plan, forecast, launched)}
    usd = {
        kind: cost_usd(those, whole.get(kind))
        for kind, those in forecast_by_kind(plan, forecast).items()
    }
    unpaid = {kind: math.inf if kind in rented else 0.0 for kind in usd}
    trials = sorted(
        plan.trials, key=lambda one: usd[one.hardware_kind] or unpaid[one.hardware_kind]
    )
    return replace(plan, trials=tuple(trials))


def forecast_by_kind(
    plan: Plan, forecast: Mapping[str, TrialForecast]
) -> Mapping[str, list[TrialForecast]]:
    """The forecast of a plan's trials by the kind of their machine, in the plan's order."""
    found: dict[str, list[TrialForecast]] = {}
    for trial in plan.trials:
        found.setdefault(trial.hardware_kind, []).append(forecast[trial.trial_id])
    return found


def rented_kinds(trials: Sequence[Trial]) -> Collection[str]:
    """The kinds of machines that are paid by the hour."""
    return {trial.hardware_kind for trial in trials if trial.hardware.get("size") is not None}


def total_usd(
    plan: Plan, forecast: Mapping[str, TrialForecast], launched: Collection[str] = ()
) -> float | None:
    """Total cost of priced trials, launched machines from launch to end; None without prices."""
    kinds = {trial.trial_id: trial.hardware_kind for trial in plan.trials}
    paid = [
        one.usd
        for trial_id, one in forecast.items()
        if one.usd is not None and kinds[trial_id] not in launched
    ]
    paid += [one.usd for one in machines(plan, forecast, launched) if one.usd is not None]
    return sum(paid) if paid else None


def results_s(
    plan: Plan, forecast: Mapping[str, TrialForecast], launched: Collection[str]
) -> float:
    """Seconds until the last result: launched machines work side by side, and beside this one.

    A head that has to be launched comes before them.
    """
    kinds = {trial.trial_id: trial.hardware_kind for trial in plan.trials}
    here_s = sum(one.seconds for name, one in forecast.items() if kinds[name] not in launched)
    there = [one for one in machines(plan, forecast, launched) if one.kind != HEAD_KIND]
    begin_s = (head_start_s(plan) or 0.0) - IDLE_S
    return max([here_s, *(begin_s + one.seconds for one in there)])


def cost_usd(those: Sequence[TrialForecast], machine: Machine | None) -> float | None:
    """What trials cost, or the machine that is launched for them; None where unpaid."""
    if machine is not None:
        return machine.usd
    paid = [one.usd for one in those if one.usd is not None]
    return sum(paid) if paid else None


def _source(pricing: Pricing) -> PriceSource | None:
    if pricing.source == "bundled":
        return None
    from benchorch.hardware.aws_prices import AwsPrices, has_credentials

    return AwsPrices() if pricing.source == "aws" or has_credentials() else None
