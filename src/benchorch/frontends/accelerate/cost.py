"""Cost of a function on each backend, from local runs and remotely measured graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Estimate
from benchorch.frontends.accelerate.report import (
    NOT_MEASURED,
    FunctionProfile,
    GraphTiming,
    Segment,
    Total,
    usd_per_million_calls,
)
from benchorch.frontends.accelerate.runs import FunctionRun, RunGroup, group_runs
from benchorch.stats.interval_arithmetic import scaled, total
from benchorch.stats.mean_of_processes import mean
from benchorch.units import ns_to_ms

Key = tuple[int, int]
"""A graph's number and that of the shapes it was called with."""

_COMPILED = "compilation occurred in every run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCosts:
    """Measurements of one profile, from which costs follow.

    Attributes:
        backends: their names, in the order in which they were asked for.
        measured: by backend and call of a graph.
        stays: why a call of a graph was made here only, by its key.
        usd_per_hour: of each backend that is paid for.
    """

    backends: Sequence[str] = ()
    measured: Mapping[tuple[str, Key], GraphTiming]
    stays: Mapping[Key, str]
    usd_per_hour: Mapping[str, float]

    def profiles(self, runs: Sequence[FunctionRun]) -> tuple[FunctionProfile, ...]:
        """One for each sequence of graphs that a function went through."""
        return tuple(self._profile(group) for group in group_runs(runs))

    def _profile(self, group: RunGroup) -> FunctionProfile:
        segments = [_python(group, 0)]
        for place in range(len(group.graphs)):
            segments += [self._graph(group, place), _python(group, place + 1)]
        python = [each.local_ms for each in segments[::2]]
        return FunctionProfile(
            function=group.function,
            segments=tuple(segments),
            discarded=group.discarded,
            compiled=group.compiled,
            uncompiled_ms=total(python),
            totals={name: self._total(name, group, segments) for name in self.backends},
        )

    def _graph(self, group: RunGroup, place: int) -> Segment:
        calls = [run.calls[place] for run in group.runs]
        keys = Counter((call.graph, call.signature) for call in calls)
        staying = {key: self.stays[key] for key in keys if key in self.stays}
        local = {
            key: _mean([c.local_ns for c in calls if (c.graph, c.signature) == key])
            for key in staying
        }
        reason = "; ".join(dict.fromkeys(staying.values()))
        part = f"{len(staying)} of {len(keys)} shapes: " if 0 < len(staying) < len(keys) else ""
        travels = len(staying) < len(keys)
        return Segment(
            graph=group.graphs[place],
            runs=len(calls),
            local_ms=_mean([call.local_ns for call in calls]),
            backends={name: self._on(name, keys, local) for name in self.backends if travels},
            stays=f"{part}{reason}" if reason else "",
        )

    def _on(self, backend: str, keys: Counter[Key], local: Mapping[Key, Estimate]) -> GraphTiming:
        """A graph on a backend: over its shapes, each as often as it was called with them."""
        found = {k: self.measured.get((backend, k), NOT_MEASURED) for k in keys if k not in local}
        times = {**{key: each.ms for key, each in found.items()}, **local}
        known = [scaled(ms, keys[key] / keys.total()) for key, ms in times.items() if ms]
        return GraphTiming(
            runs=sum(each.runs for each in found.values()),
            ms=total(known) if len(known) == len(keys) else None,
            is_median=any(each.is_median for each in found.values()),
            failures=sum(each.failures for each in found.values()),
            reason="; ".join(dict.fromkeys(e.reason for e in found.values() if e.reason)),
        )

    def _total(self, backend: str, group: RunGroup, segments: Sequence[Segment]) -> Total:
        lacking = [s.name for s in segments if s.graph is not None and not _is_timed(s, backend)]
        graphs = [] if lacking else self._graphs_of_a_run(backend, group)
        graphs_ms = total(graphs)
        if group.compiled or lacking:
            reason = _COMPILED if group.compiled else f"{', '.join(lacking)}: no time there"
            return Total(graphs_ms=graphs_ms, ms=None, usd_per_million_calls=None, reason=reason)
        ms = total([*graphs, *(each.local_ms for each in segments[::2])])
        price = self.usd_per_hour.get(backend)
        usd = usd_per_million_calls(ms, price) if ms and price else None
        return Total(graphs_ms=graphs_ms, ms=ms, usd_per_million_calls=usd)

    def _graphs_of_a_run(self, backend: str, group: RunGroup) -> list[Estimate]:
        """Each measurement as often as a run needs it: that multiplies its error, too."""
        local_ns: dict[Key, list[int]] = {}
        for call in (call for run in group.runs for call in run.calls):
            local_ns.setdefault((call.graph, call.signature), []).append(call.local_ns)
        times = {
            key: _mean(own) if key in self.stays else self.measured[backend, key].ms
            for key, own in local_ns.items()
        }
        runs = len(group.runs)
        return [scaled(ms, len(local_ns[key]) / runs) for key, ms in times.items() if ms]


def _is_timed(segment: Segment, backend: str) -> bool:
    """Whether a graph has a time on a backend."""
    return bool(segment.backends) and segment.backends[backend].ms is not None


def _python(group: RunGroup, place: int) -> Segment:
    return Segment(
        graph=None,
        runs=len(group.runs),
        local_ms=_mean([run.gaps_ns[place] for run in group.runs]),
    )


def _mean(durations_ns: Sequence[int]) -> Estimate:
    """In milliseconds; of one run without an interval."""
    times = [ns_to_ms(each) for each in durations_ns]
    found = mean(times, of="runs", unit="ms")
    assert found is not None  # a group has a run
    if found.low is None:
        return found
    return replace(found, low=max(found.low, 0.0), seen=(min(times), max(times)))
