"""The part of a plan that ``--only`` chooses."""

from __future__ import annotations

import pytest

from benchorch.domain.trial import Plan, Skip
from benchorch.errors import ConfigError
from benchorch.run.selection import narrowed
from support.synthetic_runs import trial


def skip(conversion: str, model: str = "mlp") -> Skip:
    return Skip(labels={"model": model, "conversion": conversion}, reason="", requested=True)


def plan(*skips: Skip, conversions: tuple[str, ...] = ("eager", "onnxruntime")) -> Plan:
    trials = tuple(trial(one) for one in conversions)
    return Plan(plan_id="p", name="n", trials=trials, skips=skips, session={})


def cells(part: Plan) -> list[str]:
    return [cell.labels["conversion"] for cell in (*part.trials, *part.skips)]


def test_skips_of_cells_that_were_not_chosen_are_left_out() -> None:
    whole = plan(skip("tensorrt"), skip("openvino"))
    assert cells(narrowed(whole, ["eager"])) == ["eager"]
    assert cells(narrowed(whole, ["*n*"])) == ["onnxruntime", "tensorrt", "openvino"]
    assert narrowed(whole, []) is whole


def test_a_pattern_may_fit_a_skip_alone() -> None:
    whole = plan(skip("tensorrt"), skip("tensorrt", model="cnn"), conversions=())
    assert cells(narrowed(whole, ["tensorrt"])) == ["tensorrt", "tensorrt"]
    assert [one.labels["model"] for one in narrowed(whole, ["cnn *"]).skips] == ["cnn"]


def test_a_pattern_that_fits_nothing_names_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"fits no trial\. Trials: tensorrt\.") as refused:
        narrowed(plan(skip("tensorrt"), conversions=()), ["tensorort"])
    assert refused.value.problems[0].correction.meant == "tensorrt"
    with pytest.raises(ConfigError, match=r"fits no trial\. Trials: none\.") as refused:
        narrowed(plan(conversions=()), ["eager"])
    assert refused.value.problems[0].correction is None
