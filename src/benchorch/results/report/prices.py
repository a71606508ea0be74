"""Hourly prices of the machines in a report: those that its sweeps used.

The newest price of a machine counts for all rows, so that they are comparable; a run from before
prices were stored gets those of the bundled list. No price is looked up, so that a report never
changes. Your own machine has no price unless you declare one, which is not a price of zero.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.trial import Trial
from benchorch.results.compare.metric_kinds import is_cost
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.results.pricing.price_book import PriceBook, bundled_prices, gpus_of, vcpus_of
from benchorch.stats.interval_arithmetic import scaled

NOTHING_KEPT = Path(os.devnull)
"""No cache: prices fetched earlier do not count in a report."""


def prices_of(runs: Sequence[StoredRun], *, anew: bool = False) -> PriceSnapshot:
    """The prices of all kinds of machines in these runs; of one GPU where a machine has several.

    Args:
        runs: of the report.
        anew: from the list alone, whatever the sweeps used.
    """
    listed = _listed(runs)
    kept = {} if anew else {price.kind: price for price in _kept(runs)}
    gpus = {kind_of(t.trial): gpus_of(t.trial.hardware) for run in runs for t in run.trials}
    found = {**listed.on_demand, **kept}
    shared = {kind: price.of_one_of(gpus.get(kind, 1)) for kind, price in found.items()}
    return replace(listed, on_demand=shared)


def judged_by(run: StoredRun, prices: PriceSnapshot) -> StoredRun:
    """The same run with its on-demand costs by these prices, not by those of its own sweep."""
    return replace(run, trials=tuple(_judged_by(stored, prices) for stored in run.trials))


def _judged_by(stored: StoredTrial, prices: PriceSnapshot) -> StoredTrial:
    result, summary = stored.result, stored.summary
    if result is None or summary is None:
        return stored
    price = prices.of(kind_of(stored.trial), Market.ON_DEMAND)
    own = next((one for one in result.prices if one.market is Market.ON_DEMAND), None)
    if price is None or own is None or own.usd_per_hour in (0, price.usd_per_hour):
        return stored
    factor = price.usd_per_hour / own.usd_per_hour
    metrics = {
        name: scaled(cost, factor) if is_cost(name) and name.endswith(Market.ON_DEMAND) else cost
        for name, cost in summary.metrics.items()
    }
    return replace(stored, summary=replace(summary, metrics=metrics))


def _kept(runs: Sequence[StoredRun]) -> Sequence[Price]:
    """On-demand prices stored with the results, the newest last."""
    results = [stored.result for run in runs for stored in run.trials]
    prices = [price for result in results if result for price in result.prices]
    return sorted(
        (price for price in prices if price.market is Market.ON_DEMAND),
        key=lambda price: price.as_of,
    )


def _listed(runs: Sequence[StoredRun]) -> PriceSnapshot:
    """The bundled list's prices."""
    trials = [stored.trial for run in runs for stored in run.trials]
    sizes = {kind_of(trial): vcpus_of(trial.hardware) for trial in trials}
    vcpus = {kind: count for kind, count in sizes.items() if count is not None}
    bundled = bundled_prices()
    book = PriceBook(
        region=str(bundled["region"]), own={}, source=None, cache=NOTHING_KEPT, bundled=bundled
    )
    return book.snapshot(sorted({kind_of(trial) for trial in trials}), vcpus)


def kind_of(trial: Trial) -> str:
    """The kind of machine, e.g. ``g5.xlarge`` or ``local``."""
    return trial.labels.get("hardware_kind") or trial.hardware_kind
