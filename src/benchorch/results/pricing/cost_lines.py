"""The forecast of a sweep's duration and cost in words: `plan`'s lines and notes."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from benchorch.domain.price import Market, Price
from benchorch.domain.spending import HEAD_KIND
from benchorch.domain.trial import Plan, node_of
from benchorch.executors.scheduling.spending import HEAD_IDLE_S, IDLE_S, LAUNCH_S
from benchorch.formatting import plural
from benchorch.results.pricing.sweep_cost import (
    DEFAULT_REGION,
    HEAD,
    OWN,
    Machine,
    Pricing,
    TrialForecast,
    budget_of,
    cost_usd,
    forecast_by_kind,
    head_start_s,
    history_of,
    machines,
    over_budget,
    rented_kinds,
    results_s,
    rounds_s,
    snapshot,
    total_usd,
    trials_beside,
)
from benchorch.units import format_seconds

FETCHED = ("pricing api", "spot history")
"""The sources of prices that AWS was asked for, as `PriceBook` names them."""


def summary_lines(
    plan: Plan, forecast: Mapping[str, TrialForecast], launched: Collection[str] = ()
) -> Sequence[str]:
    """Minutes and dollars of each kind of machine, then of all together."""
    by_kind = forecast_by_kind(plan, forecast)
    whole = {machine.kind: machine for machine in machines(plan, forecast, launched)}
    lines = [f"{kind}  {_line(those, whole.get(kind))}" for kind, those in by_kind.items()]
    if HEAD_KIND in whole:
        region = node_of(plan.session, "pricing").get("region")
        elsewhere = f" at the price of {DEFAULT_REGION}" * (region != DEFAULT_REGION)
        lines.append(f"head  {HEAD}, about {_duration_and_cost(whole[HEAD_KIND])}{elsewhere}")
    if len(by_kind) > 1 or whole:
        lines.append(f"all  {_sum_line(plan, forecast, launched)}")
    lines += _price_lines(plan, by_kind)
    return [*lines, *(f"note  {text}" for text in summary_notes(plan, launched))]


def summary_notes(plan: Plan, launched: Collection[str] = ()) -> Iterator[str]:
    """Sentences on what the minutes and dollars of a plan rest on."""
    if plan.prices is not None:
        yield from plan.prices.warnings
        if any(plan.prices.of(kind, Market.SPOT) is None for kind in plan.prices.on_demand):
            yield "pricing.source=aws reads spot prices and those of today, with AWS credentials."
    yield from filter(None, [over_budget(plan, plan.trials)])
    yield from _on_minutes(plan)
    yield from _of_several_gpus(plan, launched)
    kinds = {trial.hardware_kind for trial in plan.trials}
    yield from _on_launches(plan, kinds & set(launched))


def _on_minutes(plan: Plan) -> Iterator[str]:
    """A sentence on `budget.minutes` where rounds are expected to take longer."""
    minutes = budget_of(plan.session).minutes
    if minutes is None:
        return
    seconds = rounds_s(plan)
    if seconds > 60.0 * minutes:
        yield (
            f"budget.minutes={minutes:g} ends the rounds before the {format_seconds(seconds)} "
            "expected: trials may be undecided then, or have no result until they run with resume=."
        )


def _on_launches(plan: Plan, kinds: Collection[str]) -> Iterator[str]:
    """Sentences on the time that launched machines take besides their trials."""
    found = history_of(plan).launches_s()
    for kind in sorted(set(kinds) & set(found)):
        yield (
            f"{kind}: {format_seconds(statistics.median(found[kind]))} from launch to first trial, "
            f"the median of {plural(len(found[kind]), 'sweep')}."
        )
    idle = f"{format_seconds(IDLE_S)} idle before the end"
    if set(kinds) - set(found):
        yield (
            f"{format_seconds(LAUNCH_S)} from launch to first trial and {idle} are assumed, "
            "one machine a kind, side by side."
        )
    elif kinds:
        yield f"{idle} are assumed, one machine a kind, side by side."
    start_s = head_start_s(plan) if kinds else None
    if start_s is not None:
        count = len(found.get(HEAD_KIND, ()))
        source = f", the median of {plural(count, 'sweep')}" if count else " (assumed)"
        yield (
            f"No head runs: starting one takes {format_seconds(start_s)}{source}; it ends by "
            f"itself after {format_seconds(HEAD_IDLE_S)} without a sweep. Both are counted."
        )


def _price_lines(plan: Plan, kinds: Iterable[str]) -> Iterator[str]:
    """An hour of each rented kind of machine, on demand and as a spot machine."""
    from benchorch.results.pricing.price_book import is_sold_in_blocks

    if plan.prices is None:
        return
    rented = rented_kinds(plan.trials)
    for kind in (each for each in kinds if each in rented):
        on_demand, spot = (plan.prices.of(kind, market) for market in Market)
        if on_demand is not None and on_demand.source == OWN:
            yield f"price  {kind}  {on_demand.usd_per_hour:g} USD an hour (pricing.usd_per_hour)"
        elif on_demand is None and is_sold_in_blocks(kind):
            yield (
                f"price  {kind}  not listed by the hour: AWS sells it in capacity blocks, which no "
                f"stack uses; '+pricing.usd_per_hour={{{kind}: 40.0}}' sets a price"
            )
        elif on_demand is None and spot is None:
            yield (
                f"price  {kind}  unknown: the bundled list has none in "
                f"{node_of(plan.session, 'pricing').get('region')}{_elsewhere(plan, kind)}; "
                "pricing.source=aws reads it from AWS, with credentials; "
                f"'+pricing.usd_per_hour={{{kind}: 1.0}}' sets it; "
                "to add the region: docs/cloud/costs.md"
            )
        else:
            yield f"price  {kind}  on demand {_price(on_demand)}; spot {_price(spot)}"


def _elsewhere(plan: Plan, kind: str) -> str:
    """The bundled price of another region, to compare with; it is counted nowhere."""
    those = [trial for trial in plan.trials if trial.hardware_kind == kind]
    there = Pricing(region=DEFAULT_REGION, source="bundled", market=str(Market.ON_DEMAND))
    prices = snapshot(those, there)
    price = prices.of(kind, Market.ON_DEMAND) if prices else None
    if price is None:
        return ""
    return f" ({price.usd_per_hour:g} USD an hour in {price.region}, {price.as_of[:10]})"


def _price(price: Price | None) -> str:
    if price is None:
        return "unknown"
    if price.source not in FETCHED:  # a note names the list
        return f"{price.usd_per_hour:g} USD an hour"
    least = price.least_usd_per_hour
    cheapest = f", {least:g} in the cheapest zone" if least is not None else ""
    as_of = price.as_of.replace("T", " ").partition("+")[0]
    where = f"{price.source}, {price.region}, {as_of}"
    return f"{price.usd_per_hour:g} USD an hour{cheapest} ({where})"


def _of_several_gpus(plan: Plan, launched: Collection[str]) -> Iterator[str]:
    """A sentence on each kind of machine of which a trial uses a part only."""
    from benchorch.results.pricing.price_book import gpus_of

    counts = {trial.hardware_kind: gpus_of(trial.hardware) for trial in plan.trials}
    beside = trials_beside(plan.trials, launched)
    for kind, count in counts.items():
        if count > 1:
            there = beside.get(kind, 1)
            yield (
                f"{kind}: a trial measures one of its {count} GPUs, "
                + (f"{there} trials side by side, " if there > 1 else "one trial at a time, ")
                + "and USD per 1M is of that part; the sweep pays for the whole machine."
            )


def _sum_line(plan: Plan, forecast: Mapping[str, TrialForecast], launched: Collection[str]) -> str:
    duration = format_seconds(results_s(plan, forecast, launched))
    whole = machines(plan, forecast, launched)
    unknown = ", ".join(one.kind for one in whole if one.usd is None)
    usd = total_usd(plan, forecast, launched)
    if unknown and all(one.usd is None or one.kind == HEAD_KIND for one in whole):
        cost = f", at unknown prices of {unknown}"
    else:
        cost = f", about {usd:.2f} USD" if usd is not None else ""
        cost += f" without {unknown}, whose price is unknown" if unknown else ""
    waited = "results after about" if whole else "about"
    return f"{plural(len(forecast), 'trial')}, {waited} {duration}{cost}"


def _line(those: Sequence[TrialForecast], machine: Machine | None = None) -> str:
    duration = format_seconds(sum(one.seconds for one in those))
    trials = f"{plural(len(those), 'trial')}, about {duration}"
    if machine is not None:
        return f"{trials}; its machine from launch to end about {_duration_and_cost(machine)}"
    usd = cost_usd(those, None)
    return f"{trials}, about {usd:.2f} USD" if usd is not None else trials


def _duration_and_cost(machine: Machine) -> str:
    cost = "its price is unknown" if machine.usd is None else f"about {machine.usd:.2f} USD"
    return f"{format_seconds(machine.seconds)}, {cost}"
