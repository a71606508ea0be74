"""Inputs from a file: real .npz and .safetensors files, whole and damaged."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.models.headers import read_headers
from benchorch.models.inputs import input_set

ARRAYS = {
    "ids": np.arange(40, dtype=np.int64).reshape(10, 4),
    "scale": np.linspace(0, 1, 10, dtype=np.float32),
    "flag": np.array([True, False]),
}
WORKLOAD = Workload(symbols={"batch_size": 3, "seq_len": 4})


@pytest.fixture(params=["x.npz", "x.safetensors"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if path.suffix == ".npz":
        np.savez(path, **ARRAYS)
    else:
        save_file(ARRAYS, path)
    return path


def node(path: Path, **rest: Json) -> dict[str, Json]:
    return {"file": str(path), **rest}


def test_a_header_tells_names_shapes_and_dtypes(file: Path) -> None:
    headers = read_headers(file)
    assert {name: (header.shape, header.dtype) for name, header in headers.items()} == {
        "ids": ((10, 4), "int64"),
        "scale": ((10,), "float32"),
        "flag": ((2,), "bool"),
    }


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((), np.float64),
        np.zeros((2, 0, 3), np.uint8),
        np.asfortranarray(np.ones((3, 4), np.float16)),
        np.ones(70_000, np.int8),
        np.ones(3, ">i2"),
    ],
)
def test_an_npz_header_agrees_with_numpy(tmp_path: Path, array: np.ndarray) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=array)
    header = read_headers(tmp_path / "x.npz")["x"]
    assert (header.shape, header.dtype) == (array.shape, array.dtype.newbyteorder("=").name)


@pytest.mark.filterwarnings("ignore:Stored array in format")
def test_an_npy_header_of_the_wide_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros(2, [(f"field_{i}", "<f4") for i in range(5000)]))
    assert read_headers(path)["x"].shape == (2,)


def test_literal_shapes_need_no_declaration(file: Path) -> None:
    inputs = input_set(node(file))
    assert inputs.problems(WORKLOAD) == []
    batch = inputs.batch(WORKLOAD, 0)
    assert list(batch) == [spec.name for spec in inputs.specs()]
    assert all(np.array_equal(batch[name], ARRAYS[name]) for name in ARRAYS)


def test_a_symbol_in_front_takes_that_many_rows_of_every_tensor(file: Path) -> None:
    inputs = input_set(
        node(file, shapes={"ids": ["batch_size", "seq_len"], "scale": ["batch_size"]})
    )
    assert inputs.problems(WORKLOAD) == []
    for seed in range(20):
        batch = inputs.batch(WORKLOAD, seed)
        assert batch["ids"].shape == (3, 4)
        first = int(batch["ids"][0, 0]) // 4
        assert np.array_equal(batch["scale"], ARRAYS["scale"][first : first + 3])
    assert not np.array_equal(inputs.batch(WORKLOAD, 0)["ids"], inputs.batch(WORKLOAD, 1)["ids"])


def test_tensors_declared_beside_the_file_say_which_are_used(file: Path) -> None:
    inputs = input_set(
        node(file, ids={"shape": ["batch_size", "seq_len"], "generator": "integers", "high": 9})
    )
    assert inputs.problems(WORKLOAD) == []
    assert [spec.name for spec in inputs.specs()] == ["ids"]
    assert list(inputs.batch(WORKLOAD, 0)) == ["ids"]


def test_floats_take_the_workloads_dtype_and_integers_keep_theirs(file: Path) -> None:
    batch = input_set(node(file)).batch(Workload(symbols={}, dtype="float16"), 0)
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "ids": "int64",
        "scale": "float16",
        "flag": "bool",
    }


def test_a_declared_dtype_of_the_same_kind_converts(file: Path) -> None:
    inputs = input_set(node(file, ids={"shape": [10, 4], "dtype": "int32"}))
    assert inputs.problems(WORKLOAD) == []
    assert inputs.batch(WORKLOAD, 0)["ids"].dtype == np.int32


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ({"shapes": {"ids": ["batch_size", 5]}}, "does not fit the [10, 4]"),
        ({"shapes": {"ids": [9, 4]}}, "does not fit"),
        ({"shapes": {"ids": ["batch_size"]}}, "does not fit"),
        ({"shapes": {"ids": ["rows", 4]}}, "symbol 'rows' has no value"),
        ({"shapes": {"ids": [-1, 4]}}, "-1 is neither"),
        ({"idz": {"shape": [10, 4]}}, "has no tensor 'idz'. Did you mean 'ids'?"),
        ({"ids": {"shape": [10, 4], "dtype": "float32"}}, "holds int64, which is not turned"),
        (
            {"shapes": {"idz": ["batch_size", 4]}},
            "model.inputs.shapes.idz: no such tensor is used. Did you mean 'ids'? Tensors: ids",
        ),
        ({"shapes": [10, 4]}, "model.inputs.shapes: must be shapes by the names of tensors"),
        ({"shape": 3}, "model.inputs.shape: unknown option. Did you mean 'shapes'?"),
    ],
)
def test_what_does_not_fit_the_file_is_told(
    file: Path, rest: dict[str, Json], sentence: str
) -> None:
    (problem,) = input_set(node(file, **rest)).problems(WORKLOAD)
    assert sentence in problem


def test_more_rows_than_the_file_has_are_told(file: Path) -> None:
    many = Workload(symbols={"batch_size": 11, "seq_len": 4})
    inputs = input_set(node(file, shapes={"ids": ["batch_size", "seq_len"]}))
    assert "does not fit" in inputs.problems(many)[0]


def test_a_file_cut_short_is_told(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])
    (problem,) = input_set(node(file)).problems(WORKLOAD)
    assert problem.startswith("model.inputs.file: ")


@pytest.mark.parametrize("content", [b"", b"PK", b"hello, world, this is not a tensor file"])
def test_a_file_of_something_else_is_told(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    (problem,) = input_set(node(file)).problems(WORKLOAD)
    assert "is not a" in problem


def test_a_file_without_tensors_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz")
    assert "holds no tensors" in input_set(node(tmp_path / "x.npz")).problems(WORKLOAD)[0]


def test_a_missing_file_and_an_unknown_ending_are_told(tmp_path: Path) -> None:
    assert "does not exist" in input_set(node(tmp_path / "x.npz")).problems(WORKLOAD)[0]
    (tmp_path / "x.csv").write_text("1,2")
    assert "must end in" in input_set(node(tmp_path / "x.csv")).problems(WORKLOAD)[0]


def test_python_objects_in_an_npz_are_refused_unread(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object), allow_pickle=True)
    (problem,) = input_set(node(tmp_path / "x.npz")).problems(WORKLOAD)
    assert "cannot be used" in problem


@pytest.mark.parametrize(("workload", "dtype"), [("float32", "bfloat16"), ("float64", "float64")])
def test_half_precision_stays_unless_the_workload_names_another(
    workload: str, dtype: str, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file as save_tensors

    x = torch.tensor([1.5, -2.0]).bfloat16()
    save_tensors({"x": x}, tmp_path / "x.safetensors")
    inputs = input_set(node(tmp_path / "x.safetensors"))
    asked = Workload(symbols={}, dtype=workload)
    assert inputs.problems(asked) == []
    found = inputs.batch(asked, 0)["x"]
    assert found.dtype.name == dtype
    assert found.astype(np.float32).tolist() == [1.5, -2.0]


def test_a_file_of_a_dtype_that_no_input_has_is_refused_at_plan_time(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file as save_tensors

    save_tensors({"x": torch.ones(2).to(torch.float8_e4m3fn)}, tmp_path / "x.safetensors")
    (problem,) = input_set(node(tmp_path / "x.safetensors")).problems(WORKLOAD)
    assert "cannot be used" in problem


@given(content=st.binary(max_size=200), suffix=st.sampled_from([".npz", ".safetensors"]))
def test_no_bytes_make_the_reader_raise_anything_but_a_value_error(content, suffix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"x{suffix}")
        path.write_bytes(content)
        with contextlib.suppress(ValueError):
            read_headers(path)


@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_one_changed_byte_never_surprises_the_reader(position, byte) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in (Path(folder, "x.npz"), Path(folder, "x.safetensors")):
            np.savez(path, **ARRAYS) if path.suffix == ".npz" else save_file(ARRAYS, path)
            content = bytearray(path.read_bytes())
            content[position % len(content)] = byte
            path.write_bytes(content)
            with contextlib.suppress(ValueError):
                read_headers(path)


OPEN = Workload(symbols={"batch_size": 10, "seq_len": 4}, dynamic=("batch_size", "seq_len"))
SHAPED = {"ids": {"shape": ["batch_size", "seq_len"], "dtype": "int64"}}


@pytest.mark.parametrize(("rows", "length"), [(10, 4), (3, 4), (10, 2), (3, 1)])
def test_open_sizes_take_so_much_of_what_the_file_holds(file, rows, length):
    smaller = Workload(
        symbols={"batch_size": rows, "seq_len": length}, dynamic=("batch_size", "seq_len")
    )
    for seed in range(3):
        found = input_set(node(file, **SHAPED)).batch(smaller, seed)["ids"]
        assert found.shape == (rows, length)
        assert (found % 4 == np.arange(length)).all()


def test_further_files_may_differ_in_open_sizes_and_are_used_as_they_are(tmp_path):
    paths = [tmp_path / f"{n}.npz" for n in range(2)]
    for path, shape in zip(paths, [(2, 3), (10, 4)], strict=True):
        np.savez(path, ids=np.ones(shape, np.int64))
    inputs = input_set(node(paths[0], further=[str(paths[1])], **SHAPED))
    assert inputs.problems(OPEN) == []
    assert [inputs.batch(OPEN, seed)["ids"].shape for seed in range(3)] == [
        (2, 3),
        (10, 4),
        (2, 3),
    ]
    closed = Workload(symbols={"batch_size": 2, "seq_len": 3})
    assert "holds another 'ids'" in inputs.problems(closed)[0]
