"""One measuring process: load, first call, check, measure, then interleave with the baseline."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json
from benchorch.domain.measurement import Conditions, Memory, Paired, ProcessRecord
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.result import EnergyRecord
from benchorch.domain.tensors import common_rows
from benchorch.frameworks.program_outputs import output_facts
from benchorch.host.interference import Interference
from benchorch.host.memory import own_peak_bytes, own_rss_bytes, reset_own_peak
from benchorch.host.pinning import pin
from benchorch.host.reference_workload import speed
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.stats.pairs import ALTERNATED
from benchorch.trial.energy import measure_energy, no_energy
from benchorch.trial.generation import load_executable, with_cache
from benchorch.trial.interleave import interleave
from benchorch.trial.live_module import module_of
from benchorch.trial.measure import ProcessMeasurement, measure
from benchorch.trial.stages import Baseline, BuiltTrial, MeasureRequest
from benchorch.trial.tf32 import apply_tf32, tf32_facts
from benchorch.trial.transfer_breakdown import transfer_breakdown
from benchorch.units import ns_to_s

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[generic]]

Say = Callable[[str], None]

_ITEMS = "batch_size"
"""The symbol whose size is how many items a call has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTrial:
    """A loaded artifact and the calls bound to it.

    Attributes:
        batches: the inputs that the calls are bound to.
        load_s: artifact on disk to ready, inputs included.
        first_call_s: the very first call.
        start_bytes, loaded_bytes: resident memory before and after loading.
        loading_peak_bytes: highest resident memory while loading.
        called_peak_bytes: highest from then to the end of the first call.
        cpus: the processors that the process is pinned to.
        outputs: what the model calls its outputs, as facts.
    """

    setup: TrialSetup
    executable: Executable
    batches: Sequence[Mapping[str, NDArray[generic]]]
    calls: Sequence[Callable[[], object]]
    load_s: float
    first_call_s: float
    start_bytes: int
    loaded_bytes: int
    loading_peak_bytes: int
    called_peak_bytes: int
    cpus: tuple[int, ...]
    outputs: Mapping[str, Json]


def load(
    trial: BuiltTrial,
    setup: TrialSetup,
    say: Say,
    *,
    cpus: tuple[int, ...] = (),
    comes_again: bool = False,
) -> LoadedTrial:
    """Load the artifact and call it once; from here on the peak of memory is the calls' own.

    Args:
        cpus: where to run if the trial is pinned; empty to choose.
        comes_again: as in `LoadRequest`.
    """
    # Before anything starts threads, as numpy does: they keep the processors they were born with.
    cpus = pin(trial.threads, cpus) if trial.pin else ()
    start_bytes = own_rss_bytes()
    reset_own_peak()
    say("loading")
    started_s = time.monotonic()  # a GPU's clock comes later: torch, imported for it, counts
    apply_tf32(setup)
    clock = setup.hardware.clock()
    request = replace(load_request(trial, setup), comes_again=comes_again)
    executable = load_executable(setup, setup.runtime, request)
    with ExitStack() as failing:
        failing.callback(executable.close)
        batches = inputs_of(setup, trial.built.refused)
        first = executable.bind(batches[0])
        clock.drain()
        load_s = time.monotonic() - started_s
        loaded_bytes, loading_peak_bytes = own_rss_bytes(), own_peak_bytes()
        reset_own_peak()
        setup.hardware.meter().reset_device_memory()
        say("first call")
        called_from_ns = clock.now_ns()
        first()
        clock.drain()
        called_ns = clock.now_ns()
        loaded = LoadedTrial(
            setup=setup,
            executable=executable,
            batches=batches,
            calls=[first, *map(executable.bind, _further(batches, setup.scenario.calls_at_once))],
            load_s=load_s,
            first_call_s=ns_to_s(called_ns - called_from_ns),
            start_bytes=start_bytes,
            loaded_bytes=loaded_bytes,
            loading_peak_bytes=loading_peak_bytes,
            called_peak_bytes=own_peak_bytes(),
            cpus=cpus,
            outputs=output_facts(trial.built.sources),
        )
        failing.pop_all()
    return loaded


def _further(batches: Sequence[Arrays], calls_at_once: int) -> Iterator[Arrays]:
    """Inputs of the calls after the first: all of them, and again where more calls run at once."""
    return islice(cycle(batches), 1, max(len(batches), calls_at_once))


def observe(
    loaded: LoadedTrial, say: Say, *, split: bool = False, count: bool = True
) -> ProcessRecord:
    """Everything that this process measures of the candidate alone.

    Args:
        split: whether the copying stages are timed apart afterwards.
        count: whether the operators that run are counted, which may take another session or call.
    """
    setup = loaded.setup
    protocol = setup.protocol
    say("measuring")
    measured, conditions, peak_bytes = _measured(loaded)
    meter = setup.hardware.meter()
    after_bytes = own_rss_bytes()  # read first: reading takes memory too
    memory = Memory(
        start=loaded.start_bytes,
        loaded=loaded.loaded_bytes,
        peak=peak_bytes,
        after=after_bytes,
        device=meter.device_memory(),
    )
    passes = None
    if split and protocol.split_passes and not setup.generates:
        passes = transfer_breakdown(
            loaded.executable,
            loaded.batches,
            clock=setup.hardware.clock(),
            device=type(setup.hardware).device,
            passes=protocol.split_passes,
        )
    facts = loaded.executable.facts() if count else loaded.executable.settings()
    return ProcessRecord(
        load_s=loaded.load_s,
        first_call_s=loaded.first_call_s,
        observations=measured.observations,
        steady_from=measured.steady_from,
        calibration=measured.calibration,
        peak_rss_bytes=max(loaded.loading_peak_bytes, memory.loaded, memory.peak),
        # What a runtime counts itself comes before what is known of the program it runs.
        facts={**loaded.outputs, **facts, **tf32_facts(setup)},
        conditions=conditions,
        memory=memory,
        split=passes,
    )


def _measured(loaded: LoadedTrial) -> tuple[ProcessMeasurement, Conditions, int]:
    """Measure between two reference workloads, and record the system's interference meanwhile.

    The peak of memory, in bytes, is without that of the reference workloads.
    """
    setup = loaded.setup
    interference = Interference()
    probed = setup.protocol.canary_tolerance_ratio is not None
    # A check of the outputs has reset the peak, so that its own memory does not count.
    first_peak_bytes = max(loaded.called_peak_bytes, own_peak_bytes())
    before = speed() if probed else None
    reset_own_peak()
    with loaded.executable.calling():
        measured = measure(
            loaded.calls,
            hardware=setup.hardware,
            scenario=setup.scenario,
            stopping=setup.stopping,
            items_per_call=_items_per_call(setup, loaded.batches),
            cold_caches=setup.protocol.cold_caches,
        )
    peak_bytes = max(first_peak_bytes, own_peak_bytes())
    after = speed() if probed else None
    state = setup.hardware.meter().device_state()
    return measured, interference.conditions(before, after, loaded.cpus, state), peak_bytes


def measure_paired(
    request: MeasureRequest,
    baseline: Baseline,
    batches: Sequence[Mapping[str, NDArray[generic]]],
    say: Say,
) -> Paired:
    """Interleave the candidate with its baseline, both loaded now, in the order of the request.

    Whatever was measured alone must be closed before: a side that had run for long before the
    other was loaded would be some 1 % slower than the same code loaded after it. So identical
    code is in the same state on both sides, and which comes first is drawn.

    Args:
        batches: inputs that the calls of both are bound to.
    """
    gc.collect()
    setups = [open_trial(trial.spec) for trial in (request.trial, baseline.trial)]
    setup, protocol = setups[0], setups[0].protocol
    sides = list(zip((request.trial, baseline.trial), setups, strict=True))
    in_turn = 1 if request.candidate_first else -1
    with ExitStack() as loaded:
        calls, executables = [], []
        for trial, each in sides[::in_turn]:
            say(f"loading the {'candidate' if trial is request.trial else 'baseline'}")
            request_of = load_request(trial, each)
            executable = loaded.enter_context(
                closing(load_executable(each, each.runtime, request_of))
            )
            executables.append(executable)
            calls.append([executable.bind(batch) for batch in batches])
            calls[-1][0]()
        # Once both are loaded: weights made in inference mode are tensors of another kind.
        for executable in executables:
            loaded.enter_context(executable.calling())
        own, other = calls[::in_turn]
        say("interleaving with the baseline")
        found = interleave(
            own,
            other,
            clock=setup.hardware.clock(),
            window_s=protocol.pair_window_s,
            slice_ms=protocol.slice_ms,
            seed=request.seed,
            items_per_call=_items_per_call(setup, batches),
            candidate_first=request.candidate_first,
        )
    return Paired(
        baseline_id=baseline.trial_id,
        design=ALTERNATED,
        ours=found.candidate.together,
        theirs=found.baseline.together,
        ours_from=found.candidate.start,
        theirs_from=found.baseline.start,
        ours_alone=found.candidate.alone,
        theirs_alone=found.baseline.alone,
        candidate_first=request.candidate_first,
        seed=request.seed,
    )


def energy(trial: BuiltTrial, say: Say) -> EnergyRecord:
    """Energy of uninterrupted calls, or why it is unknown; loads only where it can be counted."""
    setup = open_trial(trial.spec)
    meter = setup.hardware.meter()
    missing = no_energy(meter, setup.protocol.energy_window_s)
    if missing:
        return EnergyRecord(unavailable=missing)
    loaded = load(trial, setup, say)
    say("measuring energy")
    with closing(loaded.executable), loaded.executable.calling():
        return measure_energy(
            loaded.calls,
            clock=setup.hardware.clock(),
            meter=meter,
            windows=setup.protocol.energy_windows,
            window_s=setup.protocol.energy_window_s,
            items_per_call=_items_per_call(setup, loaded.batches),
        )


def inputs_of(setup: TrialSetup, refused: Container[int] = ()) -> list[Arrays]:
    """The inputs that calls rotate through, without those that eager does not take."""
    numbers = (number for number in range(INPUT_SETS) if number not in refused)
    return [setup.example(setup.workload.seed + number).arrays for number in numbers]


def _items_per_call(setup: TrialSetup, batches: Sequence[Arrays]) -> float:
    """Elements of the batch in a call, on average over the inputs that calls rotate through.

    Where all sizes are written out, the batch is the first size that all inputs share.
    """
    places = (
        (spec.name, spec.shape.index(_ITEMS))
        for spec in setup.model.specs()
        if _ITEMS in spec.shape
    )
    name, axis = next(places, ("", 0))
    if name in batches[0]:
        rows: list[int] = [batch[name].shape[axis] for batch in batches]
        return sum(rows) / len(rows)
    symbols = setup.workload.symbols
    first = [size for spec in setup.model.specs() for size in spec.shape[:1]]
    if _ITEMS in symbols or any(isinstance(size, str) for size in first):
        return symbols.get(_ITEMS, 1)
    shared = [common_rows(batch) or 0 for batch in batches]
    return sum(shared) / len(shared) if all(shared) else 1


def load_request(trial: BuiltTrial, setup: TrialSetup) -> LoadRequest:
    """The arguments of the runtime of this trial."""
    built = trial.built
    setup = with_cache(setup, built.cache)
    return LoadRequest(
        module=module_of(setup, built.states),
        source=built.source,
        sources=built.sources,
        example=setup.example(setup.workload.seed),
        device=type(setup.hardware).device,
        threads=trial.threads,
        scratch_dir=built.scratch,
        tf32=setup.protocol.tf32,
    )
