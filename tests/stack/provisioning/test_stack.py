"""The stack through its whole life: made, looked at, found unchanged, ended with nothing left."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3  # noqa: TID251 - looks at what was made
import pytest
import yaml

from benchorch.run.archive import archive_run
from benchorch.stores.s3 import bucket_at
from support.aws_emulator.server import Emulator
from support.synthetic_runs import result, trial, write_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def here(aws: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)


def statements(policy: str) -> Iterator[Mapping[str, object]]:
    yield from json.loads(policy)["Statement"]


def as_list(value: object) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


def test_the_modules_own_tests_pass(terraform):
    place = ROOT / "infra" / "terraform"
    plugins = terraform["BENCHORCH_TF_PLUGIN_DIR"]
    for command in (
        ["terraform", "init", "-backend=false", f"-plugin-dir={plugins}"],
        ["terraform", "fmt", "-check", "-recursive"],
        ["terraform", "test", "-no-color"],
    ):
        done = subprocess.run(
            command, cwd=place, env=terraform, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "0 failed" in done.stdout


def test_a_second_plan_finds_nothing_to_change(stack):
    planned = stack.terraform("plan", "-detailed-exitcode", "-input=false", "-no-color")
    assert planned.returncode == 0, planned.stdout[-3000:]


def test_the_token_is_stored_and_in_no_state(stack):
    kept = boto3.client("ssm").get_parameter(Name="/benchorch/ray-token", WithDecryption=True)
    token = kept["Parameter"]["Value"]
    assert re.fullmatch("[0-9a-f]{64}", token)
    files = [path for path in stack.place.rglob("*") if path.is_file() and not path.is_symlink()]
    small = [path for path in files if path.stat().st_size < 10_000_000]
    assert any(path.name == "terraform.tfstate" for path in small)
    assert not [path for path in small if token.encode() in path.read_bytes()]


def test_applying_again_keeps_the_token(stack):
    before = boto3.client("ssm").get_parameter(Name="/benchorch/ray-token", WithDecryption=True)
    assert stack.provision("apply", "--yes").returncode == 0
    after = boto3.client("ssm").get_parameter(Name="/benchorch/ray-token", WithDecryption=True)
    assert after["Parameter"]["Value"] == before["Parameter"]["Value"]


def test_templates_demand_session_tokens_and_encrypt_disks(stack):
    ec2 = boto3.client("ec2")
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    assert len(templates) == 3  # the head and two kinds of worker
    for template in templates:
        told = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])
        data = told["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
        assert data["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert "NetworkInterfaces" not in data


def test_nobody_outside_the_group_may_connect(stack):
    groups = boto3.client("ec2").describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["benchorch-nodes"]}]
    )["SecurityGroups"]
    [group] = groups
    for rule in group["IpPermissions"]:
        assert not rule["IpRanges"]
        assert not rule["Ipv6Ranges"]
        assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group["GroupId"]]


def test_no_right_is_granted_for_everything(stack):
    policies = stack.output("policies")
    for role, policy in policies.items():
        for statement in statements(policy):
            actions = as_list(statement["Action"])
            assert not any("*" in action for action in actions), (role, statement)
            reading = all(re.match(r"(ec2:Describe|pricing:Get)", action) for action in actions)
            assert as_list(statement["Resource"]) != ["*"] or reading, (role, statement)


def test_only_declared_types_are_launched_and_only_the_workers_role_is_handed_over(stack):
    head = {s["Sid"]: s for s in statements(stack.output("policies")["head"])}
    launch = head["LaunchDeclaredTypes"]["Condition"]["StringEquals"]
    assert sorted(launch["ec2:InstanceType"]) == ["g5.xlarge", "r6i.large"]
    assert launch["aws:RequestTag/ray-cluster-name"] == "benchorch"
    handed = as_list(head["HandOverTheWorkersRoleAndNoOther"]["Resource"])
    assert len(handed) == 1
    assert handed[0].endswith(":role/benchorch-worker")


def test_a_worker_may_do_nothing_to_machines_or_rights(stack):
    granted = {
        action
        for statement in statements(stack.output("policies")["worker"])
        for action in as_list(statement["Action"])
    }
    assert not [action for action in granted if action.startswith(("ec2:", "iam:"))]
    assert "s3:DeleteBucket" not in granted


def test_the_cluster_file_is_one_that_ray_accepts(stack):
    text = stack.output("cluster_file")
    config = yaml.safe_load(text)
    from ray.autoscaler._private.util import prepare_config, validate_config  # noqa: TID251

    validate_config(prepare_config(config))


def test_ray_launches_and_ends_workers_with_the_rights_it_is_granted_and_no_more(stack):
    """Its own node provider, with the cluster file as the head has it."""
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider  # noqa: TID251
    from ray.autoscaler._private.util import (  # noqa: TID251
        fillout_defaults,
        prepare_config,
    )

    config = prepare_config(fillout_defaults(yaml.safe_load(stack.output("cluster_file"))))
    before = stack.emulator.traffic.counts.copy()
    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    for kind, market in (("r6i.large-spot", "spot"), ("r6i.large-on-demand", None)):
        node = config["available_node_types"][kind]["node_config"]
        tags = {"ray-node-type": "worker", "ray-user-node-type": kind}
        provider.create_node(node, tags, 1)
        [launched] = provider.non_terminated_nodes({"ray-user-node-type": kind})
        told = boto3.client("ec2").describe_instances(InstanceIds=[launched])
        instance = told["Reservations"][0]["Instances"][0]
        assert instance["InstanceType"] == "r6i.large"
        assert instance.get("InstanceLifecycle") == market
        # That metadata ask for a token is the template's doing, which moto reads past.
        assert instance["IamInstanceProfile"]["Arn"].endswith("/benchorch-worker")
        provider.terminate_node(launched)
    called = {name for name, count in (stack.emulator.traffic.counts - before).items() if count}
    own = {name for name in called if name.startswith(("ec2:", "iam:"))}
    granted = {
        action
        for statement in statements(stack.output("policies")["head"])
        for action in as_list(statement["Action"])
    }
    assert own - {"ec2:DescribeLaunchTemplates"} <= granted
    assert {"ec2:RunInstances", "ec2:TerminateInstances"} <= own


def test_machines_are_terminated_and_results_downloaded_before_the_stack_goes(stack, tmp_path):
    ec2 = boto3.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    launched = ec2.run_instances(
        ImageId="ami-03cf127a",
        InstanceType="r6i.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=subnet,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [
                    {"Key": "ray-cluster-name", "Value": "benchorch"},
                    {"Key": "ray-node-type", "Value": "worker"},
                ],
            }
        ],
    )
    worker = launched["Instances"][0]["InstanceId"]
    url = str(stack.output("store_url"))
    bucket = url.split("/")[2]
    boto3.client("s3").put_object(Bucket=bucket, Key="store/artifacts/built", Body=b"by a sweep")
    one = trial("eager")
    run = write_run(tmp_path / "lost", (one, result(one)), plan_id="20261122-000000-0000")
    archive_run(run, bucket_at(str(stack.output("results_url"))))
    assert worker in stack.provision("status").stdout
    ended = stack.provision("destroy", "--yes", "--results", str(tmp_path / "runs"))
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
    assert "no machine is left" in ended.stdout
    home = tmp_path / "runs" / "20261122-000000-0000"
    assert f"downloaded: {home}" in ended.stdout
    assert (home / "results.jsonl").read_bytes() == (run / "results.jsonl").read_bytes()
    assert f"removed 1 object version(s) from {url}" in ended.stdout
    states = ec2.describe_instances(InstanceIds=[worker])["Reservations"][0]["Instances"]
    assert states[0]["State"]["Name"] == "terminated"
    assert "benchorch-123456789012" not in json.dumps(
        [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]]
    )
    assert json.loads(stack.state)["resources"] == []
