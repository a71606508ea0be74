"""Input tensors from a LightningDataModule: rows of its own predict or test loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from benchorch.config.components import misspelt
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array, Arrays, TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.models.callables import callable_problems, resolve_callable, user_code
from benchorch.models.declared import key_problems, unique
from benchorch.models.declared_batches import DeclaredBatches, as_numpy, mapping_at
from benchorch.models.seeding import seeded

LOADERS = ("predict", "test")
_OPTIONS = ("datamodule", "arguments", "loader", "tensors")
_MOST_WINDOWS = 16  # a seed picks one of the first so many: a data set may be long
_SEED = 0  # what a datamodule draws itself, such as a split, is the same for every batch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LightningInputs:
    """Rows of a datamodule's loader, as many as the workload requests, whatever its batch size.

    A batch's tensors are named by the declaration: a mapping's by their keys, a tuple's in order,
    so that labels at its end are left away.

    Attributes:
        node: ``datamodule`` as ``path.py:Class``, ``arguments`` it is made with, ``loader``
            (``predict`` or ``test``), and ``tensors``: each name's ``shape`` and ``dtype``.
    """

    node: Mapping[str, Json]

    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs declared under ``tensors``."""
        return self._declared().specs()

    def problems(self, workload: Workload) -> list[str]:
        """Problems of the class, its loader and the declared tensors."""
        arguments, loader = mapping_at(self.node, "arguments"), self._loader()
        found = key_problems("model.inputs", self.node, _OPTIONS)
        found += callable_problems("model.inputs.datamodule", self._reference(), arguments)
        if loader not in LOADERS:
            problem = f"model.inputs.loader: unknown loader {loader!r}."
            found.append(misspelt(problem, loader, LOADERS, f" Loaders: {', '.join(LOADERS)}."))
        found += self._declared().problems(workload)
        return unique(found)

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """Consecutive rows, picked by the seed."""
        declared = self._declared()
        rows = {spec.name: _first_size(spec, workload, declared) for spec in declared.specs()}
        wanted = seed % _MOST_WINDOWS
        with user_code(self._reference()), seeded(_SEED):
            batches = self._batches([*rows])
            held = _rows_of(batches, rows, wanted + 1)
        return declared.arrays(_window(held, rows, wanted, declared), workload)

    def _batches(self, names: Sequence[str]) -> Iterator[Arrays]:
        """The loader's batches by name, its data made ready as a Trainer does it."""
        module: Any = resolve_callable(self._reference())(**mapping_at(self.node, "arguments"))
        loader = self._loader()
        make = getattr(module, f"{loader}_dataloader", None)
        if make is None or not hasattr(module, "prepare_data"):
            raise self._no_loader(f"a {type(module).__name__}, which is no LightningDataModule")
        module.prepare_data()
        module.setup(loader)
        batches = make()
        if isinstance(batches, list | tuple | Mapping):
            raise self._no_loader(f"{len(batches)} loaders; one is read")
        if not isinstance(batches, Iterable):
            raise self._no_loader(f"a {type(batches).__name__} as its {loader} loader")
        for batch in batches:
            named = _named(batch, names, self._declared())
            yield {name: as_numpy(named[name], self._reference()) for name in names}

    def _no_loader(self, what: str) -> BuildError:
        return BuildError(f"{self._reference()} gives {what}", kind="user_code")

    def _reference(self) -> str:
        return str(self.node["datamodule"])

    def _loader(self) -> str:
        return str(self.node.get("loader", LOADERS[0]))

    def _declared(self) -> DeclaredBatches:
        return DeclaredBatches(
            tensors=mapping_at(self.node, "tensors"), reference=self._reference()
        )


def _first_size(spec: TensorSpec, workload: Workload, declared: DeclaredBatches) -> int:
    shape = spec.resolve(workload.symbols)
    if not shape:
        raise declared.refusal(f"batches, of which {spec.name} is declared without a first size")
    return shape[0]


def _named(batch: object, names: Sequence[str], declared: DeclaredBatches) -> Mapping[str, object]:
    """A batch's tensors by the declared names."""
    if isinstance(batch, Mapping):
        missing = [name for name in names if name not in batch]
        if missing:
            raise declared.refusal(f"a batch without {missing[0]!r}; it has {list(batch)}")
        return batch
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    if len(parts) < len(names):
        raise declared.refusal(f"batches of {len(parts)} where {', '.join(names)} are declared")
    return dict(zip(names, parts, strict=False))


def _rows_of(batches: Iterable[Arrays], rows: Mapping[str, int], windows: int) -> Arrays:
    """The first rows of a loader: those of `windows` windows, or all where there are fewer."""
    import numpy as np

    held: dict[str, list[Array]] = {name: [] for name in rows}
    for batch in batches:
        for name, array in batch.items():
            held[name].append(array)
        if all(sum(map(len, held[name])) >= rows[name] * windows for name in rows):
            break
    return {name: np.concatenate(arrays) for name, arrays in held.items() if arrays}


def _window(
    held: Arrays, rows: Mapping[str, int], wanted: int, declared: DeclaredBatches
) -> Arrays:
    """The rows of one window, modulo the number of windows."""
    if not held:
        raise declared.refusal("no batch at all")
    there = min(len(held[name]) // count for name, count in rows.items())
    if not there:
        name, count = next((n, c) for n, c in rows.items() if len(held[n]) < c)
        raise declared.refusal(f"{len(held[name])} rows of {name} in all, where {count} are wanted")
    at = wanted % there
    return {name: held[name][at * count : (at + 1) * count] for name, count in rows.items()}
