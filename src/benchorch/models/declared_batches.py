"""Batches that a user's own code yields, checked against the tensors that a YAML declares.

A plan does not call the code, so the YAML says each tensor's shape and dtype under ``tensors``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array, TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.frameworks.host_arrays import array_of, numpy_dtype
from benchorch.models.callables import user_code
from benchorch.models.declared import (
    dtype_for,
    dtype_problems,
    key_problems,
    shape_problems,
    symbol_problems,
    tensor_spec,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredBatches:
    """Contents required of every batch of a source.

    Attributes:
        tensors: by each tensor's name ``shape`` and ``dtype``.
        reference: where the batches come from, for messages.
    """

    tensors: Mapping[str, Json]
    reference: str

    def specs(self) -> tuple[TensorSpec, ...]:
        """Declared specs in order."""
        return tuple(
            tensor_spec(name, node.get("shape"), node.get("dtype"))
            for name, node in self._nodes().items()
        )

    def problems(self, workload: Workload) -> list[str]:
        """Problems of the declaration."""
        if not self.tensors:
            return [
                "model.inputs.tensors: is missing; declare each tensor of a batch, "
                "e.g. {x: {shape: [batch_size, 16], dtype: float32}}."
            ]
        return [
            problem
            for name, tensor in self.tensors.items()
            for problem in _tensor_problems(f"model.inputs.tensors.{name}", tensor, workload)
        ]

    def arrays(self, yielded: Mapping[str, object], workload: Workload) -> dict[str, Array]:
        """The declared tensors of one batch; BuildError where the batch differs."""
        return {spec.name: self._array(spec, yielded, workload) for spec in self.specs()}

    def refusal(self, what: str) -> BuildError:
        """BuildError for what a user's code yielded."""
        return BuildError(f"{self.reference} yielded {what}", kind="user_code")

    def _array(self, spec: TensorSpec, yielded: Mapping[str, object], workload: Workload) -> Array:
        if spec.name not in yielded:
            raise self.refusal(f"a batch without {spec.name!r}; it has {list(yielded)}")
        array = as_numpy(yielded[spec.name], self.reference)
        if not spec.admits(array.shape, workload):
            wanted = spec.resolve(workload.symbols)
            raise self.refusal(f"{spec.name} of shape {array.shape} where {wanted} is declared")
        stated = self._nodes()[spec.name].get("dtype")
        if stated is None:
            return array.astype(numpy_dtype(dtype_for(array.dtype.name, None, workload)))
        if array.dtype.name != stated:
            raise self.refusal(f"{spec.name} as {array.dtype} where {stated} is declared")
        return array

    def _nodes(self) -> dict[str, Mapping[str, Json]]:
        return {name: node for name, node in self.tensors.items() if isinstance(node, Mapping)}


def mapping_at(node: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    """A mapping within a node, empty where there is none."""
    found = node.get(key)
    return found if isinstance(found, Mapping) else {}


def as_numpy(tensor: object, reference: str) -> Array:
    """A numpy array as it is; a torch tensor on the host, in its own dtype."""
    with user_code(reference):
        return array_of(tensor)


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
