"""What several kinds of machine can share is built once, on the cheapest of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import lift_lists
from benchorch.domain.price import Price, PriceSnapshot
from benchorch.domain.trial import Plan, Trial
from benchorch.executors.ray import RayExecutor
from benchorch.executors.scheduling.assignments import hardware_kind
from benchorch.executors.scheduling.duration_forecast import PastDurations, forecasts
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.executors.scheduling.shared_builds import plan_shared_builds
from benchorch.run.planner import plan_jobs

SWEEP = ("model=mlp", "hardware=[r6i,c7i]", "executor=fleet_local", "baseline=eager")
HOUR = {"r6i.large": 0.126, "c7i.xlarge": 0.1785}


@cache
def planned(*words: str) -> Plan:
    composer = Composer(config_loader([]))
    asked = lift_lists([*SWEEP, "pricing.source=bundled", *words], composer.groups)
    return plan_jobs(composer, [asked], "p").plan


def prices(usd: Mapping[str, float] = HOUR) -> PriceSnapshot:
    each = {
        kind: Price(
            kind=kind,
            market="on_demand",
            usd_per_hour=one,
            region="us-east-1",
            as_of="2026-11-22",
            source="config",
        )
        for kind, one in usd.items()
    }
    return PriceSnapshot(on_demand=each)


def shared_builds_of(trials: Sequence[Trial], usd: Mapping[str, float] = HOUR) -> SharedBuilds:
    return plan_shared_builds(trials, forecasts(trials, PastDurations()), prices(usd))


def called(trials: Sequence[Trial], conversion: str) -> list[str]:
    return [t.trial_id for t in trials if t.labels["conversion"] == conversion]


def test_an_export_that_two_kinds_need_is_built_on_the_cheaper_one() -> None:
    trials = planned("conversion=[eager,onnxruntime]").trials
    shared = shared_builds_of(trials)
    (build,) = shared.builds
    assert hardware_kind(build) == "r6i.large"
    assert build.spec["hardware"] == next(
        t.spec["hardware"] for t in trials if hardware_kind(t) == "r6i.large"
    )
    assert (build.build_steps, build.baseline_id) == (1, None)
    assert shared.after == dict.fromkeys(called(trials, "onnxruntime"), (build.trial_id,))


def test_the_prices_decide_which_kind_that_is() -> None:
    trials = planned("conversion=onnxruntime").trials
    (build,) = shared_builds_of(trials, {**HOUR, "r6i.large": 9.0}).builds
    assert hardware_kind(build) == "c7i.xlarge"


def test_what_the_hardware_determines_is_not_built_ahead() -> None:
    assert shared_builds_of(planned("conversion=[eager,inductor]").trials) == SharedBuilds()


def test_of_a_longer_chain_only_its_portable_beginning_is() -> None:
    trials = planned("conversion=aot_inductor").trials
    steps = {build.build_steps for build in shared_builds_of(trials).builds}
    assert steps == {1}


@pytest.mark.parametrize("usd", [{}, {"g5.xlarge": 1.0}])
def test_without_prices_nobody_is_the_cheapest(usd: Mapping[str, float]) -> None:
    assert shared_builds_of(planned("conversion=onnxruntime").trials, usd) == SharedBuilds()


def test_one_kind_alone_builds_as_it_goes() -> None:
    trials = planned("conversion=onnxruntime", "hardware=r6i").trials
    assert shared_builds_of(trials) == SharedBuilds()


def test_models_and_sizes_are_built_apart_and_a_kind_of_its_own_is_not() -> None:
    trials = planned("conversion=onnxruntime", "workload.batch_size=[1,8]").trials
    shared = shared_builds_of(trials)
    assert len(shared.builds) == 2
    assert all(len(builds) == 1 for builds in shared.after.values())
    measured = called(trials, "onnxruntime")
    alone = [t for t in trials if hardware_kind(t) == "r6i.large"]
    other = next(t for t in trials if t not in alone and t.trial_id in measured)
    assert shared_builds_of([*alone, other]).after.keys() >= {other.trial_id}
    assert len(shared_builds_of([*alone, other]).builds) == 1


def test_what_was_measured_before_is_there_already() -> None:
    trials = planned("conversion=onnxruntime").trials
    known = PastDurations(by_trial={trials[0].trial_id: 60.0})
    told = forecasts(trials, known)
    assert plan_shared_builds(trials[:1], told, prices()) == SharedBuilds()
    there = {
        trial_id: replace(one, builds=dict.fromkeys(one.builds, 0.0))
        for trial_id, one in told.items()
    }
    assert plan_shared_builds(trials, there, prices()) == SharedBuilds()


def test_the_longest_chain_is_begun_first_and_those_that_wait_need_build_no_more() -> None:
    trials = planned("conversion=[eager,onnxruntime]").trials
    told = forecasts(trials, PastDurations())
    shared = plan_shared_builds(trials, told, prices())
    (build,) = shared.builds
    waiting = called(trials, "onnxruntime")
    for trial_id in waiting:
        gone = told[trial_id].builds.keys() - shared.forecasts[trial_id].builds.keys()
        assert len(gone) == 1
    chains = [_chain_s(shared.forecasts[trial_id]) for trial_id in waiting]
    assert _chain_s(shared.forecasts[build.trial_id]) > max(chains)


def _chain_s(forecast: Forecast) -> float:
    return forecast.measure_s + sum(forecast.builds.values())


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(Exception, match="build_on is 'moon'; it must be one of cheapest, anywhere"):
        RayExecutor(build_on="moon")
