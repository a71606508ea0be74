"""The user's own metric as the gate, and where a conversion begins to differ."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from benchorch.domain.verdict import Verdict
from benchorch.errors import TrialError
from benchorch.frameworks.numpy_files import saved
from benchorch.trial.divergence import first_divergence
from benchorch.trial.reference import outputs_of, referee_file
from benchorch.trial.verify import verify
from support import conversions as lab

REF = np.array([[0.1, 0.9], [0.8, 0.2]], dtype=np.float32)


def agreement(outputs, references):  # type: ignore[no-untyped-def]
    same = [
        (y["0"].argmax(-1) == ref["0"].argmax(-1)).mean()
        for y, ref in zip(outputs, references, strict=True)
    ]
    return np.float32(np.mean(same))


def seen(outputs, references, inputs):  # type: ignore[no-untyped-def]
    return len(inputs)


@pytest.fixture(autouse=True)
def users_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("users_metrics")
    functions: dict[str, Callable[..., object]] = {
        "agreement": agreement,
        "seen": seen,
        "words": lambda outputs, references: "good",
        "breaks": lambda outputs, references: 1 / 0,
        "nan": lambda outputs, references: float("nan"),
    }
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, "users_metrics", module)


def judged(y: np.ndarray, metric: str, least_score: float | None = None) -> Verdict:
    return verify(
        [{"0": y}],
        [{"0": REF}],
        1e-3,
        inputs=[{"x": REF}],
        metric=f"users_metrics:{metric}",
        least_score=least_score,
    )


def test_the_metric_decides_and_not_the_numbers() -> None:
    verdict = judged(REF * 2, "agreement", 0.99)
    assert verdict.passed
    assert (verdict.score, verdict.least_score) == (1.0, 0.99)
    assert verdict.metric == "users_metrics:agreement"
    assert verdict.outputs[0].relative_l2_ratio == pytest.approx(1)


def test_a_score_below_the_least_one_fails_with_both() -> None:
    verdict = judged(REF[::-1].copy(), "agreement", 0.99)
    assert verdict.reasons == ("users_metrics:agreement gave 0, less than 0.99.",)


def test_without_a_least_score_it_is_only_recorded() -> None:
    assert judged(REF, "agreement").score == 1.0
    assert not judged(REF * 2, "agreement").passed


def test_values_that_are_no_numbers_fail_whatever_the_metric_says() -> None:
    assert not judged(REF * np.float32("nan"), "seen", 0).passed


def test_a_metric_may_ask_for_the_inputs() -> None:
    assert judged(REF, "seen", 1).score == 1


def test_a_score_that_is_no_number_never_passes() -> None:
    verdict = judged(REF, "nan", 0.5)
    assert not verdict.passed
    assert verdict.score is None


@pytest.mark.parametrize("metric", ["words", "breaks"])
def test_a_metric_that_gives_nothing_is_the_users_to_mend(metric: str) -> None:
    with pytest.raises(TrialError) as caught:
        judged(REF, metric)
    assert caught.value.kind == "user_code"


def spoilt(model: str, part: str) -> str:
    import torch

    from support import models as tiny_models

    def make(broken: bool) -> torch.nn.Module:
        torch.manual_seed(0)
        module: torch.nn.Module = getattr(tiny_models, model)().eval()
        if broken:
            with torch.no_grad():
                module.get_submodule(part).weight.mul_(1.5)  # type: ignore[operator,union-attr]
        return module

    chain = lab.chain_of("eager", model)
    return first_divergence(
        original=lambda: make(False),
        converted=lambda: make(bool(part)),
        changed=True,
        program=None,
        example=chain.example(0),
        tolerance_ratio=1e-3,
    )


def test_the_first_module_that_differs_is_named() -> None:
    assert "'layers.1' is the first" in spoilt("Convolution", "layers.1")
    assert "'layers.0' before it still agrees" in spoilt("Convolution", "layers.1")
    assert "'mixed' is the first" in spoilt("Transformer", "mixed")


def test_modules_that_all_agree_are_said_to() -> None:
    assert spoilt("Convolution", "").startswith("Not in a module")


def test_a_search_that_fails_costs_nothing_but_itself() -> None:
    def refuses() -> None:
        raise RuntimeError("no room")

    told = first_divergence(
        original=refuses,  # type: ignore[arg-type]
        converted=refuses,  # type: ignore[arg-type]
        changed=True,
        program=None,
        example=lab.chain_of("eager").example(0),
        tolerance_ratio=1e-3,
    )
    assert told == "Where it begins is unknown: RuntimeError: no room"


def test_float64_is_kept_beside_the_reference(tmp_path: Path) -> None:
    made = lab.built(lab.chain_of("eager"), tmp_path)
    wide = saved(referee_file(made.reference, 0))["0"]
    assert wide.dtype == np.float64
    assert 0 < lab.relative_l2(lab.reference_of(made)["0"], wide) < 1e-6


def test_outputs_that_share_memory_are_kept_apart() -> None:
    buffer = np.zeros(2, dtype=np.float32)
    executable = mock.Mock(
        outputs=lambda _: {"0": buffer}, returned=lambda _: None, answer=lambda _: None
    )
    kept: list[Mapping[str, np.ndarray]] = []
    for value in (1.0, 2.0):
        buffer[:] = value  # as OpenVINO does under torch.compile
        kept += outputs_of(executable, [{}])
    assert [each["0"].tolist() for each in kept] == [[1, 1], [2, 2]]
