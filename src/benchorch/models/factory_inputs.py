"""Input tensors from a user's own callable that yields batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.models.callables import UserCode, callable_problems, resolve_callable
from benchorch.models.declared import (
    dtype_of,
    dtype_problems,
    key_problems,
    shape_problems,
    symbol_problems,
    tensor_spec,
    unique,
)
from benchorch.models.seeding import seeded

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

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
        """As declared under ``tensors``."""
        return tuple(
            tensor_spec(name, tensor.get("shape"), tensor.get("dtype"))
            for name, tensor in self._tensors().items()
        )

    def problems(self, workload: Workload) -> list[str]:
        """Whether the callable exists and the tensors are declared."""
        found = key_problems("model.inputs", self.node, _OPTIONS)
        found += callable_problems(
            "model.inputs.factory", str(self.node["factory"]), _mapping(self.node.get("arguments"))
        )
        tensors = _mapping(self.node.get("tensors"))
        if not tensors:
            found.append(
                "model.inputs.tensors: is missing; declare each tensor the factory yields, "
                "e.g. {x: {shape: [batch_size, 16], dtype: float32}}."
            )
        for name, tensor in tensors.items():
            found += _tensor_problems(f"model.inputs.tensors.{name}", tensor, workload)
        return unique(found)

    def batch(self, workload: Workload, seed: int) -> Mapping[str, NDArray[generic]]:
        """One of the batches, picked by the seed, checked against what was declared."""
        reference = str(self.node["factory"])
        make = resolve_callable(reference)
        with UserCode(reference), seeded(seed):
            yielded = _pick(make(**_mapping(self.node.get("arguments"))), seed, reference)
        return {spec.name: self._array(spec, yielded, workload, reference) for spec in self.specs()}

    def _array(
        self, spec: TensorSpec, yielded: Mapping[str, object], workload: Workload, reference: str
    ) -> NDArray[generic]:
        if spec.name not in yielded:
            raise _refusal(reference, f"a batch without {spec.name!r}; it has {list(yielded)}")
        array = _as_numpy(yielded[spec.name], reference)
        wanted = spec.resolve(workload.symbols)
        if array.shape != wanted:
            raise _refusal(
                reference, f"{spec.name} of shape {array.shape} where {wanted} is declared"
            )
        stated = self._tensors()[spec.name].get("dtype")
        if stated is None and array.dtype.kind == "f":
            return array.astype(dtype_of(None, workload))
        if stated is not None and array.dtype.name != stated:
            raise _refusal(reference, f"{spec.name} as {array.dtype} where {stated} is declared")
        return array

    def _tensors(self) -> Mapping[str, Mapping[str, Json]]:
        tensors = _mapping(self.node.get("tensors"))
        return {name: node for name, node in tensors.items() if isinstance(node, Mapping)}


def _tensor_problems(where: str, tensor: Json, workload: Workload) -> list[str]:
    if not isinstance(tensor, Mapping):
        return [f"{where}: must be a mapping with shape and dtype, got {tensor!r}."]
    shape = tensor.get("shape")
    return [
        *key_problems(where, tensor, ("shape", "dtype")),
        *shape_problems(where, shape),
        *symbol_problems(shape, workload),
        *dtype_problems(where, tensor.get("dtype"), workload),
    ]


def _mapping(node: Json) -> Mapping[str, Json]:
    return node if isinstance(node, Mapping) else {}


def _pick(batches: object, seed: int, reference: str) -> Mapping[str, object]:
    if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
        raise _refusal(reference, f"a {type(batches).__name__}, which is no series of batches")
    seen = list(islice(batches, seed % _MOST_BATCHES + 1))
    if not seen:
        raise _refusal(reference, "no batch at all")
    picked = seen[seed % _MOST_BATCHES % len(seen)]
    if not isinstance(picked, Mapping):
        raise _refusal(reference, f"a {type(picked).__name__}, which names no tensors")
    return picked


def _as_numpy(tensor: object, reference: str) -> NDArray[generic]:
    """A numpy array as it is; a torch tensor through its own conversion, torch unimported here."""
    import numpy as np

    with UserCode(reference):
        detach = getattr(tensor, "detach", None)
        return np.asarray(tensor if detach is None else detach().cpu().numpy())


def _refusal(reference: str, what: str) -> BuildError:
    return BuildError(f"{reference} yielded {what}", kind="user_code")
