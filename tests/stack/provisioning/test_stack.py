"""The stack through its whole life: made, looked at, found unchanged, ended with nothing left."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3  # noqa: TID251 - looks at what was made
import pytest
import yaml

from benchorch.run.archive import archive_run
from benchorch.stores.objects import bucket_at
from support.aws_emulator.server import ACCOUNT, Emulator
from support.aws_emulator.traffic import Fault
from support.policies.provisioning import unexamined
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
    assert not [path for path in small if token.encode() in path.read_bytes()]
    assert "aws_ssm_parameter" in stack.state
    assert token not in stack.state


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
        # A key of one's own would need grants for Auto Scaling and spot; the account's needs none.
        assert "KmsKeyId" not in data["BlockDeviceMappings"][0]["Ebs"]
        tagged = {spec["ResourceType"] for spec in data["TagSpecifications"]}
        assert tagged == {"instance", "volume", "network-interface"}
        for spec in data["TagSpecifications"]:
            assert {"Key": "benchorch:stack", "Value": "benchorch"} in spec["Tags"]
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
        for statement in (each for each in statements(policy) if each["Effect"] == "Allow"):
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
        assert instance["MetadataOptions"]["HttpTokens"] == "required"
        assert instance["IamInstanceProfile"]["Arn"].endswith("/benchorch-worker")
        assert {"Key": "benchorch:stack", "Value": "benchorch"} in instance["Tags"]
        disk = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
        [volume] = boto3.client("ec2").describe_volumes(VolumeIds=[disk])["Volumes"]
        assert {"Key": "benchorch:stack", "Value": "benchorch"} in volume["Tags"]
        provider.terminate_node(launched)
    called = {name for name, count in (stack.emulator.traffic.counts - before).items() if count}
    own = {name for name in called if name.startswith(("ec2:", "iam:"))}
    granted = {
        action
        for statement in statements(stack.output("policies")["head"])
        for action in as_list(statement["Action"])
    }
    assert own - {"ec2:DescribeLaunchTemplates", "ec2:DescribeVolumes"} <= granted
    assert {"ec2:RunInstances", "ec2:TerminateInstances"} <= own


def test_spot_and_auto_scaling_may_act_in_an_account_that_never_used_them(stack):
    iam = boto3.client("iam")
    for role in ("AWSServiceRoleForAutoScaling", "AWSServiceRoleForEC2Spot"):
        assert iam.get_role(RoleName=role)["Role"]["RoleName"] == role


def test_nodes_find_this_checkouts_wheel_and_its_locks_in_the_bucket(stack):
    kept = boto3.client("s3").list_objects_v2(Bucket="benchorch-123456789012", Prefix="packages/")
    names = sorted(each["Key"].rpartition("/")[2] for each in kept["Contents"])
    assert names.count("lock.txt") == 3
    assert [name for name in names if name.startswith("benchorch-") and name.endswith(".whl")]
    template = boto3.client("ec2").describe_launch_template_versions(
        LaunchTemplateName="benchorch-g5-xlarge"
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    script = base64.b64decode(template["UserData"]).decode()
    assert len(script.encode()) < 16384
    [wheel] = [each["Key"] for each in kept["Contents"] if each["Key"].endswith(".whl")]
    assert wheel.split("/")[1] in script
    assert "packages=cuda-x86_64-" in script


def test_nothing_that_costs_is_left_when_no_machine_runs(stack):
    """No gateway, no address of its own, no key, no endpoint but the free one."""
    ec2 = boto3.client("ec2")
    assert not ec2.describe_nat_gateways()["NatGateways"]
    assert not ec2.describe_addresses()["Addresses"]
    assert {one["VpcEndpointType"] for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]} == {
        "Gateway"
    }
    made = {
        json.loads(line.split(":", 1)[1].strip().rstrip(","))
        for line in stack.state.splitlines()
        if line.strip().startswith('"type": "aws_')
    }
    assert "aws_vpc" in made
    assert not made & {"aws_kms_key", "aws_nat_gateway", "aws_eip", "aws_instance"}


def test_the_reaper_looks_every_ten_minutes_and_when_the_budget_is_spent(stack):
    schedule = boto3.client("scheduler").get_schedule(Name="benchorch-reaper")
    assert schedule["ScheduleExpression"] == "rate(10 minutes)"
    assert schedule["State"] == "ENABLED"
    function = boto3.client("lambda").get_function(FunctionName="benchorch-reaper")
    settings = function["Configuration"]["Environment"]["Variables"]
    assert settings["STACK"] == "benchorch"
    assert settings["TTL_MINUTES"] == "480"
    topics = boto3.client("sns").list_subscriptions()["Subscriptions"]
    told = [one for one in topics if one["Endpoint"] == function["Configuration"]["FunctionArn"]]
    assert [one["TopicArn"].rpartition(":")[2] for one in told] == ["benchorch-spent"]


def test_the_reaper_may_end_this_stacks_machines_and_no_other(stack):
    reaper = {s["Sid"]: s for s in statements(stack.output("policies")["reaper"])}
    condition = reaper["EndMachinesOfThisStack"]["Condition"]
    assert condition["StringEquals"] == {"aws:ResourceTag/benchorch:stack": "benchorch"}
    profiles = condition["ArnEquals"]["ec2:InstanceProfile"]
    assert sorted(arn.rpartition("/")[2] for arn in profiles) == [
        "benchorch-head",
        "benchorch-worker",
    ]


def test_another_machine_sees_the_stack_with_its_region_and_variables(stack, tmp_path):
    """As another laptop would: no file of the first, another default region."""
    elsewhere = dataclasses.replace(
        stack,
        place=tmp_path,
        environment={
            **stack.environment,
            "BENCHORCH_TF_WORK_DIR": str(tmp_path),
            "AWS_DEFAULT_REGION": "eu-west-1",
        },
    )
    assert "1 machine in us-east-1" in elsewhere.provision("status").stdout
    planned = elsewhere.provision("plan")
    assert planned.returncode == 0, planned.stderr[-2000:]
    assert "No changes" in planned.stdout


def test_no_head_starts_where_what_would_end_it_is_refused(stack, tmp_path):
    """Such as a budget, where the account's owner has not opened billing to its users."""
    guarded = dataclasses.replace(
        stack,
        place=tmp_path,
        environment={**stack.environment, "BENCHORCH_TF_WORK_DIR": str(tmp_path)},
    )
    words = ("--yes", "--name", "guarded")
    stack.emulator.break_it(Fault("budgets:CreateBudget", code="AccessDeniedException"))
    try:
        made = guarded.provision("apply", *words)
        groups = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    finally:
        stack.emulator.traffic.faults.clear()
        ended = guarded.provision("destroy", *words)
    assert made.returncode != 0
    assert "AccessDeniedException" in made.stderr
    assert "guarded-head" not in {group["AutoScalingGroupName"] for group in groups}
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_whoever_changes_a_stack_meanwhile_is_named(stack):
    """By the lock that Terraform keeps beside its state."""
    s3, place = boto3.client("s3"), {
        "Bucket": f"benchorch-stacks-{ACCOUNT}", "Key": "benchorch/terraform.tfstate.tflock"
    }  # fmt: skip
    lock = {"ID": "7", "Operation": "OperationTypeApply", "Who": "ada@desk", "Version": "1.11.4"}
    s3.put_object(**place, Body=json.dumps({**lock, "Created": "2026-11-25T19:00:00Z"}).encode())
    try:
        refused = stack.provision("apply", "--yes")
    finally:
        s3.delete_object(**place)
    assert refused.returncode == 1
    assert "ada@desk" in refused.stderr


def test_a_stack_does_not_move_to_another_region(stack):
    refused = stack.provision("apply", "--yes", "--var", "region=eu-west-1")
    assert refused.returncode == 2
    assert "benchorch is in us-east-1 and does not move to eu-west-1" in refused.stderr


def test_destroying_what_is_not_there_changes_nothing_and_says_where_it_looked(stack):
    before = stack.emulator.traffic.counts.copy()
    ended = stack.provision("destroy", "--yes", "--name", "nobody")
    assert ended.returncode == 0, ended.stderr
    assert "Account 123456789012 has no stack nobody" in ended.stdout
    assert re.search(r"Nothing has its tag in \d\d regions", ended.stdout)
    called = stack.emulator.traffic.counts - before
    assert not [name for name in called if not re.search(r":(Describe|Get|HEAD|GET|List)", name)]


def test_a_stack_in_another_region_is_found_and_ended_without_being_told_where(stack):
    """What `make destroy STACK=euro` used to orphan, saying that nothing was left."""
    from support.aws_emulator import images

    images.seed("123456789012", "eu-west-1")
    words = ("--name", "euro")
    fleet = ("--var", 'fleet={"r6i.large"=1}', "--var", "region=eu-west-1")
    made = stack.provision("apply", "--yes", *words, *fleet)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    assert "1 machine in eu-west-1" in stack.provision("status", *words).stdout
    ended = stack.provision("destroy", "--yes", *words)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert "no machine is left" in ended.stdout
    ec2 = boto3.client("ec2", region_name="eu-west-1")
    tagged = [{"Name": "tag:benchorch:stack", "Values": ["euro"]}]
    assert not ec2.describe_vpcs(Filters=tagged)["Vpcs"]
    states = [
        one["State"]["Name"]
        for each in ec2.describe_instances(Filters=tagged)["Reservations"]
        for one in each["Instances"]
    ]
    assert set(states) == {"terminated"}


def test_what_a_running_head_fetches_stays_when_another_checkout_provisions(stack):
    program = """
import sys, zipfile
import provision, stack_build
build = stack_build.build
def of_another_checkout(place):
    build(place)
    with zipfile.ZipFile(next(place.glob("*.whl")), "a") as wheel:
        wheel.comment = b"changed"
    with (place / "cpu-x86_64.txt").open("a") as lock:
        lock.write("# changed")
    return place
stack_build.build = of_another_checkout
sys.exit(provision.main(sys.argv[1:]))
"""
    s3 = boto3.client("s3")

    def keys() -> set[str]:
        listed = s3.list_objects_v2(Bucket=f"benchorch-{ACCOUNT}")["Contents"]
        return {one["Key"] for one in listed}

    def another_checkout(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=ROOT / "scripts", env=stack.environment, capture_output=True, text=True,
            timeout=400,
        )  # fmt: skip

    before = keys()
    planned = another_checkout("plan")
    assert "make provision keeps for a running head: module." in planned.stdout
    applied = another_checkout("apply", "--yes")
    assert applied.returncode == 0, applied.stdout[-2000:] + applied.stderr[-2000:]
    assert before <= keys()
    added = {key.rpartition("/")[2] for key in keys() - before}
    assert {name.rpartition(".")[2] for name in added} == {"whl", "txt", "yaml"}
    again = another_checkout("plan")
    assert "No changes" in again.stdout, again.stdout[-3000:]


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
                    {"Key": "benchorch:stack", "Value": "benchorch"},
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
    boto3.client("ssm").put_parameter(  # as a head does
        Name="/benchorch/head-address", Value="10.60.0.9", Type="String", Overwrite=True
    )
    # The budget was spent: AWS attached what Terraform does not know to be attached.
    boto3.client("iam").attach_role_policy(
        RoleName="benchorch-head", PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/benchorch-no-more"
    )
    stack.emulator.traffic.operations.clear()
    ended = stack.provision("destroy", "--yes", "--results", str(tmp_path / "runs"))
    called = set(stack.emulator.traffic.operations)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
    assert "no machine is left" in ended.stdout
    assert unexamined(called) == []  # whoever provisions was examined for these, too
    home = tmp_path / "runs" / "20261122-000000-0000"
    assert f"downloaded: {home}" in ended.stdout
    assert (home / "results.jsonl").read_bytes() == (run / "results.jsonl").read_bytes()
    assert f"removed 1 object version(s) from {url}" in ended.stdout
    states = ec2.describe_instances(InstanceIds=[worker])["Reservations"][0]["Instances"]
    assert states[0]["State"]["Name"] == "terminated"
    # Nor the bucket that kept its state, whose last stack it was.
    assert boto3.client("s3").list_buckets()["Buckets"] == []
    assert not boto3.client("ssm").describe_parameters(
        ParameterFilters=[{"Key": "Name", "Option": "BeginsWith", "Values": ["/benchorch/"]}]
    )["Parameters"]
