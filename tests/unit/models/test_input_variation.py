"""Further inputs from one example: other values, in its range and of its shapes."""

from __future__ import annotations

import numpy as np

from benchorch.models.input_variation import varied

RNG = np.random.default_rng(0)
EXAMPLE = {
    "image": RNG.standard_normal((2, 3, 8, 8)).astype(np.float32),
    "ids": RNG.integers(5, 90, (2, 12)),
    "mask": np.ones((2, 12), dtype=np.int64),
    "flag": np.array([True, False]),
}


def test_the_users_own_comes_first_and_all_others_differ_in_values() -> None:
    sets = varied([EXAMPLE], 8)
    assert len(sets) == 8
    assert sets[0] is EXAMPLE
    images = [each["image"].tobytes() for each in sets]
    assert len(set(images)) == 8
    for each in sets:
        for name, array in each.items():
            assert (array.shape, array.dtype) == (EXAMPLE[name].shape, EXAMPLE[name].dtype)
        assert abs(each["image"]).max() <= abs(EXAMPLE["image"]).max()
        assert sorted(each["ids"][0]) == sorted(EXAMPLE["ids"][0])
        assert np.array_equal(each["mask"], EXAMPLE["mask"])
        assert np.array_equal(each["flag"], EXAMPLE["flag"])


def test_several_examples_are_all_kept() -> None:
    other = {name: array[::-1].copy() for name, array in EXAMPLE.items()}
    sets = varied([EXAMPLE, other], 4)
    assert sets[:2] == [EXAMPLE, other]
    assert len(sets) == 4


def test_values_of_one_sign_keep_it() -> None:
    pixels = {"x": RNG.random((2, 30), dtype=np.float32)}
    assert all((each["x"] >= 0).all() for each in varied([pixels], 8))


def test_a_floating_mask_stays_beside_what_can_vary() -> None:
    floats = EXAMPLE["mask"].astype(np.float32)
    floats[0, 9:] = 0
    sets = varied([{"ids": EXAMPLE["ids"], "mask": floats}], 8)
    assert len(sets) == 8
    assert all(np.array_equal(each["mask"], floats) for each in sets)


def test_an_image_of_ones_varies_as_nothing_else_does() -> None:
    ones = np.ones((1, 3, 4, 4), np.float32)
    sets = varied([{"image": ones, "mask": EXAMPLE["mask"], "n": np.array(3)}], 8)
    assert len(sets) == len({each["image"].tobytes() for each in sets}) == 6  # two are permuted


def test_what_cannot_vary_has_no_variations() -> None:
    assert len(varied([{"mask": EXAMPLE["mask"], "n": np.array(3)}], 8)) == 1
