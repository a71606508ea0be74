"""What every hardware, scenario and stopping rule in conf/ must do, whoever wrote it."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from benchorch.config.components import make
from benchorch.domain.codec import decode, encode
from benchorch.domain.measurement import Observations
from benchorch.errors import ConfigError
from benchorch.interfaces.hardware import Hardware
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.trial.measure import measure
from support.clocks import VirtualClock
from support.fakes import Blocks

CONF = Path(__file__).resolve().parents[2] / "conf"


def every(group: str) -> pytest.MarkDecorator:
    files = sorted((CONF / group).glob("*.yaml"))
    paths = [path for path in files if "_target_" in path.read_text()]  # not former names
    assert paths, f"conf/{group} is empty"
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


parsed = cache(OmegaConf.load)


def node(path: Path, **changes: object) -> dict[str, Any]:
    loaded = OmegaConf.merge(parsed(path), changes)
    return OmegaConf.to_container(loaded, resolve=True)  # type: ignore[return-value]


def member(path: Path, interface: type) -> Any:
    return make(node(path), interface, f"{path.parent.name}.{path.stem}")


@every("hardware")
def test_hardware_names_its_kind_and_what_to_try_on_it(path: Path) -> None:
    hardware: Hardware = member(path, Hardware)
    assert hardware.kind.split(".")[0] == path.stem
    assert type(hardware).device in ("cpu", "cuda")
    assert "eager" in hardware.conversions
    assert hardware.threads is None or hardware.threads >= 1


@every("hardware")
def test_hardware_tries_conversions_that_exist(path: Path) -> None:
    known = {found.stem for found in (CONF / "conversion").glob("*.yaml")}
    assert set(member(path, Hardware).conversions) <= known


@every("hardware")
def test_hardware_says_in_a_sentence_why_this_machine_is_not_it(path: Path) -> None:
    reason = member(path, Hardware).mismatch()
    assert reason is None or (reason.endswith(".") and len(reason) < 200)


@every("hardware")
def test_hardware_offers_every_size_and_refuses_others(path: Path) -> None:
    for size in node(path).get("sizes", {}):
        hardware = make(node(path, size=size), Hardware, "hardware")  # type: ignore[type-abstract]
        assert hardware.kind == f"{path.stem}.{size}"
    with pytest.raises(ConfigError, match="size"):
        make(node(path, size="nonsense"), Hardware, "hardware")  # type: ignore[type-abstract]


@every("hardware")
def test_hardware_that_this_machine_is_tells_its_facts_and_its_time(path: Path) -> None:
    hardware: Hardware = member(path, Hardware)
    if hardware.mismatch():
        pytest.skip("this machine is not of that kind")
    facts = json.loads(json.dumps(hardware.facts(), allow_nan=False))
    assert facts["arch"]
    assert isinstance(facts["cpu_isa"], list)
    clock = hardware.clock()
    clock.drain()
    calibration = clock.calibrate()
    assert calibration.step_ns > 0
    assert clock.now_ns() <= clock.now_ns()
    assert clock.time_block(lambda: None, 1000).wall > 0


def observe(
    scenario: Scenario, clock: VirtualClock, calls: Sequence[Callable[[], object]]
) -> Observations:
    return scenario.run(
        calls,
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Blocks(60),
        items_per_call=4,
    )


@cache
def observed_of(path: Path) -> tuple[Observations, set[int]]:
    """What a scenario observes of three calls, and which of them it made."""
    clock, seen = VirtualClock(), set[int]()

    def bound(number: int) -> Callable[[], object]:
        def call() -> None:
            seen.add(number)
            clock.spend(1e6)

        return call

    return observe(member(path, Scenario), clock, [bound(number) for number in range(3)]), seen


@every("scenario")
def test_a_scenario_keeps_every_block_and_its_circumstances(path: Path) -> None:
    observed, seen = observed_of(path)
    count = len(observed.durations_ns)
    assert count >= 60
    assert len(observed.started_ns) == count
    assert len(observed.preempted) == len(observed.cpu_ns) == count
    assert observed.started_ns[0] == 0
    ends = [s + d for s, d in zip(observed.started_ns, observed.durations_ns, strict=True)]
    assert all(end <= start for end, start in zip(ends, observed.started_ns[1:], strict=False))
    assert min(observed.durations_ns) >= 1e6
    assert observed.items_per_call == 4
    assert observed.calls_per_block % observed.calls_per_query == 0
    assert seen == {0, 1, 2}


@every("scenario")
def test_a_scenario_survives_being_stored(path: Path) -> None:
    observed, _ = observed_of(path)
    assert decode(Observations, json.loads(json.dumps(encode(observed)))) == observed


@every("scenario")
def test_a_scenario_lets_the_models_own_error_through(path: Path) -> None:
    made = itertools.count(1)
    clock = VirtualClock()

    def broken() -> object:
        clock.spend(1e6)
        if next(made) == 57:
            raise ArithmeticError("the model's own")
        return None

    was_enabled = gc.isenabled()
    with pytest.raises(ArithmeticError, match="own"):
        observe(member(path, Scenario), clock, [broken])
    assert gc.isenabled() is was_enabled
    assert next(made) == 58, "it was called on"


@every("stopping")
def test_stopping_ends_every_process_and_every_trial(path: Path) -> None:
    stopping: Stopping = member(path, Stopping)
    for call_ns in (50_000, 5_000_000, 2_000_000_000):
        blocks = [call_ns]
        while not stopping.enough_calls(blocks, 1):
            blocks.append(call_ns)
            assert len(blocks) * call_ns < 300e9, "five minutes in one process"
    wild = [1e6 * 2.0**i for i in range(200)]
    counts = [n for n in range(1, 201) if stopping.enough_processes(wild[:n], 1e9)]
    assert counts
    assert counts == list(range(counts[0], 201))


@every("stopping")
def test_stopping_asks_for_a_first_process_and_remembers_nothing(path: Path) -> None:
    stopping: Stopping = member(path, Stopping)
    assert not stopping.enough_calls([1_000_000], 1)
    assert stopping.enough_processes([], 0.0) is None
    tight = [1e6] * 5
    assert stopping.enough_processes(tight, 1.0) == stopping.enough_processes(tight, 1.0)


def test_the_default_way_of_measuring_measures_a_real_call() -> None:
    measured = measure(
        [lambda: sum(range(30_000))],
        hardware=member(CONF / "hardware" / "local.yaml", Hardware),
        scenario=member(CONF / "scenario" / "single_stream.yaml", Scenario),
        stopping=make(
            node(CONF / "stopping" / "precise.yaml", max_window_s=1.0),
            Stopping,  # type: ignore[type-abstract]
            "stopping",
        ),
        items_per_call=1,
    )
    observed = measured.observations
    assert sum(observed.durations_ns) >= 0.5e9
    assert measured.steady_from is None or measured.steady_from < len(observed.durations_ns)
    assert measured.calibration.pair_cost_ns > 0
