"""A stack of benchorch's on an emulated AWS, made once for all tests of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.aws_emulator.server import ACCOUNT, Emulator
from support.aws_emulator.terraform import missing

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 400


@pytest.fixture(scope="session")
def terraform() -> Mapping[str, str]:
    """The environment in which terraform works; a loud skip where it does not."""
    reason = missing()
    if reason:
        pytest.skip(f"SKIPPED: the stack is not tested: {reason}")
    return {**os.environ, "TF_CLI_CONFIG_FILE": "", "TF_IN_AUTOMATION": "1"}


@pytest.fixture(scope="session")
def aws() -> Iterator[Emulator]:
    """AWS on loopback."""
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({"g5.xlarge": 1.006, "r6i.large": 0.126}).running() as emulator:
        yield emulator


@dataclass(frozen=True)
class Stack:
    """What `make provision` made, and how to ask for more."""

    emulator: Emulator
    place: Path
    environment: Mapping[str, str]
    called: set[str] = field(default_factory=set)  # while it was made

    def provision(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "provision.py"), *words],
            env={**self.environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def terraform(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["terraform", *words],
            cwd=self.place / "benchorch",
            env={**self.environment, "TF_VAR_ray_token": "0" * 64},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def output(self, name: str) -> object:
        told = self.terraform("output", "-json", name)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    @property
    def state(self) -> str:
        import boto3  # noqa: TID251 - looks at what was kept

        kept = boto3.client("s3").get_object(
            Bucket=f"benchorch-stacks-{ACCOUNT}", Key="benchorch/terraform.tfstate"
        )
        return kept["Body"].read().decode()


@pytest.fixture(scope="module")
def stack(
    aws: Emulator, terraform: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Stack:
    """The stack with its default variables, applied."""
    place = tmp_path_factory.mktemp("stack")
    environment = {
        **terraform,
        **aws.environment(),
        "BENCHORCH_TF_WORK_DIR": str(place),
        "TF_VAR_endpoint_checks": "false",
    }
    made = Stack(aws, place, environment)
    applied = made.provision("apply", "--yes")
    assert applied.returncode == 0, applied.stdout[-3000:] + applied.stderr[-3000:]
    made.called.update(aws.traffic.operations)
    return made
