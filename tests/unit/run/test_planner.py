"""What a plan says of where artifacts are kept, before anything is started."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.trial import Plan, node_of
from benchorch.errors import ConfigError
from benchorch.executors.stack import StackExecutor
from benchorch.results.report.console import ConsoleReport
from benchorch.results.report.plan_text import plan_text
from benchorch.run.planner import plan_jobs, session_for

JOB = ["model=mlp", "conversion=eager", "recorder=none"]
ALONE = "each machine builds for itself"


@pytest.fixture(autouse=True)
def at_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("BENCHORCH_STORE_URL", "s3://stack/store")


def test_a_key_that_is_set_twice_for_a_repetition_is_refused() -> None:
    words = ["executor=process", "store.quota_gib=1", "executor=inline", "++store.quota_gib=2"]
    with pytest.raises(ConfigError) as error:
        session_for(Composer(config_loader()), words)
    assert list(error.value.problems) == [
        "executor=inline: executor is set by executor=process already; leave out either.",
        "++store.quota_gib=2: store.quota_gib is set by store.quota_gib=1 already; leave out "
        "either.",
    ]


def planned(*words: str) -> Plan:
    return plan_jobs(Composer(config_loader()), [[*JOB, *words]], "p").plan


@pytest.mark.parametrize(
    ("words", "alone"),
    [
        ((), False),
        (("executor=ec2",), False),
        (("executor=ec2", "store=local"), True),
        (("executor=ray", "executor.address=auto"), True),
        (("executor=ray", "executor.address=auto", "store=s3"), False),
        (("executor=ray",), False),
        (("executor=fleet_local",), False),
    ],
)
def test_that_machines_share_nothing_they_build_is_said_where_it_is_so(
    words: tuple[str, ...], alone: bool
) -> None:
    plan = planned(*words)
    heard = StringIO()
    ConsoleReport(Console(file=heard, width=200)).plan(plan, done=0)
    for told in (plan_text(plan), heard.getvalue()):
        assert (ALONE in told) == alone
        assert ("store=s3" in told) == alone


def test_prices_are_those_of_the_stacks_region_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StackExecutor, "region", lambda self: "eu-west-1")

    def region(*words: str) -> object:
        jobs = [[*JOB, "pricing.source=bundled", *words]]
        found = plan_jobs(Composer(config_loader()), jobs, "p", to_run=False)
        return node_of(found.plan.session, "pricing")["region"]

    assert region("hardware=g5") == "eu-west-1"
    assert region("hardware=g5", "pricing.region=us-east-2") == "us-east-2"
    assert region("hardware=local") == "us-east-1"


@pytest.mark.parametrize("url", [None, ""])
def test_where_no_bucket_is_named_the_next_command_is(
    monkeypatch: pytest.MonkeyPatch, url: str | None
) -> None:
    if url is None:
        monkeypatch.delenv("BENCHORCH_STORE_URL")
    else:
        monkeypatch.setenv("BENCHORCH_STORE_URL", url)
    with pytest.raises(ConfigError) as caught:
        planned("executor=ec2")
    (problem,) = caught.value.problems
    assert problem.startswith("store.url: no bucket is named. Give store.url=s3://bucket/prefix")
    assert "BENCHORCH_STORE_URL" in problem
    assert "store=local" in problem
    assert planned("executor=ec2", "store.url=s3://mine/x").session["store"]["url"] == "s3://mine/x"  # type: ignore[index, call-overload]


def test_a_control_that_makes_no_sense_is_refused_with_the_value_seen() -> None:
    with pytest.raises(ConfigError, match="control: expected auto, true or false, got 'maybe'"):
        planned("control=maybe")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("workload.seq_len=3", "workload.seq_len: no input of these trials has it."),
        ("hardware.threads=1000", "hardware.threads: 1000 threads share the "),
        ("hardware.threads=1", ""),
        ("workload.batch_size=3", ""),
        ("workload.seq_len=128", ""),
    ],
)
def test_a_setting_that_is_probably_a_mistake_is_told_before_anything_runs(
    word: str, told: str
) -> None:
    plan = planned(word)
    assert [note.startswith(told) for note in plan.notes] == [True] * bool(told)
    assert told in plan_text(plan)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("++workload.batchsize=3", "workload.batchsize: no input .* Did you mean 'batch_size'?"),
        ("profile=winer", "profile: there is no 'winer'. Did you mean 'winner'?"),
    ],
)
def test_a_setting_without_effect_is_a_mistake(word: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        planned(word)


def test_a_declared_machine_has_the_processors_of_its_size() -> None:
    jobs = [[*JOB, "hardware=c7i", "hardware.threads=100"]]
    found = plan_jobs(Composer(config_loader()), jobs, "p", to_run=False).plan
    vcpus = node_of(found.trials[0].spec, "hardware")["sizes"]
    assert isinstance(vcpus, dict)
    (note,) = [note for note in found.notes if note.startswith("hardware.threads")]
    assert "100 threads share the " in note
    assert any(f" {size['vcpus']} processors" in note for size in vcpus.values())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hardware=r6i", "executor=fleet_local", "budget.minutes=5"], True),
        (["hardware=r6i", "executor=fleet_local"], False),
        (["budget.minutes=5"], False),
    ],
)
def test_what_a_limit_of_minutes_does_not_end_is_told(words: list[str], told: bool) -> None:
    notes = plan_jobs(Composer(config_loader()), [[*JOB, *words]], "p", to_run=False).plan.notes
    assert any("budget.minutes ends no trial on other machines" in note for note in notes) == told


@pytest.mark.parametrize("word", ["~tracking", "~recorder"])
def test_a_removed_recorder_is_told_how_it_is_switched_off(word: str) -> None:
    composer = Composer(config_loader())
    with pytest.raises(ConfigError) as caught:
        plan_jobs(composer, composer.jobs(["model=mlp", word]), "p")
    assert any("recorder=none" in problem for problem in caught.value.problems)


def test_hydras_own_setting_is_not_taken_for_the_mistake_beside_it() -> None:
    composer = Composer(config_loader())
    job = composer.jobs(["model=mlp", "~matrix.nothing", "hydra.run.dir=out"])
    with pytest.raises(ConfigError) as caught:
        plan_jobs(composer, job, "p")
    assert not any("hydra.run.dir" in problem for problem in caught.value.problems)
    assert any("matrix.nothing" in problem for problem in caught.value.problems)


def test_a_mistaken_job_that_a_sweep_repeats_is_refused() -> None:
    wrong = ["model=mlp", "conversion=mlp"]
    with pytest.raises(ConfigError, match="there is no 'mlp'"):
        plan_jobs(Composer(config_loader()), [wrong, wrong], "p", to_run=False)


def test_that_weights_are_fetched_is_a_note_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["model=bert", "conversion=eager", "recorder=none"]
    jobs = [[*words, "model.pretrained=true"]]
    (note,) = plan_jobs(Composer(config_loader()), jobs, "p").plan.notes
    assert "google-bert/bert-base-uncased cannot be fetched, because HF_HUB_OFFLINE is set" in note
    assert plan_jobs(Composer(config_loader()), [words], "p").plan.notes == ()
