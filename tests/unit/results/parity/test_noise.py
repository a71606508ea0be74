"""Two runs of the baseline: the same, apart by rounding, or not deterministic."""

from __future__ import annotations

import numpy as np

from benchorch.domain.codec import decode, encode
from benchorch.domain.noise import Noise
from benchorch.domain.verdict import Kind, Verdict
from benchorch.results.parity.noise import noise_between
from benchorch.trial.verify import verify

REF = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)


def test_the_same_bits_are_no_noise_and_nan_is_itself() -> None:
    holed = REF.copy()
    holed[0, 0] = np.nan
    assert noise_between([{"0": holed}], [{"0": holed.copy()}]) == Noise()


def test_rounding_is_noise_and_no_verdict() -> None:
    noise = noise_between([{"0": REF}], [{"0": REF * np.float32(1 + 2e-7)}])
    assert 0 < noise.ratio < 1e-6
    assert not noise.is_random
    verdict = verify([{"0": REF}], [{"0": REF}], 1e-4, noise=noise)
    assert verdict.kind is Kind.AGREES
    assert verdict.noise_ratio == noise.ratio
    assert "rounding in another order" in verdict.notes[0]


def test_one_value_beyond_rounding_is_not_deterministic() -> None:
    other = REF.copy()
    other[2, 3] += 1e-3
    noise = noise_between([{"0": REF}], [{"0": other}])
    verdict = verify([{"0": REF}], [{"0": REF}], 0.2, noise=noise)
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert not verdict.passed
    assert "output 0 on input 0" in verdict.explanation
    assert "cause unknown" in verdict.explanation


def test_with_a_cause_the_size_does_not_matter() -> None:
    noise = Noise(ratio=1e-9, where="output 0 on input 0", causes=("buffer 'n' changed",))
    verdict = verify([{"0": REF}], [{"0": REF}], 1e-4, noise=noise)
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert "buffer 'n' changed" in verdict.explanation


def test_a_cause_without_effect_is_fine() -> None:
    assert verify([{"0": REF}], [{"0": REF}], 1e-4, noise=Noise(causes=("x",))).passed


def test_other_ids_shapes_dtypes_and_names_are_not_deterministic() -> None:
    ids = np.arange(5)
    assert noise_between([{"0": REF}], [{"0": REF.astype(np.float64)}]).is_random
    assert noise_between([{"0": ids}], [{"0": ids[::-1]}]).is_random
    assert noise_between([{"0": ids}], [{"0": ids[:3]}]).is_random
    assert noise_between([{"0": ids}], [{"1": ids}]).is_random


def test_rounding_that_is_spread_over_all_values_is_no_chance_of_a_small_channel() -> None:
    """As the scores of a decoder's few tokens: some words have small ones each time."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((1, 4, 20_000)).astype(np.float32)
    off = rng.standard_normal(scores.shape) * 10 * 2.0**-23
    spread = noise_between([{"0": scores}], [{"0": scores + off.astype(np.float32)}])
    assert 1e-6 < spread.ratio < 2e-6
    assert not spread.is_random
    of_one = scores.copy()
    of_one[:, :, np.abs(scores).max(axis=1).argmin()] += 1e-5
    assert noise_between([{"0": scores}], [{"0": of_one}]).is_random
    larger = noise_between([{"0": scores}], [{"0": scores + 4 * off.astype(np.float32)}])
    assert larger.is_random


def test_a_small_channel_on_a_middle_axis_is_measured_against_itself() -> None:
    values = np.random.default_rng(0).standard_normal((2, 6, 5, 7)).astype(np.float32)
    values[:, :, 2] *= 1e-3
    other = values.copy()
    other[0, 3, 2, 1] += np.float32(5e-6)
    assert noise_between([{"0": values}], [{"0": other}]).is_random


def test_half_precision_rounds_more() -> None:
    other = REF * np.float32(1 + 5e-4)
    assert noise_between([{"0": REF}], [{"0": other}]).is_random
    assert not noise_between([{"0": REF}], [{"0": other}], epsilon=2.0**-10).is_random


def test_a_verdict_that_was_stored_without_its_kind_has_the_one_that_follows() -> None:
    for passed, kind in ((True, Kind.AGREES), (False, Kind.DIFFERS)):
        stored = encode(Verdict(passed=passed, reasons=(), outputs=(), tolerance_ratio=1e-4))
        assert isinstance(stored, dict)
        assert stored["kind"] == kind.value
        assert decode(Verdict, {k: v for k, v in stored.items() if k != "kind"}).kind is kind
    random = Verdict(
        passed=False, kind=Kind.NOT_DETERMINISTIC, reasons=(), outputs=(), tolerance_ratio=1
    )
    assert decode(Verdict, encode(random)).kind is Kind.NOT_DETERMINISTIC
