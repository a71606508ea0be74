from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.operators.repeated_layers import (
    RepeatedRun,
    outlier,
    repeated_names,
    starred,
    structures,
    tandem_repeats,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layers.11.norm", "layers.*.norm"),
        ("layer1.0.conv2", "layer1.*.conv2"),
        ("node_MatMul_60/MatMulAddFusion", "node_MatMul_*/MatMulAddFusion"),
        ("linear_7", "linear_*"),
        ("/encoder/layer.3/MatMul", "/encoder/layer.*/MatMul"),
        ("resnet50", "resnet50"),
        ("", ""),
    ],
)
def test_whole_numbers_in_a_name_become_stars(name: str, expected: str) -> None:
    assert starred(name) == expected


def test_siblings_of_one_structure_are_one_row() -> None:
    names = [f"layers.{n}.{part}" for n in range(2) for part in ("query", "key", "out")]
    structure = {name: "wide" if name.endswith("out") else "square" for name in names}
    rows = repeated_names(names, structure)
    assert set(rows.values()) == {"layers.*.{key,query}", "layers.*.out"}
    assert rows["layers.0.query"] == rows["layers.1.key"]


def test_a_layer_that_differs_from_its_copies_is_not_joined_with_others() -> None:
    names = ["a.0.x", "a.1.x", "a.0.y", "a.1.y"]
    rows = repeated_names(names, {"a.0.x": 1, "a.1.x": 2, "a.0.y": 1, "a.1.y": 1})
    assert set(rows.values()) == {"a.*.x", "a.*.y"}


def test_a_structure_is_what_a_module_calls_and_what_is_in_it() -> None:
    parents = {"a": "", "b": "", "c": "", "a.x": "a", "b.y": "b", "c.x": "c"}
    called = {"a.x": ["mm"], "b.y": ["mm"], "c.x": ["add"]}
    found = structures(parents, called)
    assert found["a"] == found["b"] != found["c"]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("xabcabcabcy", [RepeatedRun(start=1, length=3, copies=3)]),
        ("abababab", [RepeatedRun(start=0, length=2, copies=4)]),
        ("aaaa", [RepeatedRun(start=0, length=1, copies=4)]),
        ("abcd", []),
        ("", []),
        ("a", []),
        (
            "aabb",
            [RepeatedRun(start=0, length=1, copies=2), RepeatedRun(start=2, length=1, copies=2)],
        ),
    ],
)
def test_what_follows_itself_is_a_run(sequence: str, expected: list[RepeatedRun]) -> None:
    assert list(tandem_repeats(sequence)) == expected


@given(st.text("abc", max_size=40))
def test_runs_are_apart_and_are_what_they_say(sequence: str) -> None:
    reached = 0
    for run in tandem_repeats(sequence):
        assert run.start >= reached
        assert run.copies >= 2
        copy = sequence[run.start : run.start + run.length]
        assert sequence[run.start : run.end] == copy * run.copies
        reached = run.end


def test_only_what_is_far_from_the_others_is_an_outlier() -> None:
    assert outlier(np.array([10.0, 11.0, 9.0, 10.0, 30.0])) == 4
    assert outlier(np.array([10.0, 11.0, 9.0, 12.0, 8.0])) == -1
    assert outlier(np.array([1.0, 100.0])) == -1
    assert outlier(np.array([])) == -1
    assert outlier(np.full(5, 3.0)) == -1
