"""Shapes with symbols, and the sizes that a workload's inputs have."""

import pytest

from benchorch.config.trial_setup import parse_workload
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.errors import ConfigError

NODE = {"batch_size": 8, "seq_len": 16, "dtype": "float32", "seed": 0}


def workload(dynamic):
    return parse_workload({**NODE, "dynamic": dynamic})


def sizes(dynamic, symbol="seq_len", count=5):
    return [workload(dynamic).of_input(number).symbols[symbol] for number in range(count)]


def test_named_sizes_are_taken_in_turn_after_the_declared_one():
    assert sizes({"seq_len": [4, 10]}) == [16, 4, 10, 4, 10]


@pytest.mark.parametrize("dynamic", [[], ["seq_len"], {"seq_len": []}, {"batch_size": [2]}])
def test_a_symbol_without_named_sizes_keeps_its_own(dynamic):
    assert sizes(dynamic) == [16] * 5


def test_an_open_symbol_without_named_sizes_is_compared_at_others():
    others = workload(["batch_size", "seq_len"]).of_other_sizes()
    assert [tuple(each.symbols.values()) for each in others] == [(4, 8), (6, 12)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 128])
def test_the_other_sizes_differ_from_each_other_and_are_never_one(size):
    one = Workload(symbols={"n": size}, dynamic=("n",))
    assert len({size, 1, *(each.symbols["n"] for each in one.of_other_sizes())}) >= 3


@pytest.mark.parametrize("dynamic", [[], {"seq_len": [4]}, {"seq_len": []}])
def test_nothing_is_compared_at_other_sizes_than_those_that_are_named(dynamic):
    assert workload(dynamic).of_other_sizes() == ()


@pytest.mark.parametrize(
    ("dynamic", "said"),
    [
        ({"seq_len": [32]}, "32 is above workload.seq_len=16"),
        ({"seq_len": 4}, "expected a list of positive whole numbers"),
        ({"seq_len": [0]}, "expected a list of positive whole numbers"),
        ({"seq_len": [True]}, "expected a list of positive whole numbers"),
        ({"width": [4]}, "'width' is not a symbol"),
        ("seq_len", "expected a list of symbols, or the sizes of each"),
    ],
)
def test_sizes_that_are_none_are_refused(dynamic, said):
    with pytest.raises(ConfigError, match=said):
        workload(dynamic)


def test_an_open_size_admits_every_size_and_a_fixed_one_its_own():
    spec = TensorSpec(name="x", shape=("batch_size", "seq_len", 3), dtype="float32")
    opened = workload(["seq_len"])
    assert spec.admits((8, 5, 3), opened)
    assert not spec.admits((7, 5, 3), opened)
    assert not spec.admits((8, 0, 3), opened)
    assert not spec.admits((8, 5), opened)
