"""Reference of a conversion: eager's outputs, their noise, and float64."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchorch.config.components import make
from benchorch.config.decoder import Decoder
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import decode, encode
from benchorch.domain.noise import Noise
from benchorch.domain.outputs import Outputs
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.result import ModelCounts
from benchorch.domain.tensors import TensorSpec, digest_of_arrays
from benchorch.domain.trial import ConfigNode
from benchorch.errors import BenchorchError, BuildError, MeasureError, summary_of
from benchorch.files import read_json, write_json
from benchorch.frameworks.flop_counter import count_model
from benchorch.frameworks.identity.calls import BASELINE, Calls, Consulted, observed
from benchorch.frameworks.module_fingerprint import state_digest
from benchorch.frameworks.module_precision import half_precision, in_dtype
from benchorch.frameworks.module_state import changes, snapshot
from benchorch.frameworks.near_weights import NEAR_DRAWS, near_modules
from benchorch.frameworks.numpy_files import save_arrays, saved
from benchorch.frameworks.tensor_parts import state_bytes
from benchorch.host.environment import available_memory_bytes
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, SAME_ARITHMETIC_RATIO
from benchorch.interfaces.generation import CONTINUATION
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.models.parity_data import data_sets
from benchorch.models.token_data import token_sets
from benchorch.trial.first_calls import first_calls, noise_of_first_calls, not_compared
from benchorch.trial.generation import (
    SCORES,
    cache_of,
    count_generation,
    load_executable,
    with_cache,
)
from benchorch.trial.written_inputs import Written, find_written

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Arrays = Mapping[str, Array]

# The module itself, on the CPU.
_RUNTIME: ConfigNode = {"_target_": "benchorch.runtimes.eager.Eager"}
_MODEL_FILE = "model.json"
# Outputs in float64 are kept up to this size for each input, made where this many times the
# model's size is free, and not where float32 took longer than this for all of them.
_REFEREE_BYTES = 64 * 2**20
_REFEREE_FACTOR = 6
_REFEREE_MOST_S = 20.0
# So many inputs are each answered as a process's first call: all where calls change the model or
# take no longer than this together, else the last of them. One call may take this long and more.
_FIRST_CALLS = 8
_QUICK_S = 2.0
_SLOWEST_S, _SLOWEST_RATIO = 10.0, 20.0

# Calls between the two answers to each input: as many as fit into the shorter time; where calls are
# slow or the machine is busy, so many in the longer one.
_BETWEEN, _BETWEEN_S = 256, 0.5
_BETWEEN_LEAST, _BETWEEN_MOST_S = 64, 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Facts about the baseline besides its outputs.

    Attributes:
        state: digest of the model's weights.
        counts: of the model as it was loaded.
        noise: of two runs in one process.
        outputs: where each is in what the first call returned, and what is no tensor in it.
        unstable: paths of values that are no tensors and differ between two calls.
        model: the class, e.g. ``BertForSequenceClassification``.
        refused: why, by the number of each input set that eager does not take.
        half: the half precision that the baseline computes in, e.g. ``bfloat16``; empty for none.
        cache: the tensors of a decoder's cache; empty for other models.
        note: why outputs of first calls were not compared; empty where they were.
        consulted: state of what the calls consulted beside the module, right after them.
        written: inputs that calls write in place.
    """

    state: str
    counts: ModelCounts
    noise: Noise = field(default_factory=Noise)
    outputs: Outputs
    unstable: tuple[str, ...] = ()
    model: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    half: str = ""
    cache: tuple[TensorSpec, ...] = ()
    note: str = ""
    consulted: Consulted = field(default_factory=dict)
    written: Written = field(default_factory=Written)


def read_reference(directory: Path) -> Reference:
    """Reference stored by `write_reference`."""
    return decode(Reference, read_json(directory / _MODEL_FILE))


def outputs_file(directory: Path, index: int) -> Path:
    """File with eager's outputs of an input set."""
    return directory / f"{index}.npz"


def referee_file(directory: Path, index: int) -> Path:
    """File with eager's float64 outputs of an input set, if there are any."""
    return directory / f"{index}.float64.npz"


def rounded_otherwise(directory: Path, index: int) -> list[Arrays]:
    """Eager's whole numbers for an input set with weights some epsilons away; empty without any."""
    return [saved(file) for file in sorted(directory.glob(f"{index}.near*.npz"))]


def compared_sets(setup: TrialSetup, inputs: int, data: str | None) -> list[Arrays]:
    """Everything that outputs are compared on.

    So many seeded sets, those of other sizes where some are open, then the user's data.
    """
    seed = setup.workload.seed
    seeded = [setup.example(seed + index).arrays for index in range(inputs)]
    more = given_sets(setup, data) if data else []
    return [*seeded, *setup.inputs_of_other_sizes(), *more]


def given_sets(setup: TrialSetup, data: str) -> list[Arrays]:
    """The user's data: inputs of a call, or a text for models that generate."""
    if isinstance(setup.model, Decoder):
        return token_sets(data, setup.model, setup.workload)
    return data_sets(data, setup.model.specs(), setup.workload)


def finest(setup: TrialSetup, reference: Reference) -> float:
    """The least error that two right computations in the baseline's dtype may be apart."""
    import numpy as np

    if reference.half:
        return HALF_PRECISION_RATIOS[reference.half]
    return float(np.finfo(setup.workload.dtype).eps)


def still_answers(
    setup: TrialSetup,
    load: Callable[[], torch.nn.Module],
    directory: Path,
    *,
    sets: Sequence[Arrays],
    threads: int,
) -> bool:
    """Whether eager answers as the reference has it, rounding aside, on as many sets as is quick.

    That no walk over a model's objects reaches what changed is no reason to trust the reference.
    """
    told = read_reference(directory)
    if told.noise.is_random or setup.generates or _is_opaque(load()):
        return True
    plain = replace(setup, steps=())
    until_s = time.monotonic() + _QUICK_S
    with (
        TemporaryDirectory() as scratch,
        closing(eager(plain, load, Path(scratch), threads)) as executable,
    ):
        for index, one in enumerate(sets):
            if index and time.monotonic() > until_s:
                break
            given = model_inputs(setup, one)
            refused = str(index) in told.refused
            if not refused and not _is_answer(setup, executable, given, directory, index):
                return False
    return True


def _is_answer(
    setup: TrialSetup, executable: Executable, given: Arrays, directory: Path, index: int
) -> bool:
    from benchorch.results.parity.judge import parity

    try:
        now = outputs_of(executable, [given])
    except MemoryError:
        raise
    except Exception:  # it took this input before, whatever it raises now
        return False
    told = read_reference(directory)
    return parity(
        without(now, told.unstable),
        without([saved(outputs_file(directory, index))], told.unstable),
        max(SAME_ARITHMETIC_RATIO, finest(setup, told)),
        near=[rounded_otherwise(directory, index)],
        task="none",
    ).passed


def model_inputs(setup: TrialSetup, one: Arrays) -> Arrays:
    """Only what the model is called with: data may hold labels besides."""
    names = {spec.name for spec in setup.model.specs()}
    kept = names | {CONTINUATION}
    return {name: array for name, array in one.items() if not names or name in kept}


def write_reference(
    setup: TrialSetup,
    load: Callable[[], torch.nn.Module],
    out: Path,
    *,
    sets: Sequence[Arrays],
    inputs: int,
    threads: int,
    walked: ConfigNode | None = None,
    state: Callable[[Calls], Consulted] = lambda calls: {},
    replaces: bool = False,
) -> None:
    """Fill the directory with eager's outputs of each set.

    Eager answers all of them and, after more calls, again from the last to the first: whatever
    period a model's state has, some input meets it in another phase, and what counts its calls
    has counted. Nothing is seeded in between. Then processes that continue from before the first
    call answer one input each: what a first call fixes for all later ones, wherever it is kept,
    follows from another input there.

    Args:
        setup: the trial's components.
        load: gives the model.
        out: the directory.
        sets: everything that outputs are compared on.
        inputs: how many of them, the first ones, are seeded.
        threads: threads per call.
        walked: identity of a model that was walked over: its calls are recorded beside that.
        state: of what recorded calls consulted.
        replaces: one of an equal model that answers otherwise, which nothing but outputs shows.
    """
    given = [model_inputs(setup, one) for one in sets]
    setup = with_cache(replace(setup, steps=()), cache_of(setup, load()))
    with ExitStack() as opened:
        as_first = opened.enter_context(first_calls(_answering(setup, load(), given, out)))
        executable = opened.enter_context(closing(eager(setup, load, out, threads)))
        before = snapshot(load())
        started_s = time.monotonic()
        with ExitStack() as recording:
            calls = (
                recording.enter_context(observed(walked))
                if walked is not None and not _is_opaque(load())
                else None
            )
            first, refused = _tolerant(executable, given)
        consulted = dict(state(calls)) if calls else {}
        if replaces:
            consulted[BASELINE] = {"outputs": digest_of([*map(digest_of_arrays, first.values())])}
        took_s = time.monotonic() - started_s
        between = {}
        if not (setup.generates or _is_opaque(load())):
            between = _call_often(executable, given, first)
        last = {index: outputs_of(executable, [given[index]])[0] for index in reversed(first)}
        again = {index: _further(index, one, last[index], between) for index, one in first.items()}
        outputs = (
            Outputs(tensors=(SCORES,)) if setup.generates else _described(executable, given[0])
        )
        written = Written()
        if not (setup.generates or _is_opaque(load())):
            looked_at = first if took_s <= _QUICK_S else {0: first[0]}
            written = find_written(
                executable, {index: given[index] for index in looked_at}, looked_at, out
            )
        changed = changes(load(), before, snapshot(load()))
        most = _FIRST_CALLS if changed or took_s <= _QUICK_S else 1
        numbers = [*first][:_FIRST_CALLS][-most:]
        limit_s = _SLOWEST_S + _SLOWEST_RATIO * took_s
        alone = as_first(numbers, limit_s)
        if not (changed or _is_opaque(load())) and _differ(first, again, alone):
            # What alternates may be as it was at first; then it is not after one more call.
            outputs_of(executable, [given[0]])
            changed = changes(load(), before, snapshot(load()))
    for index, each in first.items():
        save_arrays(outputs_file(out, index), each)
    unstable = _unstable(outputs, [*first.values()], [*again.values()])
    noise = _noise(
        _without(first, unstable),
        _without(again, unstable),
        _without(alone, unstable),
        epsilon=_epsilon(half_precision(load()) or setup.workload.dtype),
        changed=changed,
    )
    size = max(sum(array.size * 8 for array in each.values()) for each in first.values())
    if size <= _REFEREE_BYTES and took_s <= _REFEREE_MOST_S:
        kept = {index: given[index] for index in first}
        _write_referee(setup, load(), out, kept, threads)
        _write_near(setup, load(), out, first, kept, took_s, threads)
    reference = Reference(
        state=state_digest(load()),
        counts=_counted(setup, load(), [each for each in refused if int(each) < inputs]),
        noise=noise,
        outputs=outputs,
        unstable=unstable,
        model=type(load()).__name__,
        refused=refused,
        half=half_precision(load()),
        cache=cache_of(setup, load()),
        note="; ".join(filter(None, (_note_of(load()), not_compared(numbers, alone, limit_s)))),
        consulted=consulted,
        written=written,
    )
    write_json(out / _MODEL_FILE, encode(reference))


def _noise(
    first: Mapping[int, Arrays],
    again: Mapping[int, Arrays],
    alone: Mapping[int, Arrays],
    *,
    epsilon: float,
    changed: tuple[str, ...],
) -> Noise:
    """Between the two runs; where that is rounding, between first calls and later ones."""
    from benchorch.results.parity.noise import noise_between

    noise = noise_between([*first.values()], [*again.values()], epsilon=epsilon)
    noise = replace(noise, causes=changed if noise.where else ())
    if noise.is_random:
        return noise
    of_first_calls = noise_of_first_calls(first, alone, epsilon, changed)
    return of_first_calls if of_first_calls.where else noise


def _answering(
    setup: TrialSetup, module: torch.nn.Module, given: Sequence[Arrays], scratch: Path
) -> Callable[[int], Arrays] | None:
    """Answers the input of a number; None for what works outside of torch."""
    if _is_opaque(module):
        return None

    def answer(number: int) -> Arrays:
        with closing(eager(setup, lambda: module, scratch, threads=1)) as executable:
            return outputs_of(executable, [given[number]])[0]

    return answer


def _is_opaque(module: torch.nn.Module) -> bool:
    """Whether it works outside of torch, such as a server that each call costs."""
    from benchorch.frameworks.opaque_module import OpaqueModule

    return isinstance(module, OpaqueModule)


def _note_of(module: torch.nn.Module) -> str:
    from benchorch.frameworks.opaque_module import OpaqueModule

    return module.note() if isinstance(module, OpaqueModule) else ""


def _counted(
    setup: TrialSetup, module: torch.nn.Module, refused: Collection[str] = ()
) -> ModelCounts:
    """The model's size, and the work of one call as its scenario makes it.

    Where sizes are open, the mean over the inputs that calls rotate through; each size counts once.
    """
    by_shapes: dict[str, ModelCounts] = {}
    counts = []
    for number in range(INPUT_SETS if setup.workload.dynamic else 1):
        if str(number) in refused:
            continue
        one = replace(setup, workload=setup.workload.of_input(number))
        example = one.example(setup.workload.seed + number)
        shapes = str([(name, each.shape) for name, each in example.arrays.items()])
        if shapes not in by_shapes:
            by_shapes[shapes] = (
                count_generation(module, one, count_model)
                if setup.generates
                else count_model(module, example)
            )
        counts.append(by_shapes[shapes])
    return _mean_of(counts)


def _mean_of(counts: Sequence[ModelCounts]) -> ModelCounts:
    """The first, with the work of one call on average; the first unknown one, if there is any."""
    macs = [each.macs for each in counts if each.macs is not None]
    flops = [each.flops for each in counts if each.flops is not None]
    if not len(macs) == len(flops) == len(counts):
        return next(each for each in counts if each.macs is None or each.flops is None)
    mean_macs, mean_flops = (round(sum(each) / len(counts)) for each in (macs, flops))
    return replace(counts[0], macs=mean_macs, flops=mean_flops)


def eager(
    setup: TrialSetup, load: Callable[[], torch.nn.Module], scratch: Path, threads: int
) -> Executable:
    """The baseline, ready to be called."""
    runtime = make(_RUNTIME, Runtime, "reference")
    return load_executable(
        setup,
        runtime,
        LoadRequest(
            module=load,
            source=None,
            sources={},
            example=setup.example(setup.workload.seed),
            device="cpu",
            threads=threads,
            scratch_dir=scratch,
        ),
    )


def _call_often(
    executable: Executable, given: Sequence[Arrays], first: Mapping[int, Arrays]
) -> dict[int, Arrays]:
    """Call as timing will: a model that counts its calls may answer otherwise after some.

    Returns the answer to each input that is furthest from the first one, where any is another:
    what one call in thirty does shows in many calls alone.
    """
    furthest: dict[int, Arrays] = {}
    started_s = time.monotonic()
    # One more call than two rounds have: each input meets a state of any period in all its phases.
    order = [*first, *first, next(iter(first))]
    for count, index in enumerate(islice(cycle(order), _BETWEEN)):
        limit_s = _BETWEEN_MOST_S if count < _BETWEEN_LEAST else _BETWEEN_S
        if time.monotonic() - started_s > limit_s:
            break
        answer = outputs_of(executable, [given[index]])[0]
        if not _is_equal(answer, first[index]):
            furthest[index] = _further(index, first[index], answer, furthest)
    return furthest


def _is_equal(one: Arrays, other: Arrays) -> bool:
    """Whether both have the same bits, but for NaN in whatever spelling."""
    import numpy as np

    return {*one} == {*other} and all(
        np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    )


def _differ(first: Mapping[int, Arrays], *others: Mapping[int, Arrays]) -> bool:
    """Whether an input has another answer in one of the others."""
    return any(
        not _is_equal(first[index], answer) for other in others for index, answer in other.items()
    )


def _further(index: int, first: Arrays, answer: Arrays, others: Mapping[int, Arrays]) -> Arrays:
    """Of an answer and another to the same input, if there is one, the further from the first."""
    from benchorch.results.parity.noise import noise_between

    if index not in others:
        return answer
    noises = [noise_between([first], [one]) for one in (answer, others[index])]
    sizes = [(noise.beyond_rounding, noise.ratio) for noise in noises]
    return answer if sizes[0] >= sizes[1] else others[index]


def _tolerant(
    executable: Executable, given: Sequence[Arrays]
) -> tuple[dict[int, Arrays], dict[str, str]]:
    """Outputs by number; and why eager refuses others, which is no reason to fail but the first."""
    first: dict[int, Arrays] = {}
    refused = {}
    for index, arrays in enumerate(given):
        try:
            first[index] = outputs_of(executable, [arrays])[0]
        except MemoryError:
            raise
        except Exception as error:  # a user's model may refuse in any way
            if isinstance(error, MeasureError if index else BenchorchError):
                raise
            raised = summary_of(error)
            if index == 0:
                raise _unfit(raised, arrays) from error
            refused[str(index)] = raised
    return first, refused


def _unfit(raised: str, arrays: Arrays) -> BuildError:
    """What the model raised at its first call, with the shapes of that call."""
    given = ", ".join(f"{name} {each.dtype}{[*each.shape]}" for name, each in arrays.items())
    return BuildError(
        f"The model raised {raised} when it was called with {given}",
        kind=f"raised:{raised.partition(':')[0]}",
        remedy="model.inputs that fit the model; the traceback in the trial's log shows where",
    )


def outputs_of(
    executable: Executable, given: Sequence[Arrays], known: Outputs | None = None
) -> list[Arrays]:
    """Copies of each set's outputs: some backends write every call's into the same memory.

    Args:
        executable: of the model, converted or not.
        given: the inputs of each call.
        known: what the calls return where they themselves do not show it, as files do not.
    """
    return [_called(executable, one, known) for one in given]


def _called(executable: Executable, one: Arrays, known: Outputs | None) -> Arrays:
    answered = executable.answer(one)
    if answered is not None:
        return answered
    raw = executable.bind(one)()
    tensors = {name: array.copy() for name, array in executable.outputs(raw).items()}
    what = executable.returned(raw) or known
    return what.named(tensors) if what is not None else tensors


def _described(executable: Executable, one: Arrays) -> Outputs:
    raw = executable.bind(one)()
    return executable.returned(raw) or Outputs(tensors=tuple(executable.outputs(raw)))


def _unstable(
    outputs: Outputs, first: Sequence[Arrays], again: Sequence[Arrays]
) -> tuple[str, ...]:
    """Paths of values other than tensors that differ between calls, such as times and counters."""
    pairs = list(zip(first, again, strict=True))
    return tuple(
        path
        for path, value in outputs.constants.items()
        if value is not None
        and any(_is_other(one.get(path), other.get(path)) for one, other in pairs)
    )


def _is_other(one: Array | None, other: Array | None) -> bool:
    """Whether two values that are no tensors differ; another input may have a tensor there."""
    return not any(each is not None and each.ndim for each in (one, other)) and bool(one != other)


def without(sets: Sequence[Arrays], paths: Collection[str]) -> list[Arrays]:
    """Outputs without those of some paths."""
    return [{name: each for name, each in one.items() if name not in paths} for one in sets]


def _without(sets: Mapping[int, Arrays], paths: Collection[str]) -> dict[int, Arrays]:
    return dict(zip(sets, without([*sets.values()], paths), strict=True))


def _epsilon(dtype: str) -> float:
    import torch

    return torch.finfo(getattr(torch, dtype)).eps


def _write_referee(
    setup: TrialSetup,
    module: torch.nn.Module,
    out: Path,
    given: Mapping[int, Arrays],
    threads: int,
) -> None:
    """Write the float64 outputs of a copy of the model, where supported and memory allows."""
    import numpy as np

    if available_memory_bytes() < _REFEREE_FACTOR * state_bytes(module):
        return
    try:
        wide = in_dtype(copy.deepcopy(module), "float64")
        with closing(eager(setup, lambda: wide, out, threads)) as executable:
            found = dict(zip(given, outputs_of(executable, list(given.values())), strict=True))
    except Exception:  # a model may hold to its dtype in as many ways as there are models
        return
    for index, outputs in found.items():
        if all(array.dtype not in (np.float32, np.complex64) for array in outputs.values()):
            save_arrays(referee_file(out, index), outputs)


def _write_near(
    setup: TrialSetup,
    module: torch.nn.Module,
    out: Path,
    first: Mapping[int, Arrays],
    given: Mapping[int, Arrays],
    took_s: float,
    threads: int,
) -> None:
    """Write the whole numbers and booleans that become others with weights some epsilons away.

    What the baseline's own rounding decides is no decision that a conversion could keep.
    """
    whole = {name for one in first.values() for name, a in one.items() if a.dtype.kind in "biu"}
    slow = took_s * NEAR_DRAWS > _REFEREE_MOST_S
    if setup.generates or not whole or slow:
        return
    if available_memory_bytes() < _REFEREE_FACTOR * state_bytes(module):
        return
    try:
        for draw, near in enumerate(near_modules(copy.deepcopy(module))):
            with closing(eager(setup, partial(_itself, near), out, threads)) as executable:
                for index, one in given.items():
                    answer = outputs_of(executable, [one])[0]
                    kept = {name: answer[name] for name in whole & {*answer}}
                    save_arrays(out / f"{index}.near{draw}.npz", kept)
    except Exception:  # a copy may refuse in as many ways as there are models
        for file in out.glob("*.near*.npz"):
            file.unlink()


def _itself(module: torch.nn.Module) -> torch.nn.Module:
    return module
