"""What an account keeps of its stacks is the same for whoever looks, from wherever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import boto3  # noqa: TID251 - looks at what is kept
import botocore.client
import pytest
from botocore.exceptions import ClientError

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


def test_a_bucket_whose_making_was_cut_short_is_finished_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
):
    s3 = boto3.client("s3")

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stack_home._tls_only", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make_home(find_home(), "eu-west-1")
    found = find_home()
    assert found.region == "eu-west-1"
    suspended = {"Bucket": found.bucket, "VersioningConfiguration": {"Status": "Suspended"}}
    s3.put_bucket_versioning(**suspended)  # or cut short even before
    home = make_home(found, "us-east-1")
    assert home == found
    assert s3.get_bucket_versioning(Bucket=home.bucket)["Status"] == "Enabled"
    assert "aws:SecureTransport" in s3.get_bucket_policy(Bucket=home.bucket)["Policy"]
    s3.put_bucket_versioning(**suspended)  # what its owner changes in a whole one stays
    assert make_home(home, "us-east-1") == home
    assert s3.get_bucket_versioning(Bucket=home.bucket)["Status"] == "Suspended"
    assert home.forget("nobody")


def test_a_name_that_s3_has_not_freed_yet_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    """The bucket goes with the last stack, which somebody may want in another region at once."""
    make = botocore.client.BaseClient._make_api_call

    def conflicting(self: object, operation: str, words: object) -> object:
        if operation == "CreateBucket":
            raise ClientError({"Error": {"Code": "OperationAborted"}}, operation)
        return make(self, operation, words)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", conflicting)
    with pytest.raises(ValueError, match=r"benchorch-stacks-\d+ yet: .* within an hour"):
        make_home(find_home(), "eu-west-1")
