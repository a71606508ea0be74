from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtr

from benchorch.stats.sequential_testing import look_alpha

USUAL = (5, 8, 12, 18, 27, 40)


@pytest.mark.parametrize("overall_alpha", [0.05, 0.005, 0.0007])
def test_the_known_levels_of_the_usual_looks_are_reproduced(overall_alpha: float) -> None:
    # One more analysis at the end is as good as none: it is looked up nowhere.
    simulated = look_alpha((5, 8, 12, 18, 27, 39, 40), overall_alpha)

    assert look_alpha(USUAL, overall_alpha) == pytest.approx(simulated, rel=0.08)


def test_a_single_look_needs_no_correction() -> None:
    assert look_alpha((10,)) == look_alpha(()) == 0.05


def test_every_further_look_costs_something() -> None:
    assert look_alpha((5, 6, 7, 8)) < look_alpha((5, 8)) < look_alpha((8,))


def test_a_look_gets_an_equal_share_at_least() -> None:
    assert look_alpha(USUAL, 1e-7) == pytest.approx(1e-7 / 6)


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
