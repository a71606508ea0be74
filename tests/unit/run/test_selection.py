"""The part of a plan that ``--only`` chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.codec import Json
from benchorch.domain.trial import Plan, Skip
from benchorch.errors import ConfigError
from benchorch.run.selection import narrowed, split_trial
from support.synthetic_runs import result, trial, write_run


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


def test_a_trial_keeps_the_skip_that_says_why_it_has_no_baseline() -> None:
    def unable(conversion: str, **nodes: dict[str, Json]) -> Skip:
        return replace(skip(conversion), spec=trial(conversion, **nodes).spec)

    fast, wide = trial("torchscript"), trial("torchscript", model={"widths": [9]})
    skips = (unable("tensorrt"), unable("tensorrt", model={"widths": [9]}), unable("openvino"))
    session = {"baseline": "tensorrt"}
    whole = Plan(plan_id="p", name="n", trials=(fast, wide), skips=skips, session=session)
    assert narrowed(whole, [fast.trial_id]).skips == skips[:1]
    compared = replace(fast, baseline_id="other")
    assert narrowed(replace(whole, trials=(compared, wide)), [fast.trial_id]).skips == ()


def test_a_baseline_keeps_no_skip_of_a_variant_of_its_own() -> None:
    eager = trial()
    fast = replace(trial("openvino"), baseline_id=eager.trial_id)
    variant = replace(skip("eager"), spec=trial(conversion={"channels_last": True}).spec)
    session = {"baseline": "eager"}
    whole = Plan(plan_id="p", name="n", trials=(eager, fast), skips=(variant,), session=session)
    assert narrowed(whole, ["openvino"]).trials == whole.trials
    assert narrowed(whole, ["openvino"]).skips == ()
    assert narrowed(whole, ["eager"]).skips == (variant,)


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


@pytest.mark.parametrize("name", ["run", "run:2"])
@pytest.mark.parametrize("chosen", ["eager", r"net.py:make model.factory=net.py\:make eager", ""])
def test_a_run_and_a_trial_of_it_may_have_colons(
    name: str, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    eager = trial()
    run = write_run(tmp_path / name, (eager, result(eager)))
    assert split_trial(f"{run}:{chosen}" if chosen else str(run)) == (str(run), chosen)


def test_the_run_is_the_longest_part_that_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    eager = trial()
    run, longer = (write_run(tmp_path / name, (eager, result(eager))) for name in ("run", "run:2"))
    assert split_trial(f"{longer}:eager") == (str(longer), "eager")
    assert split_trial(f"{run}:3:eager") == (str(run), "3:eager")


@pytest.mark.parametrize(
    ("reference", "parts"), [("gone", ("gone", "")), ("a:b:c", ("a:b", "c")), (":c", (":c", ""))]
)
def test_what_names_no_run_is_split_at_the_last_colon(
    reference: str, parts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert split_trial(reference) == parts
