from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.sweep import sweep
from support.trace_lab.program import Work
from support.whatif_programs import US, basis_of, called, layer, mm, part, relu

GEMM = Selector(kernel="gemm")


def test_the_knee_is_where_another_way_becomes_as_long(tmp_path: Path) -> None:
    # The host launches relu's kernel at 224 µs; up to there gemm, from 27 µs on, is waited for.
    basis = basis_of(layer(mm(kernel_us=400), relu(host_us=200)), tmp_path)
    curve = sweep(basis, GEMM)
    assert curve.knee == pytest.approx(400 / 204, rel=0.02)
    assert curve.on_path_ns == 400 * US


def test_the_curve_falls_ever_less(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(kernel_us=400), relu(host_us=200)), tmp_path)
    curve = sweep(basis, GEMM)
    saved = [curve.makespans_ns[0] - total for total in curve.makespans_ns]
    assert curve.makespans_ns[0] == basis.dag.makespan_ns
    assert saved == sorted(saved)
    assert saved[curve.speedups.index(3.0)] == saved[-1]


def test_a_single_chain_has_no_knee(tmp_path: Path) -> None:
    basis = basis_of(called(part("a", Work(ns=80 * US))), tmp_path)
    curve = sweep(basis, Selector(op="aten::a"))
    assert curve.knee == math.inf
    assert curve.makespans_ns[-1] == basis.dag.makespan_ns - 80 * US


def test_what_is_not_on_the_path_changes_nothing(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(kernel_us=400), relu(host_us=200)), tmp_path)
    curve = sweep(basis, Selector(op="aten::relu", alone=True))
    assert curve.knee is None
    assert set(curve.makespans_ns) == {basis.dag.makespan_ns}


def test_nothing_to_sweep_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Did you mean 'gemm'"):
        sweep(basis_of(layer(mm()), tmp_path), Selector(kernel="gem"))
