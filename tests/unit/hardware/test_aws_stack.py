"""The account's record of its stacks, and one stack's head and bucket, on the emulator."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - makes what provision makes
import botocore.endpoint
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, IncompleteReadError
from botocore.response import StreamingBody

from benchorch.errors import PriceUnavailable
from benchorch.hardware.aws_prices import AwsPrices
from benchorch.hardware.aws_stack import AwsStacks
from benchorch.interfaces.stack import Stack, StackError
from support.aws_emulator.server import ACCOUNT
from support.s3 import emulator
from support.waiting import until

HOME = f"benchorch-stacks-{ACCOUNT}"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in emulator().environment().items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    yield s3
    for bucket in s3.list_buckets()["Buckets"]:
        if bucket["Name"] in (HOME, *(f"{name}-{ACCOUNT}" for name in ("mine", "euro"))):
            for one in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
                s3.delete_object(Bucket=bucket["Name"], Key=one["Key"])
            s3.delete_bucket(Bucket=bucket["Name"])


def make(s3: Any, name: str, region: str, **variables: str) -> None:
    if HOME not in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=HOME)
    settings = {"region": region, "regions": [region], "variables": variables}
    body = json.dumps(settings).encode()
    s3.put_object(Bucket=HOME, Key=f"{name}/settings.json", Body=body)
    s3.create_bucket(Bucket=f"{name}-{ACCOUNT}")


def only() -> Stack:
    found = AwsStacks().find(None)
    assert found is not None
    return found


def test_an_account_without_stacks_has_none(aws: Any) -> None:
    with pytest.raises(StackError, match=rf"account {ACCOUNT} has no stack yet; make provision"):
        AwsStacks().find(None)
    with pytest.raises(StackError, match=r"no stack 'mine'; it has: none\. Make one by make"):
        AwsStacks().find("mine")


def test_without_credentials_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert AwsStacks().find(None) is None


def test_the_only_stack_is_found_with_its_region_and_fleet(aws: Any) -> None:
    make(aws, "mine", "eu-west-1", fleet='{"c8g.large"=2, "g5.xlarge" = 1}')
    facts = only().facts
    assert (facts.name, facts.region) == ("mine", "eu-west-1")
    assert set(facts.kinds) == {"c8g.large", "g5.xlarge"}
    assert facts.results_url == f"s3://mine-{ACCOUNT}/results"


def test_two_stacks_want_a_name(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    make(aws, "euro", "eu-west-1")
    with pytest.raises(
        StackError, match=r"several stacks: euro, mine\. Name one by executor.stack"
    ):
        AwsStacks().find(None)
    found = AwsStacks().find("euro")
    assert found is not None
    assert found.facts.region == "eu-west-1"


def test_objects_come_and_go(aws: Any, tmp_path: Path) -> None:
    make(aws, "mine", "us-east-1")
    stack = only()
    assert stack.read("p-1/driver.json") is None
    stack.write("p-1/driver.json", b"{}")
    stack.write("p-2/trials/t/log.txt", b"text")
    assert stack.read("p-1/driver.json") == b"{}"
    assert stack.sweeps() == ["p-1", "p-2"]
    assert stack.listed("p-2/trials/t/") == ["p-2/trials/t/log.txt"]
    stack.download("p-2/trials/t/log.txt", tmp_path / "log.txt")
    assert (tmp_path / "log.txt").read_text() == "text"


def test_a_connection_that_breaks_during_a_download_may_pass(
    aws: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make(aws, "mine", "us-east-1")
    stack = only()
    stack.write("p/trace.json", b"x")

    def broken(*_: object, **__: object) -> bytes:
        raise IncompleteReadError(actual_bytes=0, expected_bytes=1)

    monkeypatch.setattr(StreamingBody, "read", broken)
    with pytest.raises(StackError, match="AWS did not do s3:GetObject") as caught:
        stack.download("p/trace.json", tmp_path / "trace.json")
    assert caught.value.may_pass
    assert not (tmp_path / "trace.json").exists()


def test_a_bucket_of_that_name_in_another_account_gets_and_gives_nothing(
    aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of buckets are everybody's: who has made one first may read what is sent there."""
    make(aws, "mine", "us-east-1")
    owners: list[str | None] = []
    send = botocore.endpoint.Endpoint.make_request

    def noted(self: Any, model: Any, request: Any) -> Any:
        if model.service_model.service_name == "s3":
            owners.append(request["headers"].get("x-amz-expected-bucket-owner"))
        return send(self, model, request)

    monkeypatch.setattr(botocore.endpoint.Endpoint, "make_request", noted)
    stack = only()
    stack.write("run/a", b"x")
    stack.read("run/a")
    stack.download("run/a", tmp_path / "a")
    stack.listed("run")
    stack.sweeps()
    assert len(owners) >= 7
    assert set(owners) == {ACCOUNT}


def test_the_newest_lock_is_found_behind_the_packages_of_older_ones(
    aws: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(aws, "mine", "us-east-1")
    for number in range(2):
        time.sleep(1.1 * number)  # S3 counts whole seconds
        for name in ("a.whl", "lock.txt"):
            key, text = f"packages/cpu-x86_64-{number}/{name}", f"torch=={number}"
            aws.put_object(Bucket=f"mine-{ACCOUNT}", Key=key, Body=text.encode())
    ask = BaseClient._make_api_call

    def short_pages(client: BaseClient, operation: str, words: dict[str, Any]) -> Any:
        most = {"MaxKeys": 1} if operation == "ListObjectsV2" else {}
        return ask(client, operation, {**words, **most})

    stack = only()
    with monkeypatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", short_pages)
        assert stack.lock("cpu-x86_64") == "torch==1"
        assert stack.lock("cuda-x86_64") is None


def test_a_stack_without_a_head_says_so(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    assert only().head() is None


def test_an_object_is_read_from_where_it_was_left(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    stack = only()
    stack.write("p-1/results.jsonl", b"abc\ndef\n")
    parts = [stack.read("p-1/results.jsonl", start) for start in (0, 3, 7, 8, 99)]
    assert parts == [b"abc\ndef\n", b"\ndef\n", b"\n", b"", b""]
    assert stack.read("p-1/other", 3) is None


def test_a_machine_says_how_its_start_ended(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    of_others = "packages of cuda-x86_64-0"
    for name, step, outcome in (
        ("i-1", "apt", "failed"),
        ("i-2", "ray", "ready"),
        ("i-4", of_others, "failed"),
    ):
        log = ["Reading package lists", "E: Unable to locate package g++", ""]
        told = {"instance": name, "step": step, "outcome": outcome, "log": log}
        aws.put_object(
            Bucket=f"mine-{ACCOUNT}", Key=f"starts/{name}.json", Body=json.dumps(told).encode()
        )
    ends = [only().start_of(name) for name in ("i-1", "i-2", "i-3", "i-4")]
    why = "i-1 failed at apt: E: Unable to locate package g++"
    assert ends == [(False, why), (True, ""), None, (True, "")]


def test_a_start_that_makes_no_sense_is_an_end_in_words(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    bodies = (b"garbage", b"[1]", b"[" * 10**5, b'{"outcome": "failed", "log": [5]}')
    for body in bodies:
        aws.put_object(Bucket=f"mine-{ACCOUNT}", Key="starts/i-1.json", Body=body)
        end = only().start_of("i-1")
        assert end is not None
        assert not end.is_well
        assert end.text.startswith("i-1 wrote no sound start: ")


@pytest.mark.parametrize("body", [b"garbage", b"[]", b"{}", b"[" * 10**5])
def test_a_damaged_record_of_a_stack_is_named(body: bytes, aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    aws.put_object(Bucket=HOME, Key="mine/settings.json", Body=body)
    with pytest.raises(StackError, match=r"mine/settings.json is damaged .*make provision"):
        AwsStacks().find(None)


def test_odd_variables_of_a_stack_are_those_of_the_default(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    for variables in ([], 5, {"fleet": 5}, {"fleet": ["g5.xlarge"]}):
        body = json.dumps({"region": "us-east-1", "variables": variables}).encode()
        aws.put_object(Bucket=HOME, Key="mine/settings.json", Body=body)
        only()


def test_a_bucket_that_is_gone_is_named(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    stack = only()
    aws.delete_bucket(Bucket=f"mine-{ACCOUNT}")
    with pytest.raises(StackError, match="the bucket is gone") as caught:
        stack.read("p-1/driver.json")
    assert not caught.value.may_pass


REFUSALS = {  # as AWS writes them: which policy it was
    "no": "User: arn:aws:iam::1:user/x is not authorized to perform: sts:GetCallerIdentity because "
    "no identity-based policy allows the sts:GetCallerIdentity action",
    "deny": "User: arn:aws:iam::1:user/x is not authorized to perform: sts:GetCallerIdentity with "
    "an explicit deny in a service control policy: arn:aws:organizations::1:policy/no-benchmarks",
    "late": "Signature expired: 20220127T001427Z is now earlier than 20220127T014428Z",
}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("ExpiredToken", "have expired: renew them"),
        ("AccessDenied", r"may not do sts:GetCallerIdentity: a policy has to allow it"),
        ("AccessDenied no", r"GetCallerIdentity: no identity-based policy allows the sts:Get"),
        ("AccessDenied deny", r"GetCallerIdentity: an explicit deny in .*policy/no-benchmarks"),
        ("InvalidClientTokenId", "does not know these credentials"),
        ("SignatureDoesNotMatch", "does not know these credentials"),
        ("SignatureDoesNotMatch late", "sts:GetCallerIdentity, as this machine's clock is wrong"),
        ("RequestTimeTooSkewed", "clock is wrong by minutes: set it"),
    ],
)
def test_each_refusal_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    from botocore.exceptions import ClientError

    from benchorch.hardware import aws_stack

    class Refusing:
        def get_caller_identity(self) -> None:
            name, _, which = code.partition(" ")
            raise ClientError(
                {"Error": {"Code": name, "Message": REFUSALS.get(which, "")}}, "GetCallerIdentity"
            )

    monkeypatch.setattr(aws_stack, "_client", lambda service, region: Refusing())
    with pytest.raises(StackError, match=told):
        AwsStacks().find(None)


def test_a_head_that_is_started_while_the_last_one_ends_may_start_later(
    monkeypatch: pytest.MonkeyPatch, aws: Any
) -> None:
    from benchorch.hardware import aws_stack

    make(aws, "mine", "us-east-1")
    stack = only()

    class Busy:
        def set_desired_capacity(self, **_: object) -> None:
            error = {"Code": "ScalingActivityInProgress", "Message": "blocks this action"}
            raise ClientError(
                {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "SetDesiredCapacity"
            )

    monkeypatch.setattr(aws_stack, "_client", lambda service, region: Busy())
    with pytest.raises(StackError, match="autoscaling:SetDesiredCapacity on mine-head") as caught:
        stack.start_head()
    assert caught.value.may_pass


@pytest.mark.parametrize("region", ["eu-wst-9", "no region"])
def test_a_region_that_does_not_exist_is_named_and_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, aws: Any, region: str
) -> None:
    make(aws, "mine", region)
    stack = only()
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    def nobody(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    once = {"retries": {"total_max_attempts": 1}}
    monkeypatch.setattr("benchorch.hardware.aws_stack._QUICK", once)
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", nobody)
        with pytest.raises(StackError, match=f"DescribeInstances in region {region}") as caught:
            stack.head()
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    ("code", "may_pass"), [("AuthFailure", False), ("RequestLimitExceeded", True)]
)
def test_a_region_that_is_not_enabled_is_told_from_a_request_that_may_pass(
    monkeypatch: pytest.MonkeyPatch, aws: Any, code: str, may_pass: bool
) -> None:
    from botocore.exceptions import ClientError

    from benchorch.hardware import aws_stack

    class Refusing:
        def describe_instances(self, **_: object) -> None:
            raise ClientError({"Error": {"Code": code}}, "DescribeInstances")

    make(aws, "mine", "ap-east-1")
    stack = only()
    monkeypatch.setattr(aws_stack, "_client", lambda service, region: Refusing())
    with pytest.raises(StackError) as caught:
        stack.head()
    assert caught.value.may_pass is may_pass
    assert ("has not enabled it" in str(caught.value)) is not may_pass


def test_a_laptop_without_a_network_is_not_told_that_its_region_is_wrong(
    monkeypatch: pytest.MonkeyPatch, aws: Any
) -> None:
    make(aws, "mine", "eu-west-1")
    stack = only()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("benchorch.hardware.aws_stack._QUICK", {"connect_timeout": 2})
    with pytest.raises(StackError) as caught:
        stack.head()
    assert caught.value.may_pass


def test_a_stack_that_is_being_destroyed_takes_no_sweep(aws: Any) -> None:
    make(aws, "mine", "us-east-1")
    assert only().facts.name == "mine"
    settings = {"region": "us-east-1", "destroying_since": "2026-11-23T18:00:00+00:00"}
    body = json.dumps(settings).encode()
    aws.put_object(Bucket=HOME, Key="mine/settings.json", Body=body)
    with pytest.raises(StackError, match=r"mine is being destroyed since 2026.*make provision"):
        only()


def ran(machine: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


def test_a_command_on_the_head_and_its_end(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make(aws, "mine", "us-east-1")
    ec2 = boto3.client("ec2")
    image = ec2.describe_images()["Images"][0]["ImageId"]
    tags = [
        {"Key": "ray-cluster-name", "Value": "mine"},
        {"Key": "ray-node-type", "Value": "head"},
    ]
    launched = ec2.run_instances(
        ImageId=image,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    machine = launched["Instances"][0]["InstanceId"]
    stack = only()
    try:
        head = stack.head()
        assert head is not None
        assert head.machine == machine
        monkeypatch.setattr(emulator().systems_manager, "runner", ran)
        command = stack.send(machine, "echo there; exit 3")
        assert until(lambda: stack.end_of(machine, command) is not None, 300)
        assert stack.end_of(machine, command) == (False, "there")
    finally:
        ec2.terminate_instances(InstanceIds=[machine])


def test_a_command_that_is_never_delivered_ends_soon_and_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, aws: Any
) -> None:
    """A machine that has just ended is online to Systems Manager; its default is an hour."""
    from benchorch.hardware import aws_stack

    make(aws, "mine", "us-east-1")
    stack = only()
    sent: dict[str, Any] = {}

    class Manager:
        exceptions = boto3.client("ssm").exceptions

        def send_command(self, **words: Any) -> Any:
            sent.update(words)
            return {"Command": {"CommandId": "c-1"}}

        def get_command_invocation(self, **_: object) -> Any:
            nothing = {"StandardOutputContent": "", "StandardErrorContent": ""}
            return {"Status": "TimedOut", "StatusDetails": "DeliveryTimedOut", **nothing}

    monkeypatch.setattr(aws_stack, "_client", lambda service, region: Manager())
    command = stack.send("i-1", "true")
    assert sent["TimeoutSeconds"] == aws_stack.DELIVERY_S
    assert stack.end_of("i-1", command) == (False, "DeliveryTimedOut")


def test_the_page_names_each_permission_that_a_laptop_needs_and_no_other(
    aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(aws, "mine", "us-east-1", fleet='{"g5.xlarge" = 1}')
    tags = [("ray-cluster-name", "mine"), ("ray-node-type", "head")]
    launched = boto3.client("ec2", region_name="us-east-1").run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags]}
        ],
    )
    machine = launched["Instances"][0]["InstanceId"]
    called: set[str] = set()
    call = BaseClient._make_api_call

    def noted(self: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        name = {"ListObjectsV2": "ListBucket", "HeadObject": "GetObject"}.get(operation, operation)
        if operation == "GetServiceQuota":  # AWS knows no quota of an account that never asked
            called.add("servicequotas:GetServiceQuota")
            raise ClientError({"Error": {"Code": "NoSuchResourceException"}}, operation)
        called.add(f"{self.meta.service_model.signing_name}:{name}")
        return call(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", noted)
    stack = only()
    stack.write("run/plan.json", b"{}")
    stack.download("run/plan.json", tmp_path / "plan.json")
    for ask in (
        *(lambda: stack.read("run/plan.json"), lambda: stack.listed("run/"), stack.sweeps),
        *(lambda: stack.lock("cuda-x86_64"), stack.head, stack.start_head, stack.refused_launch),
        lambda: stack.start_of(machine),
        *(lambda: stack.send(machine, "true"),),
        *(lambda: stack.end_of(machine, "0" * 36),),
        lambda: stack.preflight(["g5.xlarge"], ["spot", "on_demand"]),
        lambda: AwsPrices().on_demand(["g5.xlarge"], "us-east-1"),
        lambda: AwsPrices().spot(["g5.xlarge"], "us-east-1"),
    ):
        with contextlib.suppress(StackError, PriceUnavailable):  # the call was made all the same
            ask()
    needed = frozenset(called)
    boto3.client("ec2", region_name="us-east-1").terminate_instances(InstanceIds=[machine])
    page = (Path(__file__).resolve().parents[3] / "docs/cloud/aws.md").read_text()
    paragraph = page[page.index("The laptop needs permission") :].partition("\n\n")[0]
    assert needed == set(re.findall(r"`(\w+:[A-Z]\w+)`", paragraph))
