from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.dag import CLASSES, Class
from benchorch.trace.whatif.basis import Basis, Selector, prepare
from benchorch.trace.whatif.selector import matcher, problems, select
from support.trace_lab.program import Sync, Work
from support.whatif_programs import basis_of, called, layer, mm, module, part, relu


@final
class Shapes:
    """Every operator was given the same tensors, but those of one name others."""

    def __init__(self, basis: Basis, other: str) -> None:
        self.events, self.other = basis.events, other

    def __call__(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        return {index: self._one(index) for index in indices}

    def _one(self, index: int) -> Mapping[str, object]:
        other = self.events.names[self.events.name[index]] == self.other
        return {
            "Input Dims": [[2, 3], [3, 4]] if other else [[8, 8]],
            "Input type": ["c10::Half", "c10::Half"] if other else ["float"],
        }


@pytest.fixture
def basis(tmp_path: Path) -> Basis:
    return basis_of(layer(mm(), relu()), tmp_path)


def names(basis: Basis, chosen: np.ndarray) -> set[str]:
    return {basis.events.names[code] for code in basis.events.name[chosen]}


def owners(basis: Basis, selector: Selector) -> set[str]:
    """Whose time is meant; the empty text for time between events."""
    owner = basis.dag.owner[select(basis, selector).edges]
    return {basis.events.names[basis.events.name[one]] if one >= 0 else "" for one in owner}


LAUNCH = "cudaLaunchKernel"


@pytest.mark.parametrize(
    ("selector", "whose"),
    [
        (Selector(name="aten::mm"), {"aten::mm", LAUNCH, "gemm"}),
        (Selector(name="aten::mm", alone=True), {"aten::mm"}),
        (Selector(op="aten::*"), {"aten::mm", "aten::relu", LAUNCH, "gemm", "elementwise"}),
        (Selector(op="/::mm$/"), {"aten::mm", LAUNCH, "gemm"}),
        (Selector(kernel="g?mm"), {"gemm"}),
        (Selector(kernel=LAUNCH), set()),
        (Selector(module="layer.relu", classes=(Class.GPU_COMPUTE,)), {"elementwise"}),
        (Selector(module="layer", kernel="gemm"), {"gemm"}),
        (Selector(module="layer.*", kernel="*"), {"gemm", "elementwise"}),
        (Selector(lane="0:7"), {"gemm", "elementwise"}),
        (Selector(phase="forward", op="aten::mm", alone=True), {"aten::mm"}),
        (Selector(phase="backward"), set()),
        (Selector(phase="optimizer"), set()),
        (Selector(iteration=0, kernel="*"), {"gemm", "elementwise"}),
        (Selector(iteration=1, kernel="*"), set()),
        (Selector(graph_node="nobody"), set()),
        (Selector(op="aten::mm", kernel="gemm"), set()),
    ],
)
def test_whose_time_is_meant(selector: Selector, whose: set[str], basis: Basis) -> None:
    assert owners(basis, selector) == whose


def test_a_class_alone_is_all_the_time_of_it(basis: Basis) -> None:
    edges = select(basis, Selector(classes=(Class.LAUNCH_LATENCY,))).edges
    assert edges.tolist() == (basis.dag.label == CLASSES.index(Class.LAUNCH_LATENCY)).tolist()
    assert edges.any()


def test_shapes_and_dtypes_are_those_of_the_operator(basis: Basis) -> None:
    events = dataclasses.replace(basis.events, details=Shapes(basis, "aten::mm"))
    shaped = prepare(dataclasses.replace(basis.analysis, events=events))
    for selector in (
        Selector(kernel="*", shape="2x3, 3x4"),
        Selector(kernel="*", dtype="float16"),
    ):
        assert owners(shaped, selector) == {"gemm"}
    assert owners(shaped, Selector(kernel="*", dtype="float*", shape="8x8")) == {"elementwise"}


def test_the_optimizer_and_the_backward_pass_are_phases(tmp_path: Path) -> None:
    step = module("layer", part("mm", Work(ns=100)))
    update = part("add", Work(ns=300))
    ran = basis_of(
        called(
            step,
            dataclasses.replace(update, name="Optimizer.step#SGD.step"),
            dataclasses.replace(
                part("mul", Work(ns=200)), name="autograd::engine::evaluate_function: MulBackward0"
            ),
            Sync(),
        ),
        tmp_path,
    )
    assert "aten::add" in owners(ran, Selector(phase="optimizer"))
    assert "aten::mm" in owners(ran, Selector(phase="forward"))
    assert "aten::add" not in owners(ran, Selector(phase="forward"))


def test_what_is_called_by_what_is_chosen_counts_once(tmp_path: Path) -> None:
    ran = basis_of(layer(mm()), tmp_path)
    selection = select(ran, Selector(name="mod:*"))
    assert names(ran, np.unique(selection.root[selection.root >= 0])) == {"mod:layer"}


def test_a_selector_that_finds_something_has_no_problems(basis: Basis) -> None:
    assert problems(basis, Selector(op="aten::mm")) == []
    (said,) = problems(basis, Selector(lane="stream 99"))
    assert said.startswith("lane 'stream 99' fits nothing.")
    (said,) = problems(basis, Selector(lane="7", op="aten::mmm"))
    assert said.startswith("op 'aten::mmm' fits nothing.")
    (said,) = problems(basis, Selector(iteration=3))
    assert said.startswith("iteration 3 is none of the 1 of ")


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("aten::mm", "aten::mm", True),
        ("aten::mm", "aten::mmx", False),
        ("aten::*", "aten::mm", True),
        ("void f(float*)", "void f(float*)", True),
        ("f<a[0]>", "f<a[0]>", True),
        ("/^void .*f/", "void xf(float*)", True),
        ("/^f/", "void f", False),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("[ab]*", "a]c", False),
        ("*" * 200 + "b", "a" * 60, False),
    ],
)
def test_what_a_pattern_fits(pattern: str, name: str, fits: bool) -> None:
    assert matcher(pattern)(name) is fits


@pytest.mark.parametrize("pattern", ["/(a+)+$/", "/(a|a)*$/", "/(.*a){25}$/"])
def test_a_search_that_never_ends_is_ended(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchorch.trace.whatif.selector._MOST_S", 0.1)
    with pytest.raises(TraceError, match="simplify it"):
        list(map(matcher(pattern), ["a" * 20 + "!", "a" * 60 + "!"]))
