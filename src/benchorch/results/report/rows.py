"""Rows of a report: the cells of every trial, where it ran, and what it costs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import node_of
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.results.metrics.cost import busy_items_per_s, usd_per_million_items
from benchorch.results.report.prices import judged_by, place_of, region_of
from benchorch.results.report.tables import HEADERS, LIMIT, ranked, table_rows
from benchorch.stats.interval_arithmetic import scaled

THROUGHPUT = "throughput_items_per_s/mean"
QUERY_RATES = ("achieved_per_s/mean", "capacity_per_s/mean")
LATENCIES = ("latency_ms/p50", "response_ms/p50")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One trial.

    Attributes:
        name: short, without what all trials of its run share.
        cells: the columns of the run's own table by their headers, without the first.
        price: of an hour of its machine; None where it is unknown.
    """

    run: StoredRun
    stored: StoredTrial
    name: str
    cells: Mapping[str, str]
    price: Price | None

    @property
    def labels(self) -> Mapping[str, str]:
        """Short names for people."""
        return self.stored.trial.labels

    @property
    def hardware(self) -> str:
        """The kind of machine, or the hardware's name where no kind is declared."""
        return self.labels.get("hardware_kind") or self.labels.get("hardware", "")

    @property
    def result(self) -> TrialResult | None:
        """The result; None where the run ended before it."""
        return self.stored.result

    @property
    def metrics(self) -> Mapping[str, Estimate]:
        """Derived metrics; empty without a result."""
        return self.stored.metrics

    @property
    def speedup(self) -> Comparison | None:
        """The comparison with its baseline, where there is one."""
        return self.stored.speedup

    @property
    def outcome(self) -> str:
        """Its outcome in one word."""
        return "not run" if self.result is None else self.result.outcome.value

    @property
    def disqualified(self) -> bool:
        """Whether it is no longer the same model."""
        return bool(self.stored.disagreement)

    @property
    def ran(self) -> bool:
        """Whether it has figures at all."""
        return self.result is not None and self.result.outcome is Outcome.OK

    @property
    def latency(self) -> Estimate | None:
        """Median time of a call, or of a response where there is load."""
        return first(self.metrics, LATENCIES)

    @property
    def throughput(self) -> Estimate | None:
        """Items a second; under load, those of the queries."""
        queries = first(self.metrics, QUERY_RATES)
        found = scaled(queries, self._items_per_query) if queries else None
        return self.metrics.get(THROUGHPUT, found)

    @property
    def _items_per_query(self) -> float:
        """Elements of a query's batch; the requested ones where an older export lacks them."""
        return self.stored.evidence.items_per_call or self.size("batch_size") or 1

    @property
    def priced_unit(self) -> str:
        """What a cost is per million of: generated tokens where there are any."""
        return "output tokens" if "ttft_ms/p50" in self.metrics else "items"

    @property
    def usd_per_million(self) -> Estimate | None:
        """Cost of a million of its `priced_unit`; None without a price or a rate."""
        if self.priced_unit == "items":
            return self.usd_per_million_items
        return self._usd_at(self.metrics.get("decode_tokens_per_s/mean"))

    @property
    def usd_per_million_items(self) -> Estimate | None:
        """What a million items cost; None without a price or a rate."""
        has_target = node_of(self.stored.trial.spec, "scenario").get("target_ms") is not None
        rate = busy_items_per_s(self.metrics, self._items_per_query, has_target=has_target)
        return self._usd_at(rate)

    def _usd_at(self, rate: Estimate | None) -> Estimate | None:
        if rate is None or self.price is None or rate.value <= 0:
            return None
        return usd_per_million_items(rate, self.price.usd_per_hour)

    @property
    def runtime(self) -> str:
        """The observed execution provider; else the requested runtime class."""
        observed = self.stored.evidence.facts.get("provider")
        node = node_of(self.stored.trial.spec, "conversion")
        requested = node_of(node, "runtime").get("_target_", "")
        return str(observed or str(requested).rpartition(".")[2])

    @property
    def device(self) -> str:
        """The product name of the accelerator or processor."""
        evidence = self.stored.evidence
        kind = str(evidence.facts.get("device") or "")
        if evidence.device.get("name"):
            return str(evidence.device["name"])
        model = self.stored.environment.get("cpu_model")
        return str(model or kind) if kind in ("", "cpu", "CPU") else kind

    @property
    def on_cpu(self) -> bool:
        """Whether no accelerator took part."""
        return str(self.stored.evidence.facts.get("device") or "").lower() == "cpu"

    def size(self, symbol: str) -> int | None:
        """The workload's value of a symbol such as ``batch_size``."""
        value = node_of(self.stored.trial.spec, "workload").get(symbol)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def first(metrics: Mapping[str, Estimate], names: Sequence[str]) -> Estimate | None:
    """The first of these names that has an estimate."""
    return next((metrics[name] for name in names if name in metrics), None)


def rows_of(runs: Sequence[StoredRun], prices: PriceSnapshot) -> tuple[ReportRow, ...]:
    """All trials, run by run, each run's in the order of its own table."""
    return tuple(row for run in runs for row in _rows(run, prices))


def _rows(run: StoredRun, prices: PriceSnapshot) -> Iterator[ReportRow]:
    judged, region = judged_by(run, prices), region_of(run)
    results = judged.run_results()
    stored = {one.trial.trial_id: one for one in judged.trials}
    head, *drawn = table_rows(results)
    titles = (*HEADERS[1:], *head[len(HEADERS) :])  # of whatever baseline
    for trial, (name, *cells) in zip(ranked(results), drawn, strict=True):
        yield ReportRow(
            run=run,
            stored=stored[trial.trial_id],
            name=name,
            cells={LIMIT: "–", **dict(zip(titles, cells, strict=True))},
            price=prices.of(place_of(trial, region), Market.ON_DEMAND),
        )
