"""What does one measuring process do? Load, first call, check, measure, then meet the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.config.trial_setup import TrialSetup, open_trial, parity_inputs
from benchorch.domain.artifact import Format
from benchorch.domain.codec import decode
from benchorch.domain.measurement import Conditions, Memory, Paired, ProcessRecord
from benchorch.domain.result import EnergyRecord
from benchorch.domain.trial import ConfigNode
from benchorch.domain.verdict import Verdict
from benchorch.host.interference import Interference
from benchorch.host.memory import own_peak_bytes, own_rss_bytes, reset_own_peak
from benchorch.host.pinning import pin
from benchorch.host.reference_workload import reference_ns
from benchorch.interfaces.conversion import ModuleStep, StateStep
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.stats.pairs import ALTERNATED
from benchorch.trial.build import Built, module_of, referee_file
from benchorch.trial.divergence import first_divergence
from benchorch.trial.energy import measure_energy
from benchorch.trial.interleave import alternate
from benchorch.trial.measure import ProcessMeasurement, measure
from benchorch.trial.transfer_breakdown import split
from benchorch.trial.verify import verify
from benchorch.units import ns_to_s

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

# Distinct inputs rotate through the calls, so that neither caches nor branch history replay one.
INPUT_SETS = 8

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A loaded artifact and the calls bound to it.

    Attributes:
        batches: the inputs that the calls are bound to.
        load_s: artifact on disk to ready, inputs included.
        first_call_s: the very first call.
        start_bytes, loaded_bytes: resident memory before and after loading.
        cpus: the processors that the process is pinned to.
    """

    chain: TrialSetup
    executable: Executable
    batches: Sequence[Mapping[str, NDArray[generic]]]
    calls: Sequence[Callable[[], object]]
    load_s: float
    first_call_s: float
    start_bytes: int
    loaded_bytes: int
    cpus: tuple[int, ...]


def load(request: ConfigNode, chain: TrialSetup, say: Say) -> Subject:
    """Load the artifact and call it once; from here on the peak of memory is the calls' own."""
    # Before anything starts threads, which keep the processors they were born with.
    cpus = pin(cast(int, request["threads"])) if request["pin"] else ()
    clock = chain.hardware.clock()
    start_bytes = own_rss_bytes()
    say("loading")
    before_ns = clock.now_ns()
    executable = chain.runtime.load(load_request(request, chain))
    with ExitStack() as failing:
        failing.callback(executable.close)
        batches = inputs_of(chain)
        first = executable.bind(batches[0])
        clock.drain()
        loaded_ns = clock.now_ns()
        loaded_bytes = own_rss_bytes()
        reset_own_peak()
        chain.hardware.meter().reset_device_memory()
        say("first call")
        called_from_ns = clock.now_ns()
        first()
        clock.drain()
        called_ns = clock.now_ns()
        subject = Subject(
            chain=chain,
            executable=executable,
            batches=batches,
            calls=[first, *(executable.bind(batch) for batch in batches[1:])],
            load_s=ns_to_s(loaded_ns - before_ns),
            first_call_s=ns_to_s(called_ns - called_from_ns),
            start_bytes=start_bytes,
            loaded_bytes=loaded_bytes,
            cpus=cpus,
        )
        failing.pop_all()
    return subject


def observe(subject: Subject, say: Say) -> ProcessRecord:
    """Everything that this process sees of the subject alone."""
    chain = subject.chain
    protocol = chain.protocol
    say("measuring")
    measured, conditions = _under_watch(subject)
    meter = chain.hardware.meter()
    after_bytes = own_rss_bytes()  # read first: reading takes memory too
    memory = Memory(
        start=subject.start_bytes,
        loaded=subject.loaded_bytes,
        peak=own_peak_bytes(),
        after=after_bytes,
        device=meter.device_memory(),
    )
    passes = None
    if protocol.split_passes:
        passes = split(
            subject.executable,
            subject.batches,
            clock=chain.hardware.clock(),
            device=type(chain.hardware).device,
            passes=protocol.split_passes,
        )
    return ProcessRecord(
        load_s=subject.load_s,
        first_call_s=subject.first_call_s,
        observations=measured.observations,
        steady_from=measured.steady_from,
        calibration=measured.calibration,
        peak_rss_bytes=max(memory.peak, memory.loaded),
        facts=subject.executable.facts(),
        conditions=conditions,
        memory=memory,
        split=passes,
    )


def _under_watch(subject: Subject) -> tuple[ProcessMeasurement, Conditions]:
    """Measure between two canaries, and tell what else the machine did meanwhile."""
    chain = subject.chain
    interference = Interference()
    look = reference_ns if chain.protocol.canary_tolerance_ratio is not None else lambda: None
    before_ns = look()
    with subject.executable.calling():
        measured = measure(
            subject.calls,
            hardware=chain.hardware,
            scenario=chain.scenario,
            stopping=chain.stopping,
            items_per_call=_items_per_call(chain),
            cold_caches=chain.protocol.cold_caches,
        )
    after_ns = look()
    state = chain.hardware.meter().device_state()
    return measured, interference.conditions(before_ns, after_ns, subject.cpus, state)


def measure_paired(request: ConfigNode, subject: Subject, say: Say) -> Paired:
    """Alternate the subject with its baseline, which is loaded now and not before."""
    rival = cast(ConfigNode, request["rival"])
    chain = open_trial(cast(ConfigNode, rival["spec"]))
    say("loading the baseline")
    executable = chain.runtime.load(load_request({**request, **rival}, chain))
    protocol = subject.chain.protocol
    with closing(executable), subject.executable.calling(), executable.calling():
        calls = [executable.bind(batch) for batch in subject.batches]
        calls[0]()
        say("alternating with the baseline")
        found = alternate(
            subject.calls,
            calls,
            clock=chain.hardware.clock(),
            window_s=protocol.pair_window_s,
            slice_ms=protocol.slice_ms,
            seed=cast(int, rival["seed"]),
            items_per_call=_items_per_call(chain),
        )
    return Paired(
        baseline_id=cast(str, rival["trial_id"]),
        design=ALTERNATED,
        ours=found.ours,
        theirs=found.theirs,
        ours_from=found.ours_from,
        theirs_from=found.theirs_from,
    )


def energy(request: ConfigNode, chain: TrialSetup, say: Say) -> EnergyRecord:
    """Energy of uninterrupted calls, or why it is unknown; loads only where it can be counted."""
    meter = chain.hardware.meter()
    missing = meter.no_energy()
    if missing:
        return EnergyRecord(unavailable=missing)
    subject = load(request, chain, say)
    say("measuring energy")
    with closing(subject.executable), subject.executable.calling():
        return measure_energy(
            subject.calls,
            clock=chain.hardware.clock(),
            meter=meter,
            windows=chain.protocol.energy_windows,
            window_s=chain.protocol.energy_window_s,
            items_per_call=_items_per_call(chain),
        )


def check(request: ConfigNode, subject: Subject) -> Verdict:
    """The outputs of a few inputs against the reference's; outside the timed region."""
    chain, executable = subject.chain, subject.executable
    built = decode(Built, request["built"])
    asked = cast(ConfigNode, cast(ConfigNode, request["spec"])["parity"])
    count = parity_inputs(cast(ConfigNode, request["spec"]))
    inputs = _first_inputs(subject, count)
    files = [referee_file(built.reference, index) for index in range(count)]
    verdict = verify(
        [_kept(executable.outputs(executable.bind(arrays)())) for arrays in inputs],
        [_saved(built.reference / f"{index}.npz") for index in range(count)],
        # No conversion can agree better than the dtype that the baseline itself computes in.
        max(chain.tolerance_ratio, _finest(chain)),
        referees=[_saved(file) for file in files if file.exists()],
        inputs=inputs,
        metric=cast("str | None", asked.get("metric")),
        least_score=cast("float | None", asked.get("least_score")),
    )
    if verdict.passed:
        reset_own_peak()  # outputs and references were here for a moment
        return verdict
    told = first_divergence(
        original=module_of(replace(chain, steps=()), {}),
        converted=module_of(chain, built.states),
        changed=any(isinstance(step, ModuleStep | StateStep) for _, step in chain.steps),
        program=built.sources.get(Format.EXPORTED_PROGRAM),
        example=chain.example(chain.workload.seed),
        tolerance_ratio=verdict.tolerance_ratio,
    )
    reset_own_peak()  # two more models were here for a moment
    return replace(verdict, first_divergence=told)


def inputs_of(chain: TrialSetup) -> list[Mapping[str, NDArray[generic]]]:
    """The inputs that calls rotate through."""
    return [chain.example(chain.workload.seed + i).arrays for i in range(INPUT_SETS)]


def _first_inputs(subject: Subject, count: int) -> list[Mapping[str, NDArray[generic]]]:
    """Those that the calls are bound to, and further ones where more are compared."""
    chain, bound = subject.chain, list(subject.batches[:count])
    more = range(len(bound), count)
    return bound + [chain.example(chain.workload.seed + index).arrays for index in more]


def _kept(outputs: Mapping[str, NDArray[generic]]) -> dict[str, NDArray[generic]]:
    """Copies: some backends write every call's outputs into the same memory."""
    return {name: array.copy() for name, array in outputs.items()}


def _saved(file: Path) -> Mapping[str, NDArray[generic]]:
    import numpy as np

    with np.load(file, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


def _finest(chain: TrialSetup) -> float:
    import numpy as np

    return float(np.finfo(chain.workload.dtype).eps)


def _items_per_call(chain: TrialSetup) -> int:
    return chain.workload.symbols.get("batch_size", 1)


def load_request(request: ConfigNode, chain: TrialSetup) -> LoadRequest:
    """What the chain's runtime is given."""
    built = decode(Built, request["built"])
    return LoadRequest(
        module=module_of(chain, built.states),
        source=built.source,
        sources=built.sources,
        example=chain.example(chain.workload.seed),
        device=type(chain.hardware).device,
        threads=cast(int, request["threads"]),
        scratch_dir=built.scratch,
    )
