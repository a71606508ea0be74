"""What a stored run is resumed with: other settings for the rest, and no other trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.trial import Plan, node_of
from benchorch.errors import ConfigError
from benchorch.run.planner import plan_jobs
from benchorch.run.resumed_settings import names_trials, with_settings

JOB = ["model=mlp", "conversion=eager", "recorder=none", "executor=inline", "budget.max_usd=3"]


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer(config_loader())


@pytest.fixture(scope="module")
def stored(composer: Composer) -> Plan:
    return replace(plan_jobs(composer, [[*JOB, "store.quota_gib=7"]], "p").plan, notes=("old",))


@pytest.mark.parametrize("words", [["budget.minutes=10"], ["budget={minutes: 10}"]])
def test_only_the_key_itself_changes(stored: Plan, composer: Composer, words: list[str]) -> None:
    found = with_settings(stored, composer, words)
    budget = {"minutes": 10, "max_usd": 3}
    assert found == replace(stored, session={**stored.session, "budget": budget})


def test_a_key_of_a_stored_option_is_changed_in_it(stored: Plan, composer: Composer) -> None:
    found = with_settings(stored, composer, ["executor.isolated=true", "store.root=elsewhere"])
    executor, store = node_of(found.session, "executor"), node_of(found.session, "store")
    assert executor == {**node_of(stored.session, "executor"), "isolated": True}
    assert (store["root"], store["quota_gib"]) == ("elsewhere", 7)


def test_another_option_takes_the_place_of_the_stored_one(stored: Plan, composer: Composer) -> None:
    words = ["executor=process", "recorder=mlflow", "recorder.experiment=mine", "rebuild=always"]
    found = with_settings(stored, composer, words).session
    assert node_of(found, "executor")["isolated"] is True
    assert node_of(found, "tracking")["experiment"] == "mine"
    assert found["rebuild"] == "always"
    assert "recorder" not in found


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stopping.max_window_s=20", "runs the trials of the plan as they are"),
        ("limits.memory_gib=8", "runs the trials of the plan as they are"),
        ("conversion.tolerance_ratio=1", "conversion.tolerance_ratio: resume runs the trials"),
        ("hardware=g5", "runs the trials of the plan as they are"),
        ("baseline=onnxruntime", "runs the trials of the plan as they are"),
        ("budgt.minutes=1", "Did you mean 'budget'"),
        ("budget.minuts=1", "Did you mean 'minutes'"),
        ("budget.minutes=many", "expected a number or null"),
        ("budget.minutes=1,2", "expected one value for the whole run"),
        ("~budget.minutes", "expected one value for the whole run"),
        ("executor=[process,inline]", "runs the trials of the plan as they are"),
        ("executor=nothing", "there is no 'nothing'"),
        ("rebuild=sometimes", "expected one of"),
    ],
)
def test_what_makes_other_trials_or_no_sense_is_refused(
    stored: Plan, composer: Composer, word: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        with_settings(stored, composer, composer.lifted([word]))
    assert reason in str(error.value)


def test_machines_that_another_executor_does_not_have_are_refused(
    stored: Plan, composer: Composer
) -> None:
    trials = [
        replace(one, spec={**one.spec, "hardware": {**one.hardware, "kind": "g5.xlarge"}})
        for one in stored.trials
    ]
    away = replace(stored, trials=tuple(trials))
    with pytest.raises(ConfigError, match=r"executor: .*g5\.xlarge"):
        with_settings(away, composer, ["executor=process"])


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("model=mlp", True),
        ("conversion=[eager,export]", False),
        ("matrix={model: [mlp, bert]}", True),
        ("budget.minutes=1", False),
        ("model.widths=[4]", False),
        ("matrix.workload.batch_size=[1,2]", False),
    ],
)
def test_a_model_names_trials(composer: Composer, word: str, names: bool) -> None:
    assert names_trials(composer.lifted([word])) is names
