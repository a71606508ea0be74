from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtr

from benchorch.stats.sequential_testing import calibrate_alpha, look_alpha


def test_the_constant_of_the_usual_looks_is_reproduced() -> None:
    # 0.0115 keeps them at 4.8 %, so 5 % allows a little more.
    assert calibrate_alpha((5, 8, 12, 18, 27, 40)) == pytest.approx(0.0121, abs=0.0008)


def test_a_single_look_needs_no_correction() -> None:
    assert calibrate_alpha((10,)) == pytest.approx(0.05, abs=0.004)


def test_every_further_look_costs_something() -> None:
    assert calibrate_alpha((5, 6, 7, 8)) < calibrate_alpha((5, 8)) < calibrate_alpha((8,))


def p_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Student's two-sided p-value of each row's mean."""
    n = values.shape[1]
    t = np.abs(values.mean(axis=1)) * np.sqrt(n) / values.std(axis=1, ddof=1)
    found: NDArray[np.float64] = 2.0 * stdtr(n - 1, -t)
    return found


@pytest.mark.parametrize("switch_at", [5, 12, 18, 27])
def test_a_trial_that_changes_its_design_errs_no_more_often(switch_at: int) -> None:
    """From there on only new pairs count, which take part in the analyses that are left."""
    looks, least_pairs, sequences = (5, 8, 12, 18, 27, 40), 8, 20_000
    draws = np.random.default_rng(switch_at).standard_normal((sequences, max(looks)))
    wrong = np.zeros(sequences, dtype=bool)
    for n in looks:
        pairs = draws[:, :n] if n < switch_at else draws[:, switch_at:n]
        if pairs.shape[1] >= least_pairs:
            wrong |= p_values(pairs) < look_alpha(looks)
    # Three standard errors at 20 000 sequences are 0.5 %.
    assert wrong.mean() <= 0.05
