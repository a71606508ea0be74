"""Hourly prices of the machines in a report: those that its sweeps used.

The newest price of a machine counts for all rows of its region, so that they are comparable; a run
from before prices were stored gets those of the bundled list. No price is looked up, so that a
report never changes. Your own machine has no price unless you declare one, which is not a price of
zero.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.trial import Trial
from benchorch.results.compare.metric_kinds import is_cost
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.results.pricing.price_book import PriceBook, bundled_prices, gpus_of, vcpus_of
from benchorch.results.pricing.sweep_cost import DEFAULT_REGION
from benchorch.stats.interval_arithmetic import scaled

NOTHING_KEPT = Path(os.devnull)
"""No cache: prices fetched earlier do not count in a report."""


def prices_of(runs: Sequence[StoredRun], *, anew: bool = False) -> PriceSnapshot:
    """The prices of all machines in these runs, by `place_of`; of one GPU where one has several.

    Args:
        runs: of the report.
        anew: from the list alone, whatever the sweeps used.
    """
    trials = {
        place_of(stored.trial, region): (stored.trial, region) for stored, region in _stored(runs)
    }
    found = {**_listed(trials), **({} if anew else _kept(runs))}
    return PriceSnapshot(
        on_demand={
            place: price.of_one_of(gpus_of(trials[place][0].hardware))
            for place, price in found.items()
        }
    )


def judged_by(run: StoredRun, prices: PriceSnapshot) -> StoredRun:
    """The same run with its on-demand costs by these prices, not by those of its own sweep."""
    region = region_of(run)
    return replace(run, trials=tuple(_judged_by(one, region, prices) for one in run.trials))


def _judged_by(stored: StoredTrial, region: str, prices: PriceSnapshot) -> StoredTrial:
    result, summary = stored.result, stored.summary
    if result is None or summary is None:
        return stored
    price = prices.of(place_of(stored.trial, region), Market.ON_DEMAND)
    own = next((one for one in result.prices if one.market is Market.ON_DEMAND), None)
    if price is None or own is None or own.usd_per_hour in (0, price.usd_per_hour):
        return stored
    factor = price.usd_per_hour / own.usd_per_hour
    metrics = {
        name: scaled(cost, factor) if is_cost(name) and name.endswith(Market.ON_DEMAND) else cost
        for name, cost in summary.metrics.items()
    }
    return replace(stored, summary=replace(summary, metrics=metrics))


def _stored(runs: Sequence[StoredRun]) -> Iterator[tuple[StoredTrial, str]]:
    """Each trial with the region of its run."""
    for run in runs:
        region = region_of(run)
        yield from ((stored, region) for stored in run.trials)


def _kept(runs: Sequence[StoredRun]) -> Mapping[str, Price]:
    """The newest on-demand price stored with the results of each place."""
    prices = [
        (place_of(stored.trial, region), price)
        for stored, region in _stored(runs)
        if stored.result
        for price in stored.result.prices
        if price.market is Market.ON_DEMAND
    ]
    return dict(sorted(prices, key=lambda one: one[1].as_of))


def _listed(trials: Mapping[str, tuple[Trial, str]]) -> Mapping[str, Price]:
    """The bundled list's prices, each of its own region."""
    bundled = bundled_prices()
    found: dict[str, Price] = {}
    for place, (trial, region) in trials.items():
        book = PriceBook(region=region, own={}, source=None, cache=NOTHING_KEPT, bundled=bundled)
        kind, vcpus = kind_of(trial), vcpus_of(trial.hardware)
        price = book.snapshot([kind], {} if vcpus is None else {kind: vcpus}).on_demand.get(kind)
        if price is not None:
            found[place] = price
    return found


def region_of(run: StoredRun) -> str:
    """Whose prices a run's sweep used."""
    results = (stored.result for stored in run.trials if stored.result)
    return next((price.region for one in results for price in one.prices), DEFAULT_REGION)


def place_of(trial: Trial, region: str) -> str:
    """The kind of a machine with its region; your own is the same in each."""
    rented = trial.hardware.get("size") is not None
    return (
        f"{kind_of(trial)} in {region}" if rented and region != DEFAULT_REGION else kind_of(trial)
    )


def kind_of(trial: Trial) -> str:
    """The kind of machine, e.g. ``g5.xlarge`` or ``local``."""
    return trial.labels.get("hardware_kind") or trial.hardware_kind
