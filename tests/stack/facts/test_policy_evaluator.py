"""The evaluator decides as AWS's documentation does, on the cases that once stopped the stack."""

from __future__ import annotations

import pytest
import yaml

from support.aws_emulator.images import FACTS, facts
from support.policies.evaluator import Request, decide, exist, faults, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"SKIPPED: {missing()}")

ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/00000000-0000-0000-0000-000000000001"
FACT = facts()
ROLE = FACT["role.autoscaling"].value
AUTO_SCALING = f"arn:aws:iam::{ACCOUNT}:role{ROLE['path']}{ROLE['name']}"
GRANT = FACT["kms.autoscaling.grant"].value
HEAD = f"arn:aws:iam::{ACCOUNT}:role/lab-head"


def policy(*statements):
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action, principal=None, **more):
    whom = {"Principal": principal} if principal else {}
    return {"Effect": "Allow", "Action": action, "Resource": "*", **whom, **more}


ACCOUNT_DECIDES = allow("kms:*", {"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
USE = allow(FACT["kms.autoscaling.use"].value, {"AWS": AUTO_SCALING})
MAKE_GRANT = allow(
    GRANT["action"], {"AWS": AUTO_SCALING}, Condition={"Bool": {GRANT["condition"]: "true"}}
)


def by_auto_scaling(action, key_policy, **context):
    return Request(
        principal=AUTO_SCALING,
        action=action,
        resource=KEY,
        resource_policy=key_policy,
        context=context,
    )


def decisions(*requests):
    return [one.decision for one in decide(requests)]


def test_a_key_whose_policy_leaves_it_to_the_account_gives_auto_scaling_nothing():
    key = policy(ACCOUNT_DECIDES)
    asked = [by_auto_scaling(action, key) for action in ("kms:Decrypt", "kms:CreateGrant")]
    assert decisions(*asked) == ["ImplicitlyDenied", "ImplicitlyDenied"]


def test_the_two_statements_of_the_documentation_suffice_and_for_aws_resources_only():
    key = policy(ACCOUNT_DECIDES, USE, MAKE_GRANT)
    used = [by_auto_scaling("kms:GenerateDataKeyWithoutPlaintext", key)]
    for_aws = by_auto_scaling("kms:CreateGrant", key, **{GRANT["condition"]: "true"})
    for_itself = by_auto_scaling("kms:CreateGrant", key, **{GRANT["condition"]: "false"})
    assert decisions(*used, for_aws, for_itself) == ["Allowed", "Allowed", "ImplicitlyDenied"]


def test_a_denial_wins_over_everything():
    denial = {**allow("s3:DeleteObject"), "Effect": "Deny"}
    request = Request(
        principal=HEAD,
        action="s3:DeleteObject",
        resource="arn:aws:s3:::lab/results/1",
        identity={"node": policy(allow("s3:*"), denial)},
    )
    assert decisions(request) == ["ExplicitlyDenied"]


@pytest.mark.parametrize(
    ("secure", "decision"), [("true", "Allowed"), ("false", "ExplicitlyDenied")]
)
def test_a_bucket_for_tls_alone_refuses_plain_http(secure, decision):
    denial = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": "arn:aws:s3:::lab/*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    request = Request(
        principal=HEAD,
        action="s3:GetObject",
        resource="arn:aws:s3:::lab/results/1",
        identity={"node": policy(allow("s3:GetObject"))},
        resource_policy=policy(denial),
        context={"aws:SecureTransport": secure},
    )
    assert decisions(request) == [decision]


def test_an_endpoint_that_lets_one_bucket_pass_refuses_another():
    endpoint = policy(
        {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::lab/*"}
    )

    def of(bucket):
        return Request(
            principal=HEAD, action="s3:GetObject", resource=f"arn:aws:s3:::{bucket}/x",
            identity={"node": policy(allow("s3:GetObject"))}, endpoint={"s3": endpoint},
            context={"aws:SourceVpce": "vpce-1"},
        )  # fmt: skip

    assert decisions(of("lab"), of("other")) == ["Allowed", "ImplicitlyDenied"]


def test_a_launch_of_another_type_is_refused_by_its_condition():
    launched = policy(
        allow("ec2:RunInstances", Condition={"StringEquals": {"ec2:InstanceType": "g5.xlarge"}})
    )

    def of(kind):
        return Request(
            principal=HEAD, action="ec2:RunInstances", identity={"head": launched},
            resource=f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/*",
            context={"ec2:InstanceType": kind},
        )  # fmt: skip

    assert decisions(of("g5.xlarge"), of("p5.48xlarge")) == ["Allowed", "ImplicitlyDenied"]


def test_faults_of_a_policy_are_found():
    wrong = policy(allow("ec2:RunInstance"))
    [found] = faults([("identity", wrong)])
    assert found == ["AWS has no action ec2:RunInstance"]
    without_principal = policy(allow("kms:Decrypt"))
    [found] = faults([("resource", without_principal)])
    assert found


def test_every_action_that_the_check_simulates_is_one_of_awss():
    table = yaml.safe_load((FACTS.parent / "permissions.yaml").read_text())
    actions = sorted({*table["besides"], *(a for row in table["resources"].values() for a in row)})
    unknown = [action for action, known in zip(actions, exist(actions), strict=True) if not known]
    assert not unknown
