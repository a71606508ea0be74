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
