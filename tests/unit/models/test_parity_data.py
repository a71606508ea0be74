"""A user's own data: rows by name, labels beside them, and every way in which it does not fit."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchorch.domain.tensors import TensorSpec, Workload, digest_of_arrays
from benchorch.errors import BuildError
from benchorch.models.parity_data import data_problems, data_sets

SPECS = (TensorSpec(name="x", shape=("batch_size", 3), dtype="float32"),)
WORKLOAD = Workload(symbols={"batch_size": 4})
X = np.arange(30, dtype=np.float64).reshape(10, 3)
LABELS = np.arange(10)


def test_rows_are_cut_into_sets_and_labels_stay_beside_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X, labels=LABELS)
    sets = data_sets(str(tmp_path / "data.npz"), SPECS, WORKLOAD)
    assert [one["labels"].tolist() for one in sets] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sets[1]["x"].dtype == np.float32
    assert np.array_equal(sets[1]["x"], X[4:8])


def test_one_array_is_the_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", X)
    assert len(data_sets(str(tmp_path / "data.npy"), SPECS, WORKLOAD)) == 2


def test_other_values_have_another_digest() -> None:
    assert digest_of_arrays({"x": X}) != digest_of_arrays({"x": X + 1})
    assert digest_of_arrays({"x": X}) == digest_of_arrays({"x": X.copy()})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y": X}, "lacks 'x'; it holds y"),
        ({"x": X[:2]}, "fewer rows than the 4 of one call"),
        ({"x": X[:, :2]}, "has shape [4, 2]; one call takes [4, 3]"),
        ({"x": X, "labels": LABELS[:3]}, "different numbers of rows"),
        (3, "returned int"),
        ([3], "gave int"),
        ({"x": [None, 2]}, "no array under 'x'"),
    ],
)
def test_what_does_not_fit_is_told(
    given: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("users_data")
    vars(module)["given"] = lambda: given
    monkeypatch.setitem(sys.modules, "users_data", module)
    with pytest.raises(BuildError, match=r"parity\.data: users_data:given") as caught:
        data_sets("users_data:given", SPECS, WORKLOAD)
    assert said in str(caught.value)


def test_a_function_that_draws_gives_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffled() -> Iterator[dict[str, object]]:
        for row in random.sample(range(6), 3):
            yield {"x": np.random.permutation(X[row : row + 4])}  # noqa: NPY002 as users do

    module = types.ModuleType("users_data")
    vars(module)["shuffled"] = shuffled
    monkeypatch.setitem(sys.modules, "users_data", module)
    first, again = (data_sets("users_data:shuffled", SPECS, WORKLOAD) for _ in range(2))
    assert digest_of_arrays(*first) == digest_of_arrays(*again)


def test_tensors_of_torch_are_taken_in_any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    x = torch.ones(4, 3, dtype=torch.bfloat16, requires_grad=True)
    module = types.ModuleType("users_data")
    vars(module)["given"] = lambda: {"x": x}
    monkeypatch.setitem(sys.modules, "users_data", module)
    (one,) = data_sets("users_data:given", SPECS, WORKLOAD)
    assert (one["x"].dtype, one["x"].tolist()) == (np.float32, [[1.0] * 3] * 4)


def test_a_file_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    assert "does not exist" in data_problems("nowhere.npz")[0]
    damaged = tmp_path / "rows.npz"
    damaged.write_bytes(bytes(1000))
    assert "is not an .npz file" in data_problems(str(damaged))[0]
    assert "is not of the form" in data_problems("nowhere")[0]
