"""What moto lacks or gets wrong, as far as a stack of benchorch's meets it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from support.aws_emulator.images import facts
from support.aws_emulator.traffic import Call

IMAGE = "ami-03cf127a"  # one of those that moto knows
Answer = tuple[int, str, bytes]


def answer(call: Call, body: bytes, usd_per_hour: Mapping[str, float]) -> Answer | None:
    """The answer to a call that moto has none for, or None to ask moto."""
    if call.name == "budgets:CreateBudget":  # moto keeps the budget, and forgets its tags
        _remember_tags(json.loads(body))
    handler = _HANDLERS.get(call.name)
    return handler(json.loads(body or b"{}"), usd_per_hour) if handler else None


def _json(content: object) -> Answer:
    return 200, "application/x-amz-json-1.1", json.dumps(content).encode()


def _subscribers(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    from moto.budgets.models import budgets_backends

    backend = budgets_backends[request["AccountId"]]["aws"]
    budget = backend.budgets[request["AccountId"]][request["BudgetName"]]
    wanted = request["Notification"]
    for known in budget.notifications:
        same = ("NotificationType", "ComparisonOperator", "Threshold")
        if all(known.details.get(key) == wanted.get(key) for key in same):
            return _json({"Subscribers": known.subscribers})
    return _json({"Subscribers": []})


_budget_tags: dict[str, list[Mapping[str, str]]] = {}


def _remember_tags(request: Mapping[str, Any]) -> None:
    place = f"arn:aws:budgets::{request['AccountId']}:budget/{request['Budget']['BudgetName']}"
    _budget_tags[place] = request.get("ResourceTags", [])


def _tag_budget(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    _budget_tags[request["ResourceARN"]] = request["ResourceTags"]
    return _json({})


def _tags_of_budget(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    return _json({"ResourceTags": _budget_tags.get(request["ResourceARN"], [])})


_actions: dict[str, dict[str, Any]] = {}


def _create_action(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    made = {name: value for name, value in request.items() if name != "ResourceTags"}
    made |= {"ActionId": str(uuid.uuid4()), "Status": "STANDBY"}
    _actions[made["ActionId"]] = made
    budget = f"arn:aws:budgets::{made['AccountId']}:budget/{made['BudgetName']}"
    _budget_tags[f"{budget}/action/{made['ActionId']}"] = request.get("ResourceTags", [])
    told = {name: made[name] for name in ("AccountId", "BudgetName", "ActionId")}
    return _json(told)


def _describe_action(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    action = _actions.get(request["ActionId"])
    if action is None:
        return _no_such("action")
    told = {name: request[name] for name in ("AccountId", "BudgetName")}
    return _json({**told, "Action": action})


def _delete_action(request: Mapping[str, Any], _: Mapping[str, float]) -> Answer:
    action = _actions.pop(request["ActionId"], None)
    if action is None:
        return _no_such("action")
    told = {name: request[name] for name in ("AccountId", "BudgetName")}
    return _json({**told, "Action": action})


def _no_such(what: str) -> Answer:
    told = {"__type": "NotFoundException", "message": f"no such {what}"}
    return 404, "application/x-amz-json-1.1", json.dumps(told).encode()


def _products(request: Mapping[str, Any], usd_per_hour: Mapping[str, float]) -> Answer:
    wanted = {entry["Field"]: entry["Value"] for entry in request.get("Filters", [])}
    usd = usd_per_hour.get(wanted.get("instanceType", ""))
    if usd is None:
        return _json({"PriceList": []})
    dimensions = {"rate": {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd:.10f}"}}}
    terms = {"OnDemand": {"term": {"priceDimensions": dimensions}}}
    return _json({"PriceList": [json.dumps({"terms": terms})]})


_HANDLERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, float]], Answer]] = {
    "budgets:DescribeSubscribersForNotification": _subscribers,
    "budgets:CreateBudgetAction": _create_action,
    "budgets:DescribeBudgetAction": _describe_action,
    "budgets:DeleteBudgetAction": _delete_action,
    "budgets:TagResource": _tag_budget,
    "budgets:ListTagsForResource": _tags_of_budget,
    "pricing:GetProducts": _products,
}


def mend() -> None:
    """Make moto's models behave where no answer of its own could be replaced."""
    _tls_only_policies_let_loopback_pass()
    _rules_between_groups_keep_their_description()
    _templates_keep_their_own_tags()
    _later_versions_of_a_template_launch_too()
    _images_tag_their_snapshots()
    _service_roles_have_their_names()
    _attached_policies_stay()


def _attached_policies_stay() -> None:
    """IAM deletes no managed policy that is attached to a role; moto does."""
    from moto.iam.exceptions import DeleteConflictException
    from moto.iam.models import IAMBackend

    plain = IAMBackend.delete_policy

    def mended(self: Any, policy_arn: str) -> None:
        if any(policy_arn in role.managed_policies for role in self.roles.values()):
            raise DeleteConflictException("Cannot delete a policy attached to entities.")
        plain(self, policy_arn)

    IAMBackend.delete_policy = mended


def _service_roles_have_their_names() -> None:
    from moto.iam.models import SERVICE_NAME_CONVERSION

    role = facts()["role.spot"].value
    service = role["service"].partition(".")[0]
    SERVICE_NAME_CONVERSION[service] = role["name"].removeprefix("AWSServiceRoleFor")


def _tls_only_policies_let_loopback_pass() -> None:
    """Conditions of bucket policies are ignored by moto, so that each conditional Deny denies."""
    from moto.iam.access_control import IAMPolicyStatement

    plain = IAMPolicyStatement.is_action_permitted

    def mended(self: Any, action: str, *asked: Any, **more: Any) -> Any:
        if "aws:SecureTransport" in json.dumps(self._statement.get("Condition", {})):
            from moto.iam.access_control import PermissionResult

            return PermissionResult.NEUTRAL
        return plain(self, action, *asked, **more)

    IAMPolicyStatement.is_action_permitted = mended


def _images_tag_their_snapshots() -> None:
    from moto.ec2.models.amis import AmiBackend

    plain = AmiBackend.create_image

    def mended(self: Any, *words: Any, tag_specifications: Any) -> Any:
        kinds = {spec["ResourceType"]: spec["Tags"] for spec in tag_specifications}
        of_image = [spec for spec in tag_specifications if spec["ResourceType"] == "image"]
        image = plain(self, *words, tag_specifications=of_image)
        for tag in kinds.get("snapshot", ()):
            image.ebs_snapshot.add_tag(tag["Key"], tag["Value"])
        return image

    AmiBackend.create_image = mended


def _rules_between_groups_keep_their_description() -> None:
    from moto.ec2.models.security_groups import SecurityGroupRule

    plain = SecurityGroupRule.description.fget
    SecurityGroupRule.description = property(
        lambda self: plain(self) or self.source_group.get("Description")
    )


def _templates_keep_their_own_tags() -> None:
    """Tags of a launch template are no tags of what it launches."""
    from moto.ec2.models.launch_templates import LaunchTemplate

    plain = LaunchTemplate.create_version

    def mended(self: Any, data: dict[str, Any], description: str) -> Any:
        kept = [
            spec
            for spec in data.get("TagSpecification", data.get("TagSpecifications", []))
            if spec.get("ResourceType") != "launch-template"
        ]
        for key in ("TagSpecification", "TagSpecifications"):
            if key in data:
                data[key] = kept
        return plain(self, data, description)

    LaunchTemplate.create_version = mended


def _later_versions_of_a_template_launch_too() -> None:
    """User data of a first version has a type of its own; moto stops at a later one's, a string."""
    from moto.core.types import Base64EncodedString
    from moto.ec2.models.launch_templates import LaunchTemplateVersion

    def mended(self: Any) -> Any:
        told = self.data.get("UserData")
        return Base64EncodedString(told) if isinstance(told, str) else told

    LaunchTemplateVersion.user_data = property(mended)
