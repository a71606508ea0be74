"""What an account keeps of its stacks is the same for whoever looks, from wherever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import boto3  # noqa: TID251 - looks at what is kept
import pytest

from support.aws_emulator.server import Emulator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from stack_home import Settings, find_home, make_home

FLEET = '{"r6i.large"=1}'


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield


def test_variables_given_before_are_kept_beside_those_given_now():
    home = make_home(find_home(), "eu-west-1")
    home.remember("lab", Settings().updated({"region": "eu-west-1", "fleet": FLEET}))
    kept = find_home().settings("lab")
    assert kept is not None
    later = kept.updated({"ttl_minutes": "60"})
    assert later.variables == {"fleet": FLEET, "ttl_minutes": "60"}
    assert (later.region, tuple(later.regions)) == ("eu-west-1", ("eu-west-1",))
    assert find_home().settings("another") is None
    assert find_home().forget("lab")
    kept_now = boto3.client("s3").list_buckets()["Buckets"]
    assert home.bucket not in [bucket["Name"] for bucket in kept_now]


def test_the_states_bucket_keeps_old_versions_and_is_closed():
    home = make_home(find_home(), "us-east-1")
    s3 = boto3.client("s3")
    assert s3.get_bucket_versioning(Bucket=home.bucket)["Status"] == "Enabled"
    shut = s3.get_public_access_block(Bucket=home.bucket)["PublicAccessBlockConfiguration"]
    assert set(shut.values()) == {True}
    assert find_home().forget("nobody")
