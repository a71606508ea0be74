from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.variance_components import Components, calls_worth_taking, components


def test_components_are_those_of_the_hand() -> None:
    # Logarithms (0, 2), (4, 6): within 2 and 2 with one degree each; means 1 and 5, spread 8 * 2.
    found = components([[np.exp([0, 2]), np.exp([4, 6])]])
    assert found is not None
    assert found.call == pytest.approx(2.0)
    assert found.process == pytest.approx((16 - 2) / 2)
    assert found.node is None


def test_nodes_are_told_from_their_processes() -> None:
    rng = np.random.default_rng(0)
    found = components(
        [
            [np.exp(level + 0.01 * rng.standard_normal() + 0.02 * rng.standard_normal(40))
             for _ in range(rng.integers(5, 40))]
            for level in 0.1 * rng.standard_normal(60)
        ]
    )  # fmt: skip
    assert found is not None
    assert math.sqrt(found.call) == pytest.approx(0.02, rel=0.05)
    assert math.sqrt(found.process or 0) == pytest.approx(0.01, rel=0.1)
    assert math.sqrt(found.node or 0) == pytest.approx(0.1, rel=0.25)


def test_a_component_is_never_negative() -> None:
    found = components([[[1.0, 2.0], [1.0, 2.0]]])
    assert found is not None
    assert found.process == 0.0


@pytest.mark.parametrize("nodes", [[], [[]], [[[1.0]]], [[[1.0], [2.0]], [[3.0]]]])
def test_without_two_calls_in_a_process_nothing_is_known(nodes: list[list[list[float]]]) -> None:
    assert components(nodes) is None


def test_a_single_process_tells_of_its_calls_only() -> None:
    found = components([[[1.0, 2.0, 3.0]]])
    assert found is not None
    assert (found.process, found.node) == (None, None)


def test_slow_starts_are_worth_more_calls_and_fast_ones_fewer() -> None:
    # The example of the protocol: 6 s to start, 5 ms a call, 2 % and 1 %: about 70 calls.
    found = Components(call=0.02**2, process=0.01**2, node=None)
    assert calls_worth_taking(found, call_s=0.005, process_s=6.0) == 70
    assert calls_worth_taking(found, call_s=0.005, process_s=0.06) == 7


@pytest.mark.parametrize("process", [None, 0.0])
def test_processes_that_do_not_differ_are_no_reason_to_stop_calling(process: float | None) -> None:
    found = Components(call=1.0, process=process, node=None)
    assert calls_worth_taking(found, call_s=1.0, process_s=1.0) is None
