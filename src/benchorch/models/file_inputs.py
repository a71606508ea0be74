"""Input tensors from a file: a recorded request, or a data set's first rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.config.components import suggest
from benchorch.domain.codec import Json
from benchorch.domain.tensors import DTYPES, Array, Arrays, TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.frameworks.host_arrays import numpy_dtype
from benchorch.frameworks.numpy_files import read_npz
from benchorch.models.declared import (
    dtype_for,
    is_float,
    shape_problems,
    symbol_problems,
    tensor_spec,
    unique,
)
from benchorch.models.headers import SAFETENSORS_DTYPES, Header, read_headers
from benchorch.models.start_folder import from_start

_OPTIONS = ("file", "further", "shapes")
_SUFFIXES = (".npz", ".safetensors")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileInputs:
    """Tensors of an .npz or .safetensors file, named as forward's arguments.

    A first size that is a symbol takes that many rows of those in the file; other seeds take
    other rows where there are more, and other files where there are further ones. Other sizes
    that the workload leaves open take so much of the beginning. A file that holds less there is
    used as it is.

    Attributes:
        node: ``file``; optionally ``further``, more files of the same tensors, and ``shapes``,
            symbolic shapes by name. Tensors declared beside ``file`` say which ones are used, and
            with which shape and dtype.
    """

    node: Mapping[str, Json]

    def specs(self) -> tuple[TensorSpec, ...]:
        """Declared shapes where there are some, else the file's own."""
        headers = read_headers(self._path())
        return tuple(
            tensor_spec(name, self._shape(name, headers), self._dtype(name, headers))
            for name in self._names(headers)
        )

    def problems(self, workload: Workload) -> list[str]:
        """Problems of the file, its tensors and their shapes."""
        path = self._path()
        if not path.is_file():
            return [f"model.inputs.file: {str(path)!r} does not exist or is not a file."]
        if path.suffix not in _SUFFIXES:
            return [f"model.inputs.file: {str(path)!r} must end in {' or '.join(_SUFFIXES)}."]
        try:
            headers = read_headers(path)
        except (OSError, ValueError) as error:
            return [f"model.inputs.file: {error}."]
        found = self._option_problems() + self._name_problems(headers)
        for name in self._names(headers) if headers else ():
            found += self._tensor_problems(name, headers, workload)
        if not headers:
            return [*found, f"model.inputs.file: {path} holds no tensors."]
        return unique(found or self._further_problems(headers, workload))

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """The same rows of every tensor, and the files, taken in turn as the seed goes up."""
        paths = [self._path(), *self._further()]
        arrays = _load(paths[seed % len(paths)])
        specs = [spec for spec in self.specs() if spec.name in arrays]
        batch = {spec.name: _cut(arrays[spec.name], spec, workload) for spec in specs}
        rows = {spec.name: _rows_in(batch[spec.name], spec, workload) for spec in specs}
        spare = [len(batch[name]) - count for name, count in rows.items() if count]
        for name, count in rows.items():
            start = (seed * count) % (min(spare) + 1) if count else 0
            batch[name] = batch[name][start : start + count] if count else batch[name]
        return {
            name: array.astype(
                numpy_dtype(dtype_for(array.dtype.name, self._stated(name), workload))
            )
            for name, array in batch.items()
        }

    def _path(self) -> Path:
        return from_start(str(self.node["file"]))

    def _further(self) -> list[Path]:
        more = self.node.get("further")
        return [from_start(str(each)) for each in more] if isinstance(more, list | tuple) else []

    def _further_problems(self, headers: Mapping[str, Header], workload: Workload) -> list[str]:
        """Files that are none, and that do not hold the same tensors."""
        more = self.node.get("further")
        if more is not None and not isinstance(more, list | tuple):
            return [f"model.inputs.further: must be a list of files, got {more!r}."]
        return [
            problem for path in self._further() for problem in self._unlike(path, headers, workload)
        ]

    def _unlike(self, path: Path, headers: Mapping[str, Header], workload: Workload) -> list[str]:
        """How a further file differs from the first one."""
        where = "model.inputs.further"
        if not path.is_file() or path.suffix not in _SUFFIXES:
            return [f"{where}: {str(path)!r} is no file that ends in {' or '.join(_SUFFIXES)}."]
        try:
            held = read_headers(path)
        except (OSError, ValueError) as error:
            return [f"{where}: {error}."]
        return [
            f"{where}: {path} holds another {name!r} than {self._path()}."
            for name in self._names(headers)
            if not _alike(held.get(name), headers.get(name), self._spec(name, headers), workload)
        ]

    def _declared(self) -> Mapping[str, Mapping[str, Json]]:
        return {
            name: tensor
            for name, tensor in self.node.items()
            if name not in _OPTIONS and isinstance(tensor, Mapping)
        }

    def _shapes(self) -> Mapping[str, Json]:
        shapes = self.node.get("shapes")
        return shapes if isinstance(shapes, Mapping) else {}

    def _names(self, headers: Mapping[str, Header]) -> list[str]:
        return list(self._declared() or headers)

    def _shape(self, name: str, headers: Mapping[str, Header]) -> Json:
        literal = list(headers[name].shape) if name in headers else []
        return self._shapes().get(name, self._declared().get(name, {}).get("shape", literal))

    def _dtype(self, name: str, headers: Mapping[str, Header]) -> Json:
        return self._stated(name) or (headers[name].dtype if name in headers else None)

    def _stated(self, name: str) -> Json:
        return self._declared().get(name, {}).get("dtype")

    def _option_problems(self) -> list[str]:
        return [
            f"model.inputs.{key}: unknown option.{suggest(key, _OPTIONS)} Beside file there may be "
            "shapes, and tensors with their shape and dtype."
            for key, value in self.node.items()
            if key not in _OPTIONS and not isinstance(value, Mapping)
        ]

    def _name_problems(self, headers: Mapping[str, Header]) -> list[str]:
        """Shapes of tensors that are not used, and shapes that are none."""
        where, shapes, names = "model.inputs.shapes", self.node.get("shapes"), self._names(headers)
        if shapes is not None and not isinstance(shapes, Mapping):
            return [f"{where}: must be shapes by the names of tensors, got {shapes!r}."]
        return [
            f"{where}.{name}: no such tensor is used.{suggest(name, names)} "
            f"Tensors: {', '.join(names)}."
            for name in self._shapes()
            if name not in names
        ]

    def _tensor_problems(
        self, name: str, headers: Mapping[str, Header], workload: Workload
    ) -> list[str]:
        where = f"model.inputs.{name}"
        if name not in headers:
            return [
                f"{where}: {self._path()} has no tensor {name!r}.{suggest(name, headers)} "
                f"It holds: {', '.join(headers)}."
            ]
        held, shape = headers[name], self._shape(name, headers)
        found = shape_problems(where, shape) or symbol_problems(shape, workload)
        if not found and not _fits(self._spec(name, headers), held.shape, workload):
            found.append(
                f"{where}.shape: {list(shape) if isinstance(shape, list | tuple) else shape} "
                f"does not fit the {list(held.shape)} that {self._path()} holds."
            )
        return found + _dtype_problems(where, self._declared().get(name, {}), held, workload)

    def _spec(self, name: str, headers: Mapping[str, Header]) -> TensorSpec:
        return tensor_spec(name, self._shape(name, headers), self._dtype(name, headers))


def _rows(spec: TensorSpec, workload: Workload) -> int:
    """Number of rows taken: the first size where it is a symbol, else 0 for all of them."""
    first = spec.shape[0] if spec.shape else 0
    return workload.symbols[first] if isinstance(first, str) else 0


def _rows_in(array: Array, spec: TensorSpec, workload: Workload) -> int:
    """The same, and no more than there are where that size is open."""
    count = _rows(spec, workload)
    return min(count, len(array)) if count and spec.shape[0] in workload.dynamic else count


def _cut(array: Array, spec: TensorSpec, workload: Workload) -> Array:
    """Leading part of the array, of the workload's size in every open dimension but the first."""
    wanted = zip(spec.shape, spec.resolve(workload.symbols), strict=True)
    taken = [slice(n) if symbol in workload.dynamic else slice(None) for symbol, n in wanted]
    return array[(slice(None), *taken[1:])] if len(taken) > 1 else array


def _fits(spec: TensorSpec, held: tuple[int, ...], workload: Workload) -> bool:
    """Whether the file has every size: more rows are left over, of open sizes there may be less."""
    wanted = spec.resolve(workload.symbols)
    if len(held) != len(wanted):
        return False
    sizes = zip(spec.shape, wanted, held, strict=True)
    return all(
        n == size
        or (symbol in workload.dynamic and n > 0)
        or (not axis and _enough(symbol, n, size))
        for axis, (symbol, size, n) in enumerate(sizes)
    )


def _enough(symbol: int | str, held: int, wanted: int) -> bool:
    return isinstance(symbol, str) and held >= wanted


def _alike(some: Header | None, other: Header | None, spec: TensorSpec, workload: Workload) -> bool:
    """Whether two files hold tensors of one dtype and shape, open sizes apart."""
    if some is None or other is None or some.dtype != other.dtype:
        return some is other
    if len(some.shape) != len(other.shape):
        return False
    sizes = zip(spec.shape, some.shape, other.shape, strict=True)
    return all(a == b or symbol in workload.dynamic for symbol, a, b in sizes)


def _dtype_problems(
    where: str, declared: Mapping[str, Json], held: Header, workload: Workload
) -> list[str]:
    if held.dtype not in DTYPES:
        return [f"{where}: the file's dtype {held.dtype} cannot be used; store float32 or int64."]
    wanted = declared.get("dtype")
    if wanted is None or wanted == held.dtype or is_float(held.dtype) == is_float(str(wanted)):
        return [] if wanted is None or wanted in DTYPES else [f"{where}.dtype: unknown {wanted!r}."]
    return [f"{where}.dtype: the file holds {held.dtype}, which is not turned into {wanted}."]


def _load(path: Path) -> Arrays:
    try:
        return _load_safetensors(path) if path.suffix == ".safetensors" else read_npz(path)
    except (OSError, ValueError) as error:
        raise BuildError(f"the inputs in {path} cannot be read: {error}", kind="inputs") from error


def _load_safetensors(path: Path) -> Arrays:
    """Without safetensors' own numpy reader, which has no bfloat16."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    try:
        held = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return {
        name: np.frombuffer(
            tensor["data"], numpy_dtype(SAFETENSORS_DTYPES[tensor["dtype"]])
        ).reshape(tensor["shape"])
        for name, tensor in held
        if tensor["dtype"] in SAFETENSORS_DTYPES
    }
