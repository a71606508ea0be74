"""Input tensors of a model: generated from a seed, read from a file, or a user's own."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.errors import Correction, Problem
from benchorch.models.declared import (
    dtype_of,
    dtype_problems,
    shape_problems,
    symbol_problems,
    tensor_spec,
    unique,
)
from benchorch.models.generators import generator, generator_problems, with_generator


class InputSet(Protocol):
    """The inputs of one model; only `batch` may import numpy, and none imports torch itself."""

    def specs(self) -> tuple[TensorSpec, ...]:
        """Each tensor with its symbolic shape."""
        ...

    def problems(self, workload: Workload) -> list[str]:
        """Every mistake, one sentence each."""
        ...

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """One array per tensor."""
        ...


def input_set(node: Mapping[str, Json]) -> InputSet:
    """The inputs of a YAML node; ``file``, ``factory`` or ``datamodule`` names the source."""
    # Imported late: most models generate their inputs, and every measuring process comes by here.
    if isinstance(node.get("file"), str):
        from benchorch.models.file_inputs import FileInputs

        return FileInputs(node=node)
    if isinstance(node.get("factory"), str):
        from benchorch.models.factory_inputs import FactoryInputs

        return FactoryInputs(node=node)
    if isinstance(node.get("datamodule"), str):
        from benchorch.models.lightning_inputs import LightningInputs

        return LightningInputs(node=node)
    return GeneratedInputs(node=node)


def keyword_problems(inputs: Mapping[str, Json], kwargs: Mapping[str, Json]) -> list[str]:
    """Arguments that are declared twice, as a tensor and as a plain value."""
    return [
        f"model.kwargs.{name}: is also an input tensor; declare it once."
        for name in kwargs
        if isinstance(inputs.get(name), Mapping)
    ]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedInputs:
    """Tensors filled by generators.

    Attributes:
        node: by each tensor's name: ``shape``, ``dtype``, ``generator`` and its options.
    """

    node: Mapping[str, Json]

    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs in the order of the YAML."""
        return tuple(
            tensor_spec(name, tensor.get("shape"), tensor.get("dtype"))
            for name, tensor in self._tensors().items()
        )

    def problems(self, workload: Workload) -> list[str]:
        """Names, shapes, symbols, dtypes, generators and their options."""
        if not self.node:
            return ["model.inputs: is empty; declare the tensors that the model's forward takes."]
        found = [
            f"model.inputs.{name}: must be a mapping with shape and generator, got {tensor!r}."
            for name, tensor in self.node.items()
            if not isinstance(tensor, Mapping)
        ]
        for name, tensor in self._tensors().items():
            found += _tensor_problems(name, tensor, workload)
        return unique(found)

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """Each tensor from a random stream of its own: adding one leaves the others as they are."""
        import numpy as np

        tensors = self._tensors()
        filled = {}
        for spec in self.specs():
            dtype = dtype_of(tensors[spec.name].get("dtype"), workload)
            random = np.random.default_rng(_stream(seed, spec.name))
            values = generator(with_generator(tensors[spec.name], dtype))
            filled[spec.name] = values.fill(random, spec.resolve(workload.symbols), dtype)
        return filled

    def _tensors(self) -> dict[str, Mapping[str, Json]]:
        return {name: node for name, node in self.node.items() if isinstance(node, Mapping)}


def _tensor_problems(name: str, tensor: Mapping[str, Json], workload: Workload) -> list[str]:
    where = f"model.inputs.{name}"
    found = [] if str(name).isidentifier() else [f"{where}: {name!r} cannot name an argument."]
    if "shape" in tensor:
        found += shape_problems(where, tensor["shape"])
        found += symbol_problems(tensor["shape"], workload)
    else:
        setting = f"+{where}.shape=[batch_size,16]"
        problem = f"{where}.shape: is missing; set '{setting}'"
        found.append(Problem(problem, Correction(settings=[setting])))
    dtype_found = dtype_problems(where, tensor.get("dtype"), workload)
    dtype = "float32" if dtype_found else dtype_of(tensor.get("dtype"), workload)
    return [*found, *dtype_found, *generator_problems(where, tensor, dtype)]


def _stream(seed: int, name: str) -> Sequence[int]:
    """Seed of a tensor's random stream; negative seeds are allowed."""
    return [seed % 2**64, zlib.crc32(name.encode())]
