"""The parity gate's verdict on arrays, and on a model through one conversion, in this process.

What judges and what is judged are the product's own: build, reference, load, check.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchorch.domain.codec import Json
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.session import Session
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.domain.verdict import Verdict
from benchorch.interfaces.model import Model
from benchorch.models.input_variation import varied
from benchorch.models.seeding import frozen
from benchorch.results.parity.noise import noise_between
from benchorch.stores.local import LocalStore
from benchorch.trial.build import BuildJob
from benchorch.trial.check import check, rechecked
from benchorch.trial.measuring_process import load
from benchorch.trial.stages import BuiltTrial
from benchorch.trial.verify import verify
from support import conversions as lab

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, NDArray[np.generic]]


def judge_arrays(
    outputs: Sequence[Arrays],
    references: Sequence[Arrays],
    *,
    tolerance: float,
    inputs: Sequence[Arrays] = (),
    task: str = "auto",
    references_again: Sequence[Arrays] | None = None,
    referees: Sequence[Arrays] = (),
) -> Verdict:
    """The verdict on outputs that are already there.

    Args:
        outputs, references: of each input, by name.
        tolerance: what the conversion may cost, e.g. 1e-4 for float32 and 5e-2 for int8.
        inputs: what was computed on.
        task: as ``parity.task``.
        references_again: the baseline's second outputs of the same inputs.
        referees: the baseline's in float64.
    """
    noise = None if references_again is None else noise_between(references, references_again)
    return verify(
        outputs, references, tolerance, inputs=inputs, referees=referees, noise=noise, task=task
    )


def judge_model(
    factory: Callable[[], torch.nn.Module],
    example: Arrays | Sequence[Arrays],
    conversion: str,
    *,
    task: str = "auto",
    data: str | None = None,
    inputs: int = 0,
    timed_calls: int = 0,
    changes: Mapping[str, Mapping[str, Json]] | None = None,
) -> Verdict:
    """The verdict on a model through a conversion, as a trial of it would have.

    Args:
        factory: makes the module; called for the baseline and again for what is converted.
        example: inputs by the names of forward's arguments, or several such sets; the product's
            own variations are added until there are as many as are timed.
        conversion: as after ``conversion=``.
        task, data, inputs: as in ``parity``; all sets are compared unless so many are requested.
        timed_calls: how often it is called between the check and the one after it.
        changes: options of the chain's steps, and of its ``runtime``.
    """
    examples = [example] if isinstance(example, Mapping) else list(example)
    sets = tuple(varied(examples, INPUT_SETS))
    rows = {len(array) for array in examples[0].values() if array.ndim}
    batch = {"batch_size": rows.pop()} if len(rows) == 1 else {}
    model = GivenModel(factory=factory, sets=sets, batched=bool(batch))
    workload = Workload(symbols=batch, dtype="float32")
    spec, chain = lab.chain_around(model, conversion, workload, changes=changes)
    inputs = inputs or len(sets)
    spec["parity"] = {**spec["parity"], "task": task, "data": data, "inputs": inputs}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        scratch = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder))
        with mock.patch.object(LocalStore, "scratch", return_value=scratch):
            job = BuildJob(
                setup=chain,
                name="parity lab",
                store=LocalStore(root=str(directory / "store")),
                session=Session(plan_id="p", directory=directory, store={}, rebuild="if_needed"),
                inputs=inputs,
                threads=lab.THREADS,
                data=data,
            )
            built = job.build(lambda _: None)
            trial = BuiltTrial(spec=spec, built=built, threads=lab.THREADS, pin=False)
            loaded = load(trial, chain, lambda _: None)
            with closing(loaded.executable):
                verdict, again = check(trial, loaded), rechecked(trial, loaded)
                for call in islice(cycle(loaded.calls), timed_calls):
                    call()
                return again(verdict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GivenModel(Model):
    """A factory in this process, with the inputs that it is judged on.

    Attributes:
        factory: makes the module.
        sets: the inputs by seed.
        batched: whether all of them share their first size.
    """

    factory: Callable[[], torch.nn.Module]
    sets: tuple[Arrays, ...]
    batched: bool

    def load(self, seed: int) -> torch.nn.Module:
        import torch

        torch.manual_seed(seed)
        return frozen(self.factory())

    def specs(self) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                name=name,
                shape=("batch_size", *array.shape[1:])
                if self.batched and array.ndim
                else array.shape,
                dtype=array.dtype.name,
            )
            for name, array in self.sets[0].items()
        )

    def batch(self, workload: Workload, seed: int) -> Arrays:
        return self.sets[seed % len(self.sets)]

    def keywords(self) -> Mapping[str, Json]:
        return {}

    def identity(self) -> Mapping[str, Json]:
        """Nobody else's: two factories may make anything."""
        return {"judged": uuid.uuid4().hex}

    def problems(self, workload: Workload) -> list[str]:
        return []
