"""Inputs from a user's callable that yields batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.models.inputs import input_set

WORKLOAD = Workload(symbols={"batch_size": 2})
CODE = """
import itertools
import random
import numpy as np

def batches(rows=2):
    for i in itertools.count():
        yield {"x": np.full((rows, 3), i, "float32"), "label": np.zeros(rows)}

def three():
    return [{"x": np.full((2, 3), i, "float64")} for i in range(3)]

def tensors():
    import torch
    yield {"x": torch.ones(2, 3, requires_grad=True)}

def drawn():
    yield {"x": np.array([[random.random()] * 3] * 2)}

def none(): return iter(())
def one(): return {"x": np.ones((2, 3))}
def nameless(): yield np.ones((2, 3))
def other(): yield {"y": np.ones((2, 3))}
def integers(): yield {"x": np.ones((2, 3), "int32")}
def broken(): yield 1 / 0
"""


@pytest.fixture(autouse=True)
def _users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "batch_makers.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "batch_makers", raising=False)


def node(name: str, dtype: str | None = None, **rest: Json) -> dict[str, Json]:
    tensor: dict[str, Json] = {"shape": ["batch_size", 3]}
    tensor |= {"dtype": dtype} if dtype else {}
    return {"factory": f"batch_makers:{name}", "tensors": {"x": tensor}, **rest}


@pytest.mark.parametrize("name", ["batches", "three", "tensors", "drawn"])
def test_batches_are_arrays_of_the_declared_tensors(name: str) -> None:
    inputs = input_set(node(name))
    assert inputs.problems(WORKLOAD) == []
    batch = inputs.batch(WORKLOAD, 0)
    assert list(batch) == ["x"]
    assert batch["x"].shape == (2, 3)
    assert batch["x"].dtype == np.float32


def test_the_seed_picks_the_batch() -> None:
    endless, three = input_set(node("batches")), input_set(node("three"))
    assert [endless.batch(WORKLOAD, seed)["x"][0, 0] for seed in (0, 1, 5)] == [0, 1, 5]
    assert [three.batch(WORKLOAD, seed)["x"][0, 0] for seed in (0, 1, 2, 3)] == [0, 1, 2, 0]
    endless.batch(WORKLOAD, 10**12)  # an endless stream is not followed to its end


def test_a_callable_that_draws_is_seeded() -> None:
    drawn = input_set(node("drawn"))
    first, again, other = (drawn.batch(WORKLOAD, seed)["x"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_arguments_are_passed() -> None:
    inputs = input_set(node("batches", arguments={"rows": 4}))
    assert inputs.batch(Workload(symbols={"batch_size": 4}), 0)["x"].shape == (4, 3)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none", "no batch at all"),
        ("one", "no series of batches"),
        ("nameless", "names no tensors"),
        ("other", "a batch without 'x'; it has ['y']"),
        ("broken", "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_batch_that_is_none_is_the_users_bug(name: str, sentence: str) -> None:
    with pytest.raises(BuildError) as caught:
        input_set(node(name)).batch(WORKLOAD, 0)
    assert caught.value.kind == "user_code"
    assert sentence in str(caught.value)


def test_a_batch_of_another_shape_or_dtype_is_the_users_bug() -> None:
    with pytest.raises(BuildError, match=r"shape \(2, 3\) where \(7, 3\) is declared"):
        input_set(node("batches")).batch(Workload(symbols={"batch_size": 7}), 0)
    with pytest.raises(BuildError, match="as int32 where int64 is declared"):
        input_set(node("integers", "int64")).batch(WORKLOAD, 0)


def test_tensors_must_be_declared() -> None:
    (problem,) = input_set({"factory": "batch_makers:three"}).problems(WORKLOAD)
    assert "model.inputs.tensors: is missing" in problem


def test_all_mistakes_are_told_at_once() -> None:
    found = input_set(
        {
            "factory": "batch_makers:thre",
            "argument": {},
            "tensors": {"x": {"shape": ["rows"], "dtype": "float"}, "y": 1},
        }
    ).problems(WORKLOAD)
    assert len(found) == 5
    assert "Did you mean 'three'?" in " ".join(found)
    assert "Did you mean 'arguments'?" in " ".join(found)
