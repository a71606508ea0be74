from __future__ import annotations

import pytest

from benchorch.stats.sequential_testing import calibrate_alpha


def test_the_constant_of_the_usual_looks_is_reproduced() -> None:
    # 0.0115 keeps them at 4.8 %, so 5 % allows a little more.
    assert calibrate_alpha((5, 8, 12, 18, 27, 40)) == pytest.approx(0.0121, abs=0.0008)


def test_a_single_look_needs_no_correction() -> None:
    assert calibrate_alpha((10,)) == pytest.approx(0.05, abs=0.004)


def test_every_further_look_costs_something() -> None:
    assert calibrate_alpha((5, 6, 7, 8)) < calibrate_alpha((5, 8)) < calibrate_alpha((8,))
