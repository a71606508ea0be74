"""One process: what loading takes, which side is loaded first, and which is which afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration, Conditions, Observations
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.trial import measuring_process
from benchorch.trial.interleave import Interleaved, InterleavedSide
from benchorch.units import NS_PER_S


class Executable:
    """An executable that notes what is done with it."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name, self._done = name, done
        done.append(f"load {name}")

    def bind(self, batch: object) -> Callable[[], object]:
        return lambda: self._done.append(f"call {self._name}")

    def calling(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def facts(self) -> Mapping[str, Json]:
        return {}

    def close(self) -> None:
        self._done.append(f"close {self._name}")


@pytest.mark.parametrize("candidate_first", [True, False])
def test_the_side_that_comes_first_is_loaded_and_called_before_the_other_is_loaded(
    monkeypatch: pytest.MonkeyPatch, candidate_first: bool
) -> None:
    """A fixed order made identical code 1 % slower on the side that was loaded first."""
    done: list[str] = []
    given: dict[str, Any] = {}

    def interleaved(own: Sequence[Any], other: Sequence[Any], **options: Any) -> Interleaved:
        given.update(options)
        own[0](), other[0]()
        sides = (InterleavedSide(together=name, start=1, alone=None) for name in ("own", "other"))  # type: ignore[arg-type]
        return Interleaved(candidate=next(sides), baseline=next(sides))

    setup = SimpleNamespace(
        runtime=None,
        scenario=None,
        hardware=SimpleNamespace(clock=lambda: None),
        protocol=SimpleNamespace(pair_window_s=1.0, slice_ms=20.0),
    )
    for name, fake in {
        "open_trial": lambda spec: setup,
        "load_request": lambda trial, each: trial,
        "load_executable": lambda each, runtime, trial: Executable(trial.name, done),
        "interleave": interleaved,
        "_items_per_call": lambda each, batches: 1,
    }.items():
        monkeypatch.setattr(measuring_process, name, fake)
    candidate, eager = (SimpleNamespace(name=n, spec={}) for n in ("candidate", "baseline"))
    request: Any = SimpleNamespace(trial=candidate, candidate_first=candidate_first, seed=7)
    baseline: Any = SimpleNamespace(trial=eager, trial_id="eager")
    found = measuring_process.measure_paired(request, baseline, [{}], lambda stage: None)
    first, second = ("candidate", "baseline")[:: 1 if candidate_first else -1]
    assert done[:4] == [f"load {first}", f"call {first}", f"load {second}", f"call {second}"]
    assert done[4:6] == ["call candidate", "call baseline"]
    assert (given["candidate_first"], given["seed"]) == (candidate_first, 7)
    assert found.candidate_first is candidate_first
    assert [str(found.ours), str(found.theirs)] == ["own", "other"]


@pytest.mark.parametrize(("servers", "bound"), [(1, ["a", "b"]), (5, ["a", "b", "a", "b", "a"])])
def test_each_call_that_runs_at_the_same_time_is_bound_for_itself(
    servers: int, bound: list[str]
) -> None:
    batches: Any = ["a", "b"]
    assert ["a", *measuring_process._further(batches, servers)] == bound


@pytest.mark.parametrize(
    ("shapes", "sizes", "items"),
    [
        ([(32, 3), ()], [((32, 3), ()), ((32, 3), ())], 32),
        ([(4, 3)], [((4, 3),), ((2, 3),)], 3),
        ([(32, 10), (2, 32)], [((32, 10), (2, 32))], 1),
        ([("seq_len", 3)], [((7, 3),)], 1),
        ([(5, "batch_size")], [((5, 8),), ((5, 4),)], 6),
    ],
)
def test_items_are_counted_along_the_batch_also_where_its_size_is_written_out(
    shapes: Sequence[tuple[int | str, ...]],
    sizes: Sequence[Sequence[tuple[int, ...]]],
    items: float,
) -> None:
    specs = [
        TensorSpec(name=f"x{number}", shape=shape, dtype="float32")
        for number, shape in enumerate(shapes)
    ]
    model = SimpleNamespace(specs=lambda: specs)
    setup: Any = SimpleNamespace(model=model, workload=Workload(symbols={}))
    batches = [{f"x{n}": np.zeros(shape) for n, shape in enumerate(each)} for each in sizes]
    assert measuring_process._items_per_call(setup, batches) == items


class Machine:
    """A machine whose time and memory change only as a test says."""

    def __init__(self) -> None:
        self.elapsed_ns = self.rss_bytes = self.peak_bytes = 0

    def use(self, rss_bytes: int, *, s: int = 0) -> None:
        self.elapsed_ns += s * NS_PER_S
        self.rss_bytes = rss_bytes
        self.peak_bytes = max(self.peak_bytes, rss_bytes)

    def reset_peak(self) -> bool:
        self.peak_bytes = self.rss_bytes
        return True

    def now_ns(self) -> int:
        return self.elapsed_ns

    def drain(self) -> None:
        pass

    def reset_device_memory(self) -> None:
        pass

    def device_memory(self) -> None:
        pass

    def device_state(self) -> Mapping[str, Json]:
        return {}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    for name, fake in {
        "time": SimpleNamespace(monotonic=lambda: found.elapsed_ns / NS_PER_S),
        "own_rss_bytes": lambda: found.rss_bytes,
        "own_peak_bytes": lambda: found.peak_bytes,
        "reset_own_peak": found.reset_peak,
        "apply_tf32": lambda setup: found.use(found.rss_bytes, s=setup.tf32_s),
        "tf32_facts": lambda setup: {},
        "output_facts": lambda sources: {},
        "inputs_of": lambda setup, refused: [{}],
        "load_request": lambda trial, setup: trial,
        "replace": lambda request, **fields: request,
    }.items():
        monkeypatch.setattr(measuring_process, name, fake)
    return found


def loaded_on(machine: Machine, *, tf32_s: int = 0) -> measuring_process.LoadedTrial:
    setup: Any = SimpleNamespace(
        tf32_s=tf32_s,
        runtime=None,
        scenario=SimpleNamespace(calls_at_once=1),
        hardware=SimpleNamespace(clock=lambda: machine, meter=lambda: machine),
        protocol=SimpleNamespace(split_passes=0, canary_tolerance_ratio=None, cold_caches=False),
        stopping=None,
    )
    built = SimpleNamespace(refused=(), sources={})
    trial: Any = SimpleNamespace(pin=False, threads=1, built=built)
    return measuring_process.load(trial, setup, lambda stage: None)


def test_the_peak_of_a_process_is_that_of_loading_and_calling(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    machine.use(900)
    machine.use(100)  # what was here before is not of this trial

    def load(setup: object, runtime: object, request: object) -> Executable:
        machine.use(800)  # the checkpoint beside the model that takes its weights
        machine.use(250)
        return Executable("model", [])

    monkeypatch.setattr(measuring_process, "load_executable", load)
    loaded = loaded_on(machine)
    seen = Observations(durations_ns=(1,), started_ns=(0,), calls_per_block=1, items_per_call=1)
    calibration = Calibration(pair_cost_ns=1, step_ns=1)
    measured = SimpleNamespace(observations=seen, steady_from=0, calibration=calibration)
    monkeypatch.setattr(measuring_process, "_measured", lambda each: (measured, Conditions(), 300))
    record = measuring_process.observe(loaded, lambda stage: None)
    assert record.memory is not None
    assert (record.memory.start, record.memory.loaded, record.memory.peak) == (100, 250, 300)
    assert record.peak_rss_bytes == 800


def test_the_peak_of_the_first_call_outlasts_a_check_of_the_outputs(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    class Compiling(Executable):
        def bind(self, batch: object) -> Callable[[], object]:
            return lambda: [machine.use(size) for size in (700, 250)]

    for name, fake in {
        "load_executable": lambda setup, runtime, request: Compiling("model", []),
        "Interference": lambda: SimpleNamespace(conditions=lambda *_: Conditions()),
        "measure": lambda calls, **options: None,
        "_items_per_call": lambda setup, batches: 1,
    }.items():
        monkeypatch.setattr(measuring_process, name, fake)
    loaded = loaded_on(machine)
    machine.reset_peak()  # as a check does
    _, _, peak_bytes = measuring_process._measured(loaded)
    assert peak_bytes == 700


def test_importing_torch_for_its_settings_is_part_of_loading(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    """Only a GPU has those settings, and a process of the CPU imports torch while it loads."""

    def load(setup: object, runtime: object, request: object) -> Executable:
        machine.use(200, s=2)
        return Executable("model", [])

    monkeypatch.setattr(measuring_process, "load_executable", load)
    loaded = loaded_on(machine, tf32_s=4)
    assert loaded.load_s == 6
    assert loaded.first_call_s == 0
