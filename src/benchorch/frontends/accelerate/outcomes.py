"""Results of each graph on each backend, once a plan has run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.domain.estimate import Summary
from benchorch.domain.price import Market
from benchorch.domain.result import TrialResult
from benchorch.frontends.accelerate.backends import RequestedBackend, backend_labels
from benchorch.frontends.accelerate.cost import Key
from benchorch.frontends.accelerate.report import NOT_MEASURED, GraphTiming
from benchorch.frontends.accelerate.transfer import ExportedCall
from benchorch.run.invocation import Invocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The trials of a profile's plan, by graph and backend.

    Attributes:
        invocation: that ran them; None where nothing was sent.
    """

    backends: Sequence[RequestedBackend]
    exported: Mapping[Key, ExportedCall]
    invocation: Invocation | None

    def measured(self) -> Iterator[tuple[tuple[str, Key], GraphTiming]]:
        """Each graph's calls on each backend."""
        by_trial = self._by_trial()
        for requested in self.backends:
            gone = GraphTiming(reason=requested.unavailable) if requested.unavailable else None
            for key, call in self.exported.items():
                found = by_trial.get((call.model, *requested.labels), NOT_MEASURED)
                yield (requested.name, key), gone or found

    def ready(self) -> list[str]:
        """The backends on which every graph has a time or has failed, in order."""
        waiting = {name for (name, _), timing in self.measured() if timing == NOT_MEASURED}
        there = [each.name for each in self.backends if not each.unavailable]
        return [name for name in there if name not in waiting]

    def usd_per_hour(self) -> Iterator[tuple[str, float]]:
        """Hourly price of each backend, on demand where known."""
        for requested in self.backends:
            prices = {
                price.market: price.usd_per_hour
                for result in self._results()
                if backend_labels(result.labels) == requested.labels
                for price in result.prices
            }
            if prices:
                yield requested.name, prices.get(Market.ON_DEMAND, next(iter(prices.values())))

    @property
    def rehearsed(self) -> bool:
        """Whether any machine was simulated."""
        return any(result.environment.get("rehearsed") for result in self._results())

    def _results(self) -> Sequence[TrialResult]:
        run = self.invocation
        return [] if run is None else [*{**run.results, **run.unfinished}.values()]

    def processors(self) -> Iterator[tuple[str, str]]:
        """The processor of each backend on which something ran, for people."""
        for requested in self.backends:
            for result in self._results():
                if backend_labels(result.labels) == requested.labels:
                    environment = result.environment
                    yield (
                        requested.name,
                        str(environment.get("gpu_name") or environment.get("cpu_model") or ""),
                    )

    def _by_trial(self) -> dict[tuple[str, str, str], GraphTiming]:
        """By model, hardware kind and conversion."""
        if self.invocation is None or self.invocation.plan is None:
            return {}
        skipped = {
            (skip.labels["model"], *backend_labels(skip.labels)): GraphTiming(reason=skip.reason)
            for skip in self.invocation.plan.skips
        }
        run = self.invocation.so_far()
        ran = {
            (result.labels["model"], *backend_labels(result.labels)): _told(result, run.summaries)
            for result in run.results.values()
        }
        return {**skipped, **ran}


def _told(result: TrialResult, summaries: Mapping[str, Summary]) -> GraphTiming:
    failure = result.failure
    if failure is not None:
        remedy = f" Try: {failure.remedy}" if failure.remedy else ""
        return GraphTiming(
            failures=1, reason=f"{failure.kind}: {failure.message.rstrip('.')}.{remedy}"
        )
    if result.parity is not None and result.disagrees:
        reason = f"its answers differ from those here: {result.parity.explanation}"
        return GraphTiming(failures=1, reason=reason)
    metrics = summaries[result.trial_id].metrics
    mean, median = metrics.get("latency_ms/mean"), metrics.get("latency_ms/p50")
    counts = [process.observations for process in result.valid]
    return GraphTiming(
        runs=sum(len(each.durations_ns) * each.queries_per_block for each in counts),
        ms=mean or median,
        is_median=mean is None,
        reason="" if mean or median else "it has no time of single calls",
    )
