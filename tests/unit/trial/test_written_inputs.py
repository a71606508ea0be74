"""Inputs that a call writes in place, after eager's call and after the conversion's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from benchorch.domain.verdict import Kind, Verdict
from benchorch.interfaces.runtime import Executable
from benchorch.trial.written_inputs import Written, find_written, with_written, written_file
from support.parity_lab import judge_model

torch = pytest.importorskip("torch")

Arrays = Mapping[str, NDArray[Any]]
RNG = np.random.default_rng(0)
GIVEN = {
    n: {name: RNG.normal(size=(4, 8)).astype(np.float32) for name in ("x", "kv")} for n in (0, 1)
}
AGREED = Verdict(passed=True, reasons=(), outputs=(), tolerance_ratio=1e-4)


class Fake:
    """An executable whose calls leave in its inputs what a function says."""

    def __init__(self, leaves: Callable[[Arrays], Arrays]) -> None:
        self.written = leaves


def fake(leaves: Callable[[Arrays], Arrays]) -> Executable:
    return cast(Executable, Fake(leaves))


NOTHING = fake(lambda one: {})
CACHE = fake(lambda one: {"kv": one["kv"] + one["x"]})
DOUBLED = fake(lambda one: {"x": 2 * one["x"]})


def found(eager: Executable, place: Path, outputs: Arrays | None = None) -> Written:
    return find_written(eager, GIVEN, dict.fromkeys(GIVEN, outputs or {}), place)


def judged(
    conversion: Executable, eager: Executable, place: Path, *, ignored: bool = False
) -> Verdict:
    told = found(eager, place)
    return with_written(AGREED, conversion, GIVEN, told, place, ignored=ignored)


def test_content_that_comes_from_other_inputs_is_carried(tmp_path: Path) -> None:
    assert found(CACHE, tmp_path) == Written(names=("kv",), carried=("kv",))
    assert written_file(tmp_path, 1).exists()


def test_content_that_follows_from_the_input_alone_is_not(tmp_path: Path) -> None:
    assert found(DOUBLED, tmp_path) == Written(names=("x",))


def test_content_that_is_in_an_output_is_not(tmp_path: Path) -> None:
    returned = {"0": GIVEN[0]["kv"] + GIVEN[0]["x"]}
    assert found(CACHE, tmp_path, returned) == Written(names=("kv",))


def test_a_model_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    assert found(NOTHING, tmp_path) == Written()
    assert not [*tmp_path.iterdir()]


def test_where_no_other_inputs_fit_content_counts_as_carried(tmp_path: Path) -> None:
    def refusing(one: Arrays) -> Arrays:
        if one["x"] is GIVEN[1]["x"] and one["kv"] is GIVEN[0]["kv"]:
            raise ValueError("lengths that do not fit")
        return {"x": 2 * one["x"], "kv": 2 * one["kv"]}

    assert found(fake(refusing), tmp_path).carried == ("kv",)
    alone = find_written(CACHE, {0: GIVEN[0]}, {0: {}}, tmp_path)
    assert alone.carried == ("kv",)


def test_a_cache_that_a_conversion_does_not_write_is_another_model(tmp_path: Path) -> None:
    verdict = judged(NOTHING, CACHE, tmp_path)
    assert verdict.kind is Kind.DIFFERS
    assert "eager writes input kv in place, and this conversion leaves it" in verdict.explanation
    assert "parity.ignore_written_inputs=true" in verdict.explanation
    assert judged(CACHE, CACHE, tmp_path) == AGREED


def test_a_cache_that_a_conversion_writes_otherwise_is_another_model(tmp_path: Path) -> None:
    other = fake(lambda one: {"kv": one["kv"] - one["x"]})
    assert "writes input kv in place otherwise than eager (relative L2 error" in (
        judged(other, CACHE, tmp_path).explanation
    )


def test_an_input_that_only_a_conversion_overwrites_is_a_difference(tmp_path: Path) -> None:
    verdict = judged(DOUBLED, NOTHING, tmp_path)
    assert verdict.reasons == ("this conversion overwrites input x, which eager leaves as it was.",)


def test_of_a_side_effect_it_is_noted(tmp_path: Path) -> None:
    verdict = judged(NOTHING, DOUBLED, tmp_path)
    assert verdict.passed
    assert verdict.unwritten["x"].startswith("Eager writes input x in place, and this conversion")


def test_what_the_user_ignores_is_noted(tmp_path: Path) -> None:
    verdict = judged(NOTHING, CACHE, tmp_path, ignored=True)
    assert verdict.passed
    assert [*verdict.unwritten] == ["kv"]


def test_a_verdict_that_already_differs_gets_the_reason_beside_its_own(tmp_path: Path) -> None:
    wrong = Verdict(passed=False, reasons=("no.",), outputs=(), tolerance_ratio=1e-4)
    random = wrong.not_deterministic("it is not.")
    told = found(CACHE, tmp_path)
    both = with_written(wrong, NOTHING, GIVEN, told, tmp_path, ignored=False)
    assert len(both.reasons) == 2
    assert with_written(random, NOTHING, GIVEN, told, tmp_path, ignored=False) == random


class Decoder(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Writes its newest key into an argument, and returns the scores alone."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x, kv):  # type: ignore[no-untyped-def]
        kv.copy_(torch.cat([self.key(x)[:, None], kv[:, :-1]], 1))
        return (self.query(x)[:, None] * kv).sum(-1)


class Normalising(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 6)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x.sub_(0.5).div_(2))


def batch(*names: str) -> Arrays:
    shapes = {"x": (4, 8), "kv": (4, 3, 8)}
    return {name: RNG.normal(size=shapes[name]).astype(np.float32) for name in names}


def test_a_decoder_step_is_the_same_model_only_where_its_cache_is_written() -> None:
    example = batch("x", "kv")
    lost = judge_model(Decoder, example, "onnxruntime")
    assert lost.kind is Kind.DIFFERS
    assert "input kv" in lost.explanation
    for conversion in ("eager", "torchscript", "export"):
        kept = judge_model(Decoder, example, conversion)
        assert kept.passed
        assert not kept.unwritten


def test_an_input_that_is_normalised_in_place_is_noted_where_it_is_not() -> None:
    verdict = judge_model(Normalising, batch("x"), "onnxruntime")
    assert verdict.passed
    assert [*verdict.unwritten] == ["x"]
