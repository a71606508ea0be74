"""A user's own data, on which outputs are compared and a metric is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import is_zipfile

from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.frameworks.host_arrays import numpy_dtype
from benchorch.frameworks.numpy_files import read_npy, read_npz
from benchorch.models.callables import reference_problems, resolve_callable, user_code
from benchorch.models.declared_batches import as_numpy
from benchorch.models.seeding import seeded
from benchorch.models.start_folder import from_start

_SUFFIXES = (".npz", ".npy")
_TEXT = ".txt"


def data_problems(reference: str) -> list[str]:
    """Problems of ``parity.data`` that can be found without reading all of it."""
    if Path(reference).suffix not in (*_SUFFIXES, _TEXT):
        return reference_problems("parity.data", reference)
    if not Path(reference).is_file():
        return [f"parity.data: {reference!r} does not exist or is not a file."]
    if Path(reference).suffix == ".npz" and not is_zipfile(reference):  # looks at its end alone
        return [f"parity.data: {reference!r} is not an .npz file, or is damaged."]
    return []


def data_sets(reference: str, specs: Sequence[TensorSpec], workload: Workload) -> list[Arrays]:
    """The data as input sets of the workload's size, each by the names of the model's inputs.

    What has another name, such as labels, stays beside them: a metric finds it in its inputs. Rows
    that do not fill a last set are left out. A function draws the same in every process.

    Raises:
        BuildError: of kind ``inputs`` where the data does not fit the model.
    """
    found = list(_read(reference, specs, workload))
    if not found:
        rows = _rows(specs, workload)
        raise _refused(reference, f"holds fewer rows than the {rows} of one call")
    for one in found:
        _check(reference, one, specs, workload)
    return [_with_dtypes(one, specs, workload) for one in found]


def _read(reference: str, specs: Sequence[TensorSpec], workload: Workload) -> Iterator[Arrays]:
    rows = _rows(specs, workload)
    if Path(reference).suffix == _TEXT:
        raise _refused(reference, "is a text, which is for scenario=generate")
    if Path(reference).suffix in _SUFFIXES:
        yield from _cut(reference, _from_file(from_start(reference), specs), rows)
        return
    function = resolve_callable(reference)
    with user_code(reference), seeded(workload.seed):
        given = function()
    if isinstance(given, Mapping):
        yield from _cut(reference, _arrays(reference, given), rows)
        return
    if not isinstance(given, Iterable):
        raise _refused(reference, f"returned {type(given).__name__}, not arrays by name")
    with user_code(reference), seeded(workload.seed):
        sets = list(given)
    for one in sets:
        if not isinstance(one, Mapping):
            raise _refused(reference, f"gave {type(one).__name__}, not arrays by name")
        yield _arrays(reference, one)


def _from_file(path: Path, specs: Sequence[TensorSpec]) -> Arrays:
    try:
        if path.suffix == ".npy":
            return {specs[0].name: read_npy(path)}
        return read_npz(path)
    except (OSError, ValueError) as error:
        raise _refused(str(path), f"cannot be read: {error}") from error


def _arrays(reference: str, given: Mapping[object, object]) -> Arrays:
    found = {str(name): as_numpy(value, reference) for name, value in given.items()}
    wrong = [name for name, array in found.items() if array.dtype.kind == "O"]
    if wrong:
        raise _refused(reference, f"holds no array under {wrong[0]!r}")
    return found


def _rows(specs: Sequence[TensorSpec], workload: Workload) -> int:
    """First size of what one call takes."""
    shapes = [spec.resolve(workload.symbols) for spec in specs if spec.shape]
    return shapes[0][0] if shapes else 1


def _cut(reference: str, arrays: Arrays, rows: int) -> Iterator[Arrays]:
    """The rows in sets of so many."""
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(lengths) != 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise _refused(reference, f"holds arrays of different numbers of rows: {shapes or 'none'}")
    (length,) = lengths
    for start in range(0, length - rows + 1, rows):
        yield {name: array[start : start + rows] for name, array in arrays.items()}


def _check(reference: str, one: Arrays, specs: Sequence[TensorSpec], workload: Workload) -> None:
    for spec in specs:
        if spec.name not in one:
            raise _refused(
                reference, f"lacks {spec.name!r}; it holds {', '.join(one) or 'nothing'}"
            )
        wanted, held = spec.resolve(workload.symbols), one[spec.name].shape
        if not spec.admits(held, workload):
            problem = f"{spec.name!r} has shape {list(held)}; one call takes {list(wanted)}"
            raise _refused(reference, problem)


def _with_dtypes(one: Arrays, specs: Sequence[TensorSpec], workload: Workload) -> Arrays:
    """Floats as the workload has them, and whole numbers as they are declared."""
    dtypes = {
        spec.name: workload.dtype if spec.dtype in ("float64", "float32") else spec.dtype
        for spec in specs
    }
    return {
        name: array.astype(numpy_dtype(dtypes[name]), copy=False) if name in dtypes else array
        for name, array in one.items()
    }


def _refused(reference: str, reason: str) -> BuildError:
    return BuildError(
        f"parity.data: {reference} {reason}.",
        kind="inputs",
        remedy="arrays named as the model's inputs, with the rows of the data first",
    )
