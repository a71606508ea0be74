"""By which price are rows judged?"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchorch.cli.commands import report
from benchorch.domain.price import Market, Price
from benchorch.errors import ConfigError
from benchorch.results.compare.load_run import load
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.pricing.price_book import bundled_prices
from benchorch.results.report import prices
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from support.synthetic_runs import result, trial, write_run

HERE = {"hardware": "g5", "hardware_kind": "g5.xlarge"}


def judged(
    tmp_path: Path, name: str, usd: float, as_of: str, region: str = "us-east-1"
) -> StoredRun:
    """A run whose sweep was judged by a price of its own."""
    price = Price(
        kind="g5.xlarge",
        market=Market.ON_DEMAND,
        usd_per_hour=usd,
        region=region,
        as_of=as_of,
        source="config",
    )
    one = trial(labels=HERE, hardware={"size": "xlarge"})
    return load(str(write_run(tmp_path / name, (one, result(one, prices=(price,))))))


def of(*runs: StoredRun, anew: bool = False) -> float:
    found = prices_of(runs, anew=anew).of("g5.xlarge", Market.ON_DEMAND)
    assert found is not None
    return found.usd_per_hour


def test_the_sweep_s_own_price_counts_and_anew_the_list_s(tmp_path):
    run = judged(tmp_path, "a", 0.5, "2026-10-01")
    assert of(run) == 0.5
    assert of(run, anew=True) == 1.006


def test_of_several_the_newest_counts_for_all(tmp_path):
    old, new = judged(tmp_path, "a", 0.5, "2026-10-01"), judged(tmp_path, "b", 0.7, "2026-11-01")
    assert of(old, new) == of(new, old) == 0.7


def usd_of(*runs: StoredRun, anew: bool = False) -> list[float | None]:
    rows = rows_of(runs, prices_of(runs, anew=anew))
    return [None if row.price is None else row.price.usd_per_hour for row in rows]


def test_a_run_of_another_region_keeps_the_price_of_its_own(tmp_path):
    here = judged(tmp_path, "a", 0.5, "2026-10-01")
    there = judged(tmp_path, "b", 0.7, "2026-11-01", "eu-central-1")
    assert usd_of(here, there) == [0.5, 0.7]
    cost = "cost_usd_per_million_items/on_demand"
    shown = [row.metrics[cost].value for row in rows_of([here, there], prices_of([here, there]))]
    assert shown == [run.trials[0].metrics[cost].value for run in (here, there)]


def test_anew_the_list_s_price_of_the_same_region_counts(tmp_path, monkeypatch):
    run = judged(tmp_path, "b", 0.7, "2026-11-01", "eu-central-1")
    assert usd_of(run, anew=True) == [None]
    there = {"region": "eu-central-1", "as_of": "2026-10-01", "source": "a list"}
    listed = {**bundled_prices(), "also": [{**there, "usd_per_hour": {"g5.xlarge": 1.2}}]}
    monkeypatch.setattr(prices, "bundled_prices", lambda: listed)
    assert usd_of(run, anew=True) == [1.2]


def test_a_run_from_before_prices_were_kept_is_judged_by_the_list(swept):
    assert of(swept) == 1.006


def test_a_csv_file_follows(tmp_path):
    judged(tmp_path, "a", 0.503, "2026-10-01")
    told = {}
    for words in ([], ["--reprice"]):
        file = tmp_path / "x.csv"
        report.run.reply([str(tmp_path / "a"), "--output", str(file), *words])
        (row,) = csv.DictReader(file.read_text().splitlines())
        metric = "cost_usd_per_million_items/on_demand"
        for end in ("", ":low", ":high"):
            usd = float(row[f"usd_per_million_items{end}"])
            assert float(row[f"{metric}{end}"]) == pytest.approx(usd)
            told[bool(words), end] = usd
    assert told[True, ""] == pytest.approx(2 * told[False, ""])


@pytest.mark.parametrize("words", [[], ["--output", "x.md"]])
def test_a_report_without_costs_cannot_be_repriced(tmp_path, words):
    judged(tmp_path, "a", 0.5, "2026-10-01")
    with pytest.raises(ConfigError, match="--reprice needs a report with costs"):
        report.run.reply([str(tmp_path / "a"), "--reprice", *words])
