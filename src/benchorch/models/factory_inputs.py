"""Input tensors from a user's own callable that yields batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.models.callables import callable_problems, resolve_callable, user_code
from benchorch.models.declared import key_problems, unique
from benchorch.models.declared_batches import DeclaredBatches, mapping_at
from benchorch.models.seeding import seeded

_OPTIONS = ("factory", "arguments", "tensors")
_MOST_BATCHES = 16  # a seed picks one of the first so many: a stream may be endless


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryInputs:
    """Batches of a callable: mappings of names to numpy arrays or torch tensors.

    Attributes:
        node: ``factory`` as ``package.module:callable``, ``arguments`` it is called with, and
            ``tensors``: each name's ``shape`` and ``dtype``, since a plan does not call it.
    """

    node: Mapping[str, Json]

    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs declared under ``tensors``."""
        return self._declared().specs()

    def problems(self, workload: Workload) -> list[str]:
        """Problems of the callable and of the declared tensors."""
        arguments = mapping_at(self.node, "arguments")
        return unique(
            [
                *key_problems("model.inputs", self.node, _OPTIONS),
                *callable_problems("model.inputs.factory", self._reference(), arguments),
                *self._declared().problems(workload),
            ]
        )

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """Batch selected by the seed and checked against the declaration."""
        make, declared = resolve_callable(self._reference()), self._declared()
        with user_code(self._reference()), seeded(seed):
            yielded = _pick(make(**mapping_at(self.node, "arguments")), seed, declared)
        return declared.arrays(yielded, workload)

    def _reference(self) -> str:
        return str(self.node["factory"])

    def _declared(self) -> DeclaredBatches:
        return DeclaredBatches(
            tensors=mapping_at(self.node, "tensors"), reference=self._reference()
        )


def _pick(batches: object, seed: int, declared: DeclaredBatches) -> Mapping[str, object]:
    if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
        raise declared.refusal(f"a {type(batches).__name__}, which is no series of batches")
    seen = list(islice(batches, seed % _MOST_BATCHES + 1))
    if not seen:
        raise declared.refusal("no batch at all")
    picked = seen[seed % _MOST_BATCHES % len(seen)]
    if not isinstance(picked, Mapping):
        raise declared.refusal(f"a {type(picked).__name__}, which names no tensors")
    return picked
