"""Figures of generated tokens, on distributions whose answers are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchorch.domain.verdict import Kind, Verdict
from benchorch.results.parity.tokens import judge_tokens

AGREES = Verdict(passed=True, reasons=(), outputs=(), tolerance_ratio=1e-4)
UNIFORM, SURE = np.log([0.25] * 4), np.log([0.7, 0.1, 0.1, 0.1])


def scores(*rows: Any) -> Any:
    """One sequence, shape (1, tokens, 4)."""
    return np.array([rows], dtype=np.float32)


def test_divergence_is_given_for_each_position_and_its_first_disagreement() -> None:
    other = np.log([0.1, 0.7, 0.1, 0.1])
    pairs = [(scores(SURE, other, SURE), scores(SURE, SURE, SURE))]
    verdict = judge_tokens(AGREES, pairs, {})
    assert verdict.tokens is not None
    found = verdict.tokens
    assert (found.positions, found.agreeing, found.first_divergence) == (3, 2, 1)
    assert found.first_divergence_input == 0
    expected = 0.7 * math.log(7) + 0.1 * math.log(1 / 7)
    assert found.divergence_nats == pytest.approx((0, expected, 0), abs=1e-6)
    assert found.perplexity is None
    assert "token 1 of input 0" in found.sentence


def test_equal_texts_have_no_divergence() -> None:
    same = scores(SURE, UNIFORM)
    found = judge_tokens(AGREES, [(same, same)], {}).tokens
    assert found is not None
    assert (found.first_divergence, found.mean_divergence_nats) == (None, 0)


def test_perplexity_of_a_uniform_model_is_the_size_of_its_vocabulary() -> None:
    even = scores(UNIFORM, UNIFORM)
    found = judge_tokens(AGREES, [(even, even)], {0: np.array([[3, 1]])}).tokens
    assert found is not None
    assert (found.perplexity, found.baseline_perplexity) == pytest.approx((4, 4))


def test_a_text_that_becomes_less_likely_disqualifies_and_a_likelier_one_does_not() -> None:
    text = {0: np.array([[0, 0]])}
    worse = judge_tokens(AGREES, [(scores(UNIFORM, UNIFORM), scores(SURE, SURE))], text)
    assert worse.kind is Kind.DIFFERS
    assert "perplexity" in worse.explanation
    assert judge_tokens(AGREES, [(scores(SURE, SURE), scores(UNIFORM, UNIFORM))], text).passed


def test_scores_of_other_shapes_have_no_figures() -> None:
    assert judge_tokens(AGREES, [(scores(SURE), scores(SURE, SURE))], {}) is AGREES
