"""`make provision-check` as people run it: a table or JSON, an exit code, and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from moto.iam.models import iam_backends

from stack_home import Settings, find_home, make_home, own_region
from support.aws_emulator.account import EmulatedAccount
from support.aws_emulator.server import ACCOUNT, Emulator
from support.aws_emulator.traffic import Fault
from support.s3 import emulator

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "provision_check.py"
NOWHERE = {
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def aws() -> Iterator[Emulator]:
    running = emulator()
    running.account = EmulatedAccount()
    iam_backends[ACCOUNT]["aws"].reset()  # moto's roles are those of the process
    yield running
    running.traffic.faults.clear()
    running.ahead_s = 0.0


def run(environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env={**kept, **NOWHERE, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_an_account_that_is_ready_has_a_table_and_exit_code_0(aws: Emulator) -> None:
    done = run(aws.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok       images" in done.stdout
    assert "make provision makes it" in done.stdout


def test_an_account_that_is_not_has_exit_code_1_and_json_says_why(aws: Emulator) -> None:
    aws.account.quotas_vcpus |= {"L-3819A6DF": 0, "L-DB2E81BA": 0}  # neither spot nor on demand
    done = run(aws.environment(), "--json", "--name", "lab")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ready"]) == (1, False)
    failed = [one for one in told["findings"] if one["state"] == "failed"]
    assert [one["check"] for one in failed] == ["quotas", "quotas"]


@pytest.mark.parametrize("profile", ["", "nobody-has-this-profile"])
def test_without_credentials_it_is_one_sentence(profile: str) -> None:
    done = run({"AWS_PROFILE": profile} if profile else {})
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "aws sso login" in done.stderr


@pytest.mark.parametrize("what", ["status", "image"])
def test_the_other_commands_need_credentials_too_and_say_so_without_a_traceback(what: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT.with_name("provision.py")), what],
        env={**kept, **NOWHERE}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{what}: Unable to locate credentials",
        "Credentials are those of boto3: aws sts get-caller-identity",
    ]


def test_credentials_that_have_expired_are_one_sentence(aws: Emulator) -> None:
    aws.break_it(Fault("sts:.*", code="ExpiredToken", status=403, message="It has expired"))
    done = run(aws.environment())
    assert done.returncode == 2
    assert "It has expired" in done.stderr


def test_a_clock_that_aws_refuses_is_named(aws: Emulator) -> None:
    aws.ahead_s = 7200.0
    done = run(aws.environment())
    assert done.returncode == 2
    assert "Signature expired" in done.stderr
    assert "clock" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--var", "fleet"),
        ("--var", "fleet={}"),
        ("--frob",),
        ("--var", "region=nowhere"),
        ("--var", "ttl_minutes=soon"),
    ],
)
def test_bad_arguments_are_a_sentence_and_no_success(words: tuple[str, ...]) -> None:
    assert run({}, *words).returncode == 2


def test_a_stack_that_is_there_is_examined_where_it_is_and_with_its_fleet(
    aws: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    home = make_home(find_home(), "us-east-1")
    settings = Settings(region="eu-west-1", variables={"fleet": '{"r6i.large"=9}'})
    home.remember("abroad", settings)
    try:
        done = run(aws.environment(), "--json", "--name", "abroad")
        given = run(aws.environment(), "--json", "--name", "abroad", "--var", "region=us-east-1")
    finally:
        home.forget("abroad")
    assert aws.account.regions["ec2:RunInstances"] == "us-east-1"  # what is given now comes last
    text = json.dumps(json.loads(done.stdout)["findings"])
    assert "eu-west-1" in text
    assert "r6i.large" in text
    assert "g5.xlarge" not in text
    assert "eu-west-1" not in given.stdout


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-west-2"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2"),
        ({}, "eu-north-1"),
        ({"AWS_CONFIG_FILE": "/dev/null"}, "us-east-1"),
    ],
)
def test_a_new_stack_is_made_in_the_region_of_the_shell_or_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], region: str
) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-north-1\n")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"AWS_CONFIG_FILE": str(config)} | variables).items():
        monkeypatch.setenv(name, value)
    assert own_region() == region
