"""What AWS decides on when a recorded call is made: actions, resources and condition keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from support.aws_emulator.images import facts
from support.aws_emulator.server import ACCOUNT, REGION
from support.aws_emulator.traffic import Call
from support.policies.evaluator import Policy, Request

EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
NEW = "00000000-0000-0000-0000-000000000001"
"""The id of what nobody has an id of: the simulation takes a star for many resources."""

_S3 = {
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
}


def requests_of(call: Call, principal: str, identity: Mapping[str, Policy]) -> Iterator[Request]:
    """Every decision that AWS takes on this call; none for calls that need no permission."""
    for action, resource, context in _asked(call):
        yield Request(
            principal=principal,
            action=action,
            resource=resource,
            context={"aws:SecureTransport": "true", **context},
            identity=identity,
        )


Asked = tuple[str, str, Mapping[str, str | Sequence[str]]]


def _asked(call: Call) -> Iterator[Asked]:
    if call.service == "s3":
        yield from _of_s3(call)
    elif call.name == "ec2:RunInstances":
        yield from _of_launch(call.fields)
    elif call.name in ("ec2:CreateTags", "ec2:TerminateInstances", "ec2:DeleteTags"):
        keys = _tag_keys(call.fields, r"Tag\.\d+\.Key")
        for machine in _values(call.fields, r"(InstanceId|ResourceId)\.\d+"):
            yield call.name, f"{EC2}:instance/{machine}", {**_tags_of(machine), **keys}
    elif call.name in ("ssm:GetParameter", "ssm:PutParameter"):
        name = call.content.get("Name", "")
        yield call.name, f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{name}", {}
    elif call.name == "autoscaling:SetDesiredCapacity":
        group = call.fields.get("AutoScalingGroupName", "")
        place = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:{NEW}"
        yield call.name, f"{place}:autoScalingGroupName/{group}", {}
    elif call.service != "sts":
        yield call.name, "*", {}


def _of_s3(call: Call) -> Iterator[Asked]:
    bucket, _, key = call.path.lstrip("/").partition("/")
    if key:
        condition = {"s3:if-none-match": call.if_none_match} if call.if_none_match else {}
        yield _S3[call.action], f"arn:aws:s3:::{bucket}/{key}", condition
    elif call.action == "GET" and "uploads" in call.query:
        yield "s3:ListBucketMultipartUploads", f"arn:aws:s3:::{bucket}", {}
    elif call.action in ("GET", "HEAD"):
        yield "s3:ListBucket", f"arn:aws:s3:::{bucket}", _if(call.query, "prefix", "s3:prefix")


def _of_launch(fields: Mapping[str, str]) -> Iterator[Asked]:
    """A launch is authorized for each of its resources, its tags and the role it hands over."""
    fields = {**_of_template(fields), **fields}
    of = facts()["ec2.launch_resources"].value
    spot = "InstanceMarketOptions.MarketType" in fields
    of_kind = _launch_context(fields)
    for kind in [*of["always"], *(of["spot"] if spot else [])]:
        yield "ec2:RunInstances", _launched(kind, fields), of_kind.get(kind, {})
    creation = facts()["ec2.tags_need_permission"].value
    keys = _tag_keys(fields, r"TagSpecification\.\d+\.Tag\.\d+\.Key")
    for kind in sorted(set(_values(fields, r"TagSpecification\.\d+\.ResourceType"))):
        context = {creation["condition"]: creation["of"], **keys}
        yield creation["action"], f"{EC2}:{kind}/{NEW}", context
    profile = fields.get("IamInstanceProfile.Arn", "").rpartition("/")[2]
    if profile:
        role = f"arn:aws:iam::{ACCOUNT}:role/{profile}"
        yield "iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"}


def _of_template(fields: Mapping[str, str]) -> dict[str, str]:
    """What the call leaves to its launch template, which EC2 reads before it decides."""
    if "LaunchTemplate.LaunchTemplateId" not in fields:
        return {}
    from moto.ec2.models import ec2_backends

    template = ec2_backends[ACCOUNT][REGION].get_launch_template(
        fields["LaunchTemplate.LaunchTemplateId"]
    )
    data = template.get_version(int(fields["LaunchTemplate.Version"])).data
    tokens = data["MetadataOptions"]["HttpTokens"]
    return {"ImageId": data["ImageId"], "MetadataOptions.HttpTokens": tokens}


def _launch_context(fields: Mapping[str, str]) -> Mapping[str, dict[str, str]]:
    tags = {
        f"aws:RequestTag/{fields[key]}": fields.get(key.replace(".Key", ".Value"), "")
        for key in fields
        if re.fullmatch(r"TagSpecification\.\d+\.Tag\.\d+\.Key", key)
    }
    metadata = _if(fields, "MetadataOptions.HttpTokens", "ec2:MetadataHttpTokens")
    return {"instance": {"ec2:InstanceType": fields.get("InstanceType", ""), **metadata, **tags}}


def _launched(kind: str, fields: Mapping[str, str]) -> str:
    if kind == "image":
        return f"arn:aws:ec2:{REGION}::image/{fields.get('ImageId', NEW)}"
    if kind == "subnet":
        return f"{EC2}:subnet/{fields.get('SubnetId', NEW)}"
    if kind == "security-group":
        return f"{EC2}:security-group/{fields.get('SecurityGroupId.1', NEW)}"
    return f"{EC2}:{kind}/{NEW}"


def _tags_of(machine: str) -> dict[str, str]:
    """The tags of an instance that is or was there, as AWS supplies them."""
    from moto.ec2.models import ec2_backends

    backend = ec2_backends[ACCOUNT][REGION]
    tags = backend.describe_tags({"resource-id": [machine]})
    return {f"aws:ResourceTag/{tag['key']}": tag["value"] for tag in tags}


def _tag_keys(fields: Mapping[str, str], pattern: str) -> dict[str, Sequence[str]]:
    keys = sorted(set(_values(fields, pattern)))
    return {"aws:TagKeys": keys} if keys else {}


def _values(fields: Mapping[str, str], pattern: str) -> list[str]:
    return [value for name, value in fields.items() if re.fullmatch(pattern, name)]


def _if(source: Mapping[str, str], name: str, key: str) -> dict[str, str]:
    return {key: source[name]} if name in source else {}
