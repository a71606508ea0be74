"""What an account lacks is found before anything is made in it, with the command that mends it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from account_checks.report import as_json, as_table, exit_code
from benchorch.hardware.aws_account.account import NotAnswered
from benchorch.hardware.aws_account.finding import FindingState
from support.aws_emulator.images import facts
from support.aws_emulator.traffic import Fault

TABLE = facts()


def of(findings, check, subject=""):
    found = [one for one in findings if one.check == check and subject in one.subject]
    assert found, f"no finding of {check} {subject}"
    return found


def test_a_fresh_account_is_ready_and_what_provision_will_make_is_named(examine) -> None:
    findings = examine()
    assert exit_code(findings) == 0
    assert not [one for one in findings if one.state is FindingState.WARNING]
    assert "make provision makes it" in of(findings, "roles", "Spot")[0].observed
    assert {one.check for one in findings} >= {
        *("identity", "clock", "permissions", "offers", "images", "python", "quotas", "roles"),
        *("key", "bucket", "budget", "networks", "plan"),
    }


def test_every_call_is_a_reading_one(examine, aws) -> None:
    before = aws.traffic.counts.copy()
    examine()
    made = {name.split(":")[1] for name in aws.traffic.counts - before}
    assert made
    assert all(name.startswith(("Get", "Describe", "List", "Simulate")) for name in made), made


def test_a_spot_role_that_exists_is_found(examine, client) -> None:
    iam = client("iam", "us-east-1")
    iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    try:
        assert of(examine(), "roles", "Spot")[0].observed == "exists"
    finally:
        iam.delete_role(RoleName="AWSServiceRoleForEC2Spot")


def test_a_type_that_the_region_lacks_is_named(examine) -> None:
    finding = of(examine(fleet={"p9.huge": 1}), "offers", "p9.huge")[0]
    assert finding.state is FindingState.FAILED
    assert finding.observed == "not offered in us-east-1"


@pytest.mark.parametrize(
    ("quota_vcpus", "state"),
    [(8, FindingState.OK), (4, FindingState.WARNING), (0, FindingState.FAILED)],
)
def test_a_quota_below_the_fleet_warns_and_below_one_machine_fails(
    examine, aws, quota_vcpus, state
) -> None:
    aws.account.quotas_vcpus["L-3819A6DF"] = quota_vcpus
    finding = of(examine(), "quotas", "L-3819A6DF")[0]
    assert finding.state is state
    if state is not FindingState.OK:
        assert "--quota-code L-3819A6DF --desired-value 8" in finding.remedy


@pytest.mark.parametrize(
    ("spot", "on_demand", "states"),
    [
        (0, 8, [FindingState.WARNING, FindingState.OK]),
        (8, 0, [FindingState.OK, FindingState.WARNING]),
        (0, 0, [FindingState.FAILED, FindingState.FAILED]),
    ],
)
def test_a_quota_of_nothing_fails_where_the_other_market_has_nothing_either(
    examine, aws, spot, on_demand, states
) -> None:
    aws.account.quotas_vcpus |= {"L-3819A6DF": spot, "L-DB2E81BA": on_demand}
    found = examine(markets=["spot", "on_demand"])
    quotas = [*of(found, "quotas", "L-3819A6DF"), *of(found, "quotas", "L-DB2E81BA")]
    assert [one.state for one in quotas] == states


def test_the_heads_own_quota_fails_whatever_spot_has(examine, aws) -> None:
    aws.account.quotas_vcpus["L-1216C47A"] = 1
    found = examine(markets=["spot", "on_demand"], fleet={"r6i.large": 1})
    assert of(found, "quotas", "L-1216C47A")[0].state is FindingState.FAILED


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("p5.48xlarge", "L-C4BD4855"),
        ("p4d.24xlarge", "L-7212CCBC"),
        ("gr6.4xlarge", "L-3819A6DF"),
        ("c7g.large", "L-34B43A08"),
        ("trn1.2xlarge", "L-6B0D517C"),
    ],
)
def test_each_type_is_counted_by_its_own_quota_of_spot(examine, kind, code) -> None:
    assert of(examine(fleet={kind: 1}), "quotas", code)


def test_gpus_whose_driver_no_image_has_fail(examine) -> None:
    finding = of(examine(fleet={"g6f.xlarge": 1}), "accelerators", "g6f.xlarge")[0]
    assert finding.state is FindingState.FAILED
    assert not [one for one in examine() if one.check == "accelerators"]


@pytest.mark.parametrize(("quota", "state"), [(50, FindingState.OK), (1, FindingState.FAILED)])
def test_a_region_whose_networks_are_all_taken_fails(examine, aws, quota, state) -> None:
    aws.account.quotas_vcpus["L-F678F1CE"] = quota
    finding = of(examine(), "networks")[0]
    assert finding.state is state
    assert ("--quota-code L-F678F1CE" in finding.remedy) == (state is FindingState.FAILED)


def test_an_account_on_the_free_plan_is_told_before_its_group_is_refused_in_silence(
    examine, aws
) -> None:
    assert of(examine(), "plan")[0].state is FindingState.OK
    aws.account.plan = "FREE"
    finding = of(examine(), "plan")[0]
    assert finding.state is FindingState.FAILED
    assert finding.observed == "may not launch g5.xlarge, m7i.large"
    assert "upgrade-account-plan" in finding.remedy


def test_an_account_from_before_there_were_plans_launches_any_type(examine, aws) -> None:
    aws.break_it(Fault("freetier:GetAccountPlanState", code="ResourceNotFoundException"))
    assert not [one for one in examine() if one.check == "plan"]


@pytest.mark.parametrize("mode", TABLE["vpc.public_access"].value)
def test_a_region_that_blocks_public_access_is_named_in_either_mode(examine, aws, mode) -> None:
    aws.account.public_access = mode
    finding = of(examine(), "access")[0]
    assert (finding.state is FindingState.WARNING) == (mode != "off")
    assert ("exclusion-mode allow-egress" in finding.remedy) == (mode != "off")


@pytest.mark.parametrize(
    ("budgets", "state"),
    [
        ([], FindingState.OK),
        (["a", "lab-monthly"], FindingState.OK),
        (["a", "a", "b"], FindingState.WARNING),
    ],
)
def test_a_third_budget_that_acts_costs_something(examine, aws, budgets, state) -> None:
    aws.account.acting_budgets = budgets
    finding = of(examine(), "budget", "lab-monthly")[0]
    assert finding.state is state
    assert ("0.10 USD a day" in finding.observed) == (state is FindingState.WARNING)


def test_an_arm_machine_with_a_gpu_gets_an_arm_image(examine) -> None:
    finding = of(examine(fleet={"g5g.xlarge": 1}), "images", "gpu")[0]
    assert (finding.subject, finding.state) == ("gpu.arm64", FindingState.OK)


def test_an_image_parameter_that_is_not_there_fails(examine, aws, monkeypatch) -> None:
    from moto.ssm.models import ssm_backends

    parameters = ssm_backends["123456789012"]["us-east-1"]._parameters
    name = next(name for name in parameters if "nvidia" in name and "x86" in name)
    monkeypatch.delitem(parameters, name)
    finding = of(examine(), "images", "gpu.x86_64")[0]
    assert finding.state is FindingState.FAILED
    assert name in finding.observed


def test_the_image_parameters_that_were_set_are_examined(examine, client) -> None:
    """Or the remedy of a parameter that is not there would change nothing."""
    gpu, server = (TABLE[f"image.{kind}.x86_64"].value for kind in ("gpu", "server"))
    [kept] = client("ssm", "us-east-1").get_parameters(Names=[gpu])["Parameters"]
    found = of(examine(image_parameters={"gpu": "/own/gpu"}), "images", "gpu")[0]
    assert (found.state, "/own/gpu" in found.observed) == (FindingState.FAILED, True)
    [other] = client("ssm", "us-east-1").get_parameters(Names=[server])["Parameters"]
    found = of(examine(image_parameters={"gpu": server}, fleet={"g5.xlarge": 1}), "images", "gpu")
    assert other["Value"] in found[0].observed
    assert kept["Value"] not in found[0].observed


def test_an_image_of_another_system_fails(examine, aws) -> None:
    from moto.ec2.models import ec2_backends

    images = ec2_backends["123456789012"]["us-east-1"].amis.values()
    image = next(
        image for image in images if "Nvidia" in str(image.name) and image.architecture == "x86_64"
    )
    image.name, kept = "Deep Learning Base (Ubuntu 22.04) 20261101", image.name
    try:
        finding = of(examine(), "images", "gpu.x86_64")[0]
    finally:
        image.name = kept
    assert finding.state is FindingState.FAILED
    assert "Not Ubuntu 24.04" in finding.remedy


def test_a_denied_action_fails_and_one_that_is_not_allowed_everywhere_warns(examine, aws) -> None:
    aws.account.decisions["iam:PassRole"] = "implicitDeny"
    assert of(examine(), "permissions")[0].state is FindingState.WARNING
    aws.account.decisions["ec2:RunInstances"] = "explicitDeny"
    states = {one.state: one.observed for one in of(examine(), "permissions")}
    assert states[FindingState.FAILED] == "a policy denies ec2:RunInstances"


def test_a_deny_whose_condition_the_simulator_lacks_stops_nothing(examine, aws) -> None:
    """As that of everything without MFA, in a session with MFA."""
    aws.account.decisions["ec2:RunInstances"] = "explicitDeny"
    aws.account.missing["ec2:RunInstances"] = "aws:MultiFactorAuthPresent"
    [finding] = of(examine(), "permissions")
    assert finding.state is FindingState.WARNING
    assert finding.observed == "a policy denies under conditions: ec2:RunInstances"
    assert "aws:MultiFactorAuthPresent" in finding.remedy


def test_permissions_are_those_in_the_region_where_a_call_is_made(examine, aws) -> None:
    """So that a policy that closes other regions denies nothing."""
    examine(region="eu-west-1")
    assert aws.account.regions["ec2:RunInstances"] == "eu-west-1"
    assert aws.account.regions["iam:PassRole"] == "us-east-1"


def test_a_customer_key_as_default_must_name_auto_scaling(examine, aws, client) -> None:
    kms = client("kms", "us-east-1")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    aws.account.default_key = key
    account = {"AWS": "arn:aws:iam::123456789012:root"}
    role = {
        "AWS": "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/"
        "AWSServiceRoleForAutoScaling"
    }
    to_all = {"Effect": "Allow", "Principal": account, "Action": "kms:*", "Resource": "*"}
    used = [
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:ReEncrypt*",
        "kms:GenerateDataKey*",
        "kms:DescribeKey",
    ]
    to_role = {**to_all, "Principal": role, "Action": used}

    def state_with(*statements) -> FindingState:
        policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        kms.put_key_policy(KeyId=key, PolicyName="default", Policy=policy)
        finding = of(examine(), "key")[0]
        assert (
            finding.state is FindingState.OK or "AWSServiceRoleForAutoScaling" in finding.observed
        )
        return finding.state

    assert state_with(to_all) is FindingState.FAILED
    assert state_with(to_all, to_role) is FindingState.FAILED  # without CreateGrant
    assert state_with(to_all, to_role, {**to_role, "Action": "kms:CreateGrant"}) is FindingState.OK


@pytest.fixture
def customer_key(aws, client):
    """The account's default key for disks: its owner's, who leaves it to the account's policies."""
    kms = client("kms", "us-east-1")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    aws.account.default_key = key

    def with_policy(principal: str) -> str:
        statement = {"Effect": "Allow", "Principal": {"AWS": principal}, "Action": "kms:*"}
        policy = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": "*"}]}
        kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))
        return key

    return with_policy


@pytest.mark.parametrize(
    ("principal", "state"),
    [
        ("arn:aws:iam::123456789012:root", FindingState.OK),
        ("arn:aws:iam::123456789012:role/lab-head", FindingState.OK),
        ("arn:aws:iam::123456789012:role/another", FindingState.FAILED),
    ],
)
def test_a_customer_key_must_be_one_that_the_head_may_use(
    examine, customer_key, principal, state
) -> None:
    """Which launches the workers; otherwise each of them ends at once."""
    customer_key(principal)
    finding = of(examine(), "key")[1]
    assert "lab-head" in finding.observed
    assert finding.state is state


def test_spot_machines_from_baked_images_need_a_grant_of_a_customer_key(
    examine, customer_key, client
) -> None:
    key = customer_key("arn:aws:iam::123456789012:root")
    finding = of(examine(), "key")[2]
    assert finding.state is FindingState.WARNING
    words = finding.remedy.split()
    role = words[words.index("--grantee-principal") + 1]
    assert role.endswith(":role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")
    operations = words[words.index("--operations") + 1 :]
    client("kms", "us-east-1").create_grant(KeyId=key, GranteePrincipal=role, Operations=operations)
    assert of(examine(), "key")[2].state is FindingState.OK
    assert len(of(examine(markets=["on_demand"]), "key")) == 2


def test_an_account_whose_billing_is_closed_to_its_users_fails(examine, aws) -> None:
    """No stack is made without its budget."""
    aws.break_it(Fault("budgets:DescribeBudgets", code="AccessDeniedException"))
    [finding] = of(examine(), "budget")
    assert finding.state is FindingState.FAILED
    assert TABLE["budget.iam_access"].value in finding.remedy


def test_a_tag_that_no_budget_counts_warns(examine, aws) -> None:
    aws.account.active_tags.clear()
    finding = of(examine(), "budget", "benchorch:stack")[0]
    assert finding.state is FindingState.WARNING
    assert "counts nothing" in finding.observed


def test_a_clock_that_aws_would_refuse_fails(examine) -> None:
    finding = of(examine(now=lambda: datetime.now(UTC) + timedelta(hours=1)), "clock")[0]
    assert finding.state is FindingState.FAILED
    assert "accepts less than 900 s" in finding.observed


def test_a_bucket_of_the_stack_that_anyone_may_reach_warns(examine, client) -> None:
    s3 = client("s3", "us-east-1")
    s3.create_bucket(Bucket="lab-open")
    tags = {"TagSet": [{"Key": "benchorch:stack", "Value": "lab"}]}
    s3.put_bucket_tagging(Bucket="lab-open", Tagging=tags)
    try:
        finding = of(examine(), "bucket", "lab-open")[0]
    finally:
        s3.delete_bucket(Bucket="lab-open")
    assert finding.state is FindingState.WARNING


@pytest.mark.parametrize(
    "fault",
    [
        Fault("servicequotas:.*", code="AccessDeniedException", status=400),
        Fault("servicequotas:.*", code="ThrottlingException", status=400),
        Fault("servicequotas:.*", code="ServiceException", status=500),
    ],
    ids=lambda fault: fault.code,
)
def test_a_call_that_aws_refuses_is_a_line_and_the_others_go_on(examine, aws, fault) -> None:
    aws.break_it(fault)
    findings = examine()
    finding = of(findings, "quotas")[0]
    assert finding.state is FindingState.UNKNOWN
    assert fault.code in finding.observed
    assert finding.remedy
    assert of(findings, "images")[0].state is FindingState.OK


def test_types_that_may_not_be_described_leave_the_other_checks(examine, aws) -> None:
    aws.break_it(Fault("ec2:DescribeInstanceTypes", code="UnauthorizedOperation", status=403))
    findings = examine()
    assert of(findings, "types")[0].remedy.startswith("Allow this read-only call")
    assert of(findings, "key")


def test_credentials_that_aws_refuses_are_no_finding(examine, aws) -> None:
    aws.break_it(Fault("sts:.*", code="ExpiredToken", status=403))
    with pytest.raises(NotAnswered, match="ExpiredToken"):
        examine()


def test_table_and_json_have_every_finding(examine, aws) -> None:
    aws.account.quotas_vcpus["L-3819A6DF"] = 0
    findings = examine()
    table, content = as_table(findings), json.loads(as_json(findings))
    assert content["ready"] is False
    assert len(content["findings"]) == len(findings)
    assert all(one.observed in table and one.remedy in table for one in findings)
    assert table.splitlines()[-1].endswith("1 failed.")
