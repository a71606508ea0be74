"""The policies of an account, as AWS's calls return them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from support.policies.evaluator import Policy


@dataclass(frozen=True, kw_only=True)
class Role:
    """Attributes:
    policies: inline and attached, by name.
    trust: who may assume it.
    """

    arn: str
    policies: Mapping[str, Policy]
    trust: Policy


def role(name: str) -> Role:
    """A role with everything that decides on its calls."""
    iam = _client("iam")
    found = iam.get_role(RoleName=name)["Role"]
    return Role(
        arn=found["Arn"],
        policies={**dict(_inline(iam, name)), **dict(_attached(iam, name))},
        trust=_document(found["AssumeRolePolicyDocument"]),
    )


def roles(prefix: str) -> Iterator[Role]:
    """Every role whose name begins so."""
    for found in _client("iam").list_roles()["Roles"]:
        if found["RoleName"].startswith(prefix):
            yield role(found["RoleName"])


def bucket_policy(name: str) -> Policy:
    """Of a bucket."""
    return _document(_client("s3").get_bucket_policy(Bucket=name)["Policy"])


def topic_policies(prefix: str) -> Iterator[Policy]:
    """Of every topic whose name begins so."""
    sns = _client("sns")
    for topic in sns.list_topics()["Topics"]:
        if topic["TopicArn"].rpartition(":")[2].startswith(prefix):
            attributes = sns.get_topic_attributes(TopicArn=topic["TopicArn"])["Attributes"]
            yield _document(attributes["Policy"])


def endpoint_policies() -> Mapping[str, Policy]:
    """Of the VPC endpoints."""
    found = _client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    return {
        one["VpcEndpointId"]: _document(one["PolicyDocument"])
        for one in found
        if one.get("PolicyDocument")
    }


def _inline(iam: Any, name: str) -> Iterator[tuple[str, Policy]]:
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        told = iam.get_role_policy(RoleName=name, PolicyName=policy)
        yield policy, _document(told["PolicyDocument"])


def _attached(iam: Any, name: str) -> Iterator[tuple[str, Policy]]:
    for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=policy["PolicyArn"])["Policy"]["DefaultVersionId"]
        told = iam.get_policy_version(PolicyArn=policy["PolicyArn"], VersionId=version)
        yield policy["PolicyName"], _document(told["PolicyVersion"]["Document"])


def _document(told: Any) -> Policy:
    return json.loads(unquote(told)) if isinstance(told, str) else told


def _client(service: str) -> Any:
    import boto3  # noqa: TID251 - reads what was deployed

    return boto3.client(service)
