"""An emulated account that each test may spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from account_checks.examination import Examination
from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.finding import AccountFinding
from benchorch.hardware.aws_account.request import StackRequest
from support.aws_emulator.account import EmulatedAccount
from support.aws_emulator.images import facts
from support.aws_emulator.server import REGION, Emulator
from support.s3 import emulator

Examine = Callable[..., Sequence[AccountFinding]]


@cache
def _client(service: str, region: str) -> Any:
    """One of the emulated account's for all tests: making it takes longer than its calls."""
    import boto3  # noqa: TID251 - the account under examination
    from botocore.config import Config

    quick = Config(retries={"total_max_attempts": 1})
    return boto3.client(service, region_name=region, config=quick)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """AWS on loopback with an account as new as one can be."""
    running = emulator()
    running.account = EmulatedAccount()
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    yield running
    running.traffic.faults.clear()


@pytest.fixture
def client() -> Callable[[str, str], Any]:
    return _client


@pytest.fixture
def examine(aws: Emulator, client: Callable[[str, str], Any]) -> Examine:
    """What the examination of a request finds."""

    def examined(**changed: Any) -> Sequence[AccountFinding]:
        request = {
            "name": "lab",
            "region": REGION,
            "fleet": {"g5.xlarge": 2},
            "markets": ["spot"],
            "head_type": "m7i.large",
        }
        now = changed.pop("now", lambda: datetime.now(UTC))
        region = changed.get("region", REGION)
        return Examination(
            account=AwsAccount(region=region, client=client),
            request=StackRequest(**{**request, **changed}),
            facts=facts(),
            actions=["ec2:RunInstances", "iam:PassRole", "s3:CreateBucket"],
            now=now,
        ).findings()

    return examined
