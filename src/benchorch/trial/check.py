"""The check of a loaded trial: are its outputs still eager's? Outside the timed region."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchorch.config.parity_setup import ParitySetup, parity_setup
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import Format
from benchorch.domain.outputs import Outputs
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.tensors import digest_of_arrays
from benchorch.domain.verdict import Kind, Verdict
from benchorch.frameworks.numpy_files import save_arrays, saved
from benchorch.frameworks.program_outputs import recorded_outputs
from benchorch.host.memory import reset_own_peak
from benchorch.interfaces.conversion import (
    SAME_ARITHMETIC_RATIO,
    ModuleStep,
    StateStep,
)
from benchorch.interfaces.generation import CONTINUATION
from benchorch.interfaces.runtime import Executable
from benchorch.results.parity.tokens import judge_tokens
from benchorch.trial.divergence import first_divergence
from benchorch.trial.generation import SCORES, continued, with_cache
from benchorch.trial.live_module import module_of
from benchorch.trial.measuring_process import LoadedTrial
from benchorch.trial.reference import (
    Reference,
    compared_sets,
    eager,
    finest,
    model_inputs,
    outputs_file,
    outputs_of,
    read_reference,
    referee_file,
    rounded_otherwise,
    without,
)
from benchorch.trial.stages import BuiltTrial
from benchorch.trial.verify import verify
from benchorch.trial.written_inputs import with_written

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[generic]]

# The answers to so many timed inputs are kept as come within this time, and to the first in any.
_RECHECKED_S = 0.5

_NOTHING = (
    "no output has a finite value for any input, so nothing could be compared: provide inputs for "
    "which there are some, e.g. parity.data=FILE.npz."
)


def check(trial: BuiltTrial, loaded: LoadedTrial) -> Verdict:
    """The outputs of every compared input against the reference's.

    Where they differ, eager itself runs in this process: a model that answers otherwise in each
    process differs from itself, whatever its conversion did.
    """
    setup, settings = loaded.setup, parity_setup(trial.spec)
    reference = read_reference(trial.built.reference)
    everything = dict(enumerate(compared_sets(setup, settings.inputs, settings.data)))
    sets = {n: one for n, one in everything.items() if str(n) not in reference.refused}
    verdict = _judged(trial, setup, settings, reference, sets, loaded.executable)
    more = (*_refusals(reference), *_left_out(settings), *filter(None, [reference.note]))
    verdict = replace(verdict, notes=(*verdict.notes, *more))
    if verdict.kind is Kind.DIFFERS:
        verdict = _explained(trial, setup, verdict, sets, reference)
    if not setup.generates:
        verdict = with_written(
            verdict,
            loaded.executable,
            {number: model_inputs(setup, one) for number, one in sets.items()},
            reference.written,
            trial.built.reference,
            ignored=settings.ignore_written_inputs or settings.least_score is not None,
        )
    reset_own_peak()  # outputs and references, perhaps further models, were here for a moment
    return verdict


def rechecked(trial: BuiltTrial, loaded: LoadedTrial) -> Callable[[Verdict], Verdict]:
    """Keep the answers to the timed inputs; what is returned compares them with later ones.

    The answers are kept in files: memory is measured meanwhile.
    """
    place = TemporaryDirectory()
    count = 0
    if not loaded.setup.generates:  # whose texts take long
        started_s = time.monotonic()
        for answer in _answers(loaded, len(loaded.batches)):
            save_arrays(Path(place.name, f"{count}.npz"), answer)
            count += 1
            if time.monotonic() - started_s > _RECHECKED_S:
                break
        reset_own_peak()

    def again(verdict: Verdict) -> Verdict:
        with place:
            if not (verdict.passed and count):
                return verdict
            unstable = read_reference(trial.built.reference).unstable
            now = [*_answers(loaded, count)]
            before = [saved(Path(place.name, f"{number}.npz")) for number in range(count)]
            found = verify(
                without(now, unstable),
                without(before, unstable),
                verdict.tolerance_ratio,
                task="none",
            )
        if found.passed:
            return verdict
        return verdict.not_deterministic(
            "the model is not deterministic: after the timed calls it answers otherwise than "
            f"before them ({found.reasons[0].rstrip('.')}).",
        )

    return again


def _answers(loaded: LoadedTrial, count: int) -> Iterator[Arrays]:
    for batch in loaded.batches[:count]:
        yield outputs_of(loaded.executable, [model_inputs(loaded.setup, batch)])[0]


def _judged(
    trial: BuiltTrial,
    setup: TrialSetup,
    settings: ParitySetup,
    told: Reference,
    sets: Mapping[int, Arrays],
    executable: Executable,
) -> Verdict:
    reference = trial.built.reference
    before_data = settings.inputs + len(setup.workload.of_other_sizes())
    files = [referee_file(reference, number) for number in sets]
    known = recorded_outputs(trial.built.sources)
    references = [saved(outputs_file(reference, number)) for number in sets]
    given = [model_inputs(setup, one) for one in sets.values()]
    if setup.generates:
        given = [continued(one, ref) for one, ref in zip(given, references, strict=True)]
    ours = outputs_of(executable, given, known or Outputs(tensors=told.outputs.tensors))
    left_out = _not_compared(told, known, ours[0])
    verdict = verify(
        without(ours, left_out),
        without(references, left_out),
        # No conversion can agree better than the dtype that the baseline itself computes in.
        max(setup.tolerance_ratio, finest(setup, told)),
        referees=[saved(file) for file in files] if all(file.exists() for file in files) else (),
        near=[rounded_otherwise(reference, number) for number in sets],
        inputs=given if setup.generates else list(sets.values()),
        noise=told.noise,
        task=settings.task,
        model=told.model,
        metric=settings.metric,
        least_score=settings.least_score,
        data_from=sum(number < before_data for number in sets) if settings.data else 0,
    )
    notes = (
        f"output {path} is no tensor and was not compared: {why}" for path, why in left_out.items()
    )
    verdict = replace(verdict, notes=(*verdict.notes, *notes))
    if verdict.passed and not any(_has_value(each) for one in references for each in one.values()):
        verdict = replace(verdict, passed=False, kind=Kind.DIFFERS, reasons=(_NOTHING,))
    if not setup.generates:
        return verdict
    pairs = [(a[SCORES], b[SCORES]) for a, b in zip(ours, references, strict=True)]
    texts = {n: one[CONTINUATION] for n, one in enumerate(sets.values()) if CONTINUATION in one}
    return judge_tokens(verdict, pairs, texts)


def _has_value(array: NDArray[generic]) -> bool:
    """Whether it holds anything but NaN and infinities, which are equal whatever was computed."""
    import numpy as np

    return bool(np.isfinite(array).any()) if array.dtype.kind in "fc" else array.size > 0


def _not_compared(reference: Reference, known: Outputs | None, ours: Arrays) -> dict[str, str]:
    """Why, by the path of each value that is no tensor."""
    values = [path for path, each in reference.outputs.constants.items() if each is not None]
    lost = [path for path in values if known is None and path not in ours]
    return {
        **dict.fromkeys(lost, "the conversion's files hold tensors alone."),
        **dict.fromkeys(known.unknown if known else (), "it may depend on an open size."),
        **dict.fromkeys(reference.outputs.unknown, "it is of a class that shows no values."),
        **dict.fromkeys(reference.unstable, "the baseline itself gives another one at each call."),
    }


def _refusals(reference: Reference) -> list[str]:
    return [
        f"eager does not take input {number}, which was left out: {why}"
        for number, why in reference.refused.items()
    ]


def _left_out(settings: ParitySetup) -> Iterator[str]:
    if settings.inputs < INPUT_SETS:
        yield f"{settings.inputs} of the {INPUT_SETS} timed inputs were compared: parity.inputs."


def _explained(
    trial: BuiltTrial,
    setup: TrialSetup,
    verdict: Verdict,
    sets: Mapping[int, Arrays],
    reference: Reference,
) -> Verdict:
    """The verdict with where it begins, or that eager or its inputs differ in this process."""
    setup = with_cache(setup, trial.built.cache)
    plain = with_cache(replace(setup, steps=()), trial.built.cache)
    original = module_of(plain, {})
    given = [model_inputs(setup, one) for one in sets.values()]
    again = _eager_again(plain, original, trial, given)
    if again:
        references = [saved(outputs_file(trial.built.reference, number)) for number in sets]
        same = max(SAME_ARITHMETIC_RATIO, finest(setup, reference))
        first, second = (without(side, reference.unstable) for side in (references, again))
        near = [rounded_otherwise(trial.built.reference, number) for number in sets]
        other = verify(second, first, same, near=near, task="none")
        if not other.passed:
            settings = parity_setup(trial.spec)
            now = dict(enumerate(compared_sets(setup, settings.inputs, settings.data)))
            if digest_of_arrays(*(now.get(n, {}) for n in sets)) != digest_of_arrays(
                *sets.values()
            ):
                return verdict.not_deterministic(
                    "the inputs are not deterministic: parity.data or model.inputs gives other "
                    "arrays at each call. Seed its generator.",
                )
            return verdict.not_deterministic(
                "the model is not deterministic: in another process the baseline itself answers "
                f"otherwise ({other.reasons[0].rstrip('.')}): perhaps Python's hash seed, time, "
                "addresses or files.",
            )
    divergence = first_divergence(
        original=original,
        # The same module: what it computed is recorded before the steps change it.
        converted=module_of(setup, trial.built.states, original),
        changed=any(isinstance(step, ModuleStep | StateStep) for _, step in setup.steps),
        program=trial.built.sources.get(Format.EXPORTED_PROGRAM),
        example=setup.example(setup.workload.seed),
        tolerance_ratio=verdict.tolerance_ratio,
    )
    return replace(verdict, first_divergence=divergence)


def _eager_again(
    plain: TrialSetup,
    load: Callable[[], torch.nn.Module],
    trial: BuiltTrial,
    given: Sequence[Arrays],
) -> list[Arrays]:
    """Eager's outputs in this process; empty where it cannot run here."""
    try:
        with closing(eager(plain, load, trial.built.scratch, trial.threads)) as executable:
            return outputs_of(executable, given)
    except MemoryError:
        raise
    except Exception:  # it must not cost the verdict
        return []
