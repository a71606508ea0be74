"""Shared pre-builds, on the cheapest node kind, for trials on several kinds.

The first steps of a conversion, up to the first that depends on the hardware, are built once for
all kinds. Meanwhile no node is requested for trials that wait for them. If a shared build fails,
its artifacts are built where they are needed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast, final

from benchorch.config.trial_setup import open_trial
from benchorch.domain.artifact import digest_of
from benchorch.domain.price import Market, PriceSnapshot
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError
from benchorch.executors.scheduling.assignments import KIND_LABEL, hardware_kind
from benchorch.executors.scheduling.duration_forecast import build_names, built_from, conversions_of
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds


@final
@dataclass(slots=True, kw_only=True)
class _Shared:
    """The first steps of a conversion, and the trials that need them.

    Attributes:
        conversion: one that begins with them.
        n_steps: how many.
        trials: each with the names of these artifacts in its forecast.
    """

    conversion: ConfigNode
    n_steps: int
    trials: dict[str, tuple[Trial, Sequence[str]]] = field(default_factory=dict)


def plan_shared_builds(
    trials: Sequence[Trial], expected: Mapping[str, Forecast], prices: PriceSnapshot | None
) -> SharedBuilds:
    """The shared builds of a sweep: none if no kind is known to be cheaper than another.

    Args:
        trials: of the sweep.
        expected: their forecasts by id; an artifact that takes no time counts as built.
        prices: on demand, of the hardware kinds.
    """
    machines = {hardware_kind(trial): cast(ConfigNode, trial.spec["hardware"]) for trial in trials}
    known = {kind: prices.of(kind, Market.ON_DEMAND) for kind in machines} if prices else {}
    usd = {kind: price.usd_per_hour for kind, price in known.items() if price}
    if len(machines) < 2 or not usd:
        return SharedBuilds()
    cheapest = min(usd, key=usd.__getitem__)
    builds: list[Trial] = []
    after: dict[str, tuple[str, ...]] = {}
    forecasts: dict[str, Forecast] = {}
    for key, shared in _shared(trials).items():
        built = all(not _seconds(expected, trial, names) for trial, names in shared.trials.values())
        if built or {hardware_kind(trial) for trial, _ in shared.trials.values()} == {cheapest}:
            continue
        build = _build(key, shared, cheapest, machines[cheapest])
        builds.append(build)
        forecasts[build.trial_id] = _forecast(build, shared, expected)
        for trial_id, (_, names) in shared.trials.items():
            after[trial_id] = (*after.get(trial_id, ()), build.trial_id)
            forecasts[trial_id] = _without(forecasts.get(trial_id, expected[trial_id]), names)
    return SharedBuilds(builds=tuple(builds), after=after, forecasts=forecasts)


def _shared(trials: Sequence[Trial]) -> dict[str, _Shared]:
    """All hardware-independent first steps, by what they are built from."""
    portable: dict[str, int] = {}
    found: dict[str, _Shared] = {}
    for trial in trials:
        for conversion in conversions_of(trial):
            kind = digest_of(conversion.get("steps"))
            if kind not in portable:
                portable[kind] = _portable_steps(trial, conversion)
            if not portable[kind]:
                continue
            key = _key(trial, conversion, portable[kind])
            one = _Shared(conversion=conversion, n_steps=portable[kind])
            names = build_names(trial, conversion, portable[kind])
            found.setdefault(key, one).trials.setdefault(trial.trial_id, (trial, names))
    return found


def _portable_steps(trial: Trial, conversion: ConfigNode) -> int:
    with suppress(ConfigError):  # the trial itself reports it
        return open_trial({**trial.spec, "conversion": conversion}).portable_steps
    return 0


def _key(trial: Trial, conversion: ConfigNode, n_steps: int) -> str:
    """Key of the artifacts as far as the plan determines it; hardware is not part of it."""
    steps = list(cast(ConfigNode, conversion["steps"]).items())[:n_steps]
    return digest_of([built_from(trial.spec), [[name, node] for name, node in steps]])


def _build(key: str, shared: _Shared, kind: str, machine: ConfigNode) -> Trial:
    first, _ = next(iter(shared.trials.values()))
    return replace(
        first,
        trial_id=f"ahead-{key[:10]}",
        labels={**first.labels, KIND_LABEL: kind},
        spec={**first.spec, "conversion": shared.conversion, "hardware": machine},
        baseline_id=None,
        baseline_conversion=None,
        build_steps=shared.n_steps,
    )


def _forecast(build: Trial, shared: _Shared, expected: Mapping[str, Forecast]) -> Forecast:
    """Forecast of a build: its remaining chain is the longest of the trials that wait for it."""
    each = [(expected[trial.trial_id], names) for trial, names in shared.trials.values()]
    rest_s = max(_chain_s(_without(forecast, names)) for forecast, names in each)
    build_s = max(_seconds(expected, trial, names) for trial, names in shared.trials.values())
    names = build_names(build, shared.conversion, shared.n_steps)
    return Forecast(measure_s=rest_s, builds=dict.fromkeys(names, build_s / len(names)))


def _without(forecast: Forecast, names: Sequence[str]) -> Forecast:
    builds = {name: taken_s for name, taken_s in forecast.builds.items() if name not in names}
    return replace(forecast, builds=builds)


def _chain_s(forecast: Forecast) -> float:
    return forecast.measure_s + sum(forecast.builds.values())


def _seconds(expected: Mapping[str, Forecast], trial: Trial, names: Sequence[str]) -> float:
    """Expected duration of building these artifacts, from this trial's forecast."""
    return sum(expected[trial.trial_id].builds.get(name, 0.0) for name in names)
