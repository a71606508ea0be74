"""What an account has beside its resources: quotas, permissions, a default key, active tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from support.aws_emulator.traffic import Call

Answer = tuple[int, str, bytes]

PLENTY = 1000.0


@dataclass
class EmulatedAccount:
    """What its owner may change.

    Attributes:
        decisions: of the policy simulator, by action; any other is allowed.
        missing: keys of conditions that the simulator lacks, by action.
        regions: of requests that were simulated, by action.
        quotas_vcpus: by code; any other is plenty.
        default_key: of EBS volumes.
        plan: of the account, FREE or PAID.
        public_access: what the region blocks of it.
        acting_budgets: names of budgets with actions.
        active_tags: cost allocation tags.
    """

    decisions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)
    quotas_vcpus: dict[str, float] = field(default_factory=dict)
    default_key: str = "alias/aws/ebs"
    plan: str = "PAID"
    public_access: str = "off"
    acting_budgets: list[str] = field(default_factory=list)
    active_tags: list[str] = field(default_factory=lambda: ["benchorch:stack"])

    def answer(self, call: Call, body: bytes) -> Answer | None:
        """The answer to a call that moto lacks, or None."""
        handler = _HANDLERS.get(call.name)
        return handler(self, body) if handler else None


def _quota(account: EmulatedAccount, body: bytes) -> Answer:
    code = json.loads(body)["QuotaCode"]
    quota = {"QuotaCode": code, "Value": account.quotas_vcpus.get(code, PLENTY)}
    return _json({"Quota": quota})


def _tags(account: EmulatedAccount, body: bytes) -> Answer:
    wanted = json.loads(body).get("TagKeys", [])
    rows = [{"TagKey": key, "Status": "Active"} for key in account.active_tags if key in wanted]
    return _json({"CostAllocationTags": rows})


def _plan(account: EmulatedAccount, _: bytes) -> Answer:
    return _json({"accountPlanType": account.plan, "accountPlanStatus": "ACTIVE"})


def _budget_actions(account: EmulatedAccount, _: bytes) -> Answer:
    return _json({"Actions": [{"BudgetName": name} for name in account.acting_budgets]})


def _public_access(account: EmulatedAccount, _: bytes) -> Answer:
    inner = f"<internetGatewayBlockMode>{account.public_access}</internetGatewayBlockMode>"
    name, part = "DescribeVpcBlockPublicAccessOptions", "vpcBlockPublicAccessOptions"
    return _xml(f"<{name}Response><{part}>{inner}</{part}></{name}Response>")


def _default_key(account: EmulatedAccount, _: bytes) -> Answer:
    inner = f"<kmsKeyId>{escape(account.default_key)}</kmsKeyId>"
    return _xml(f"<GetEbsDefaultKmsKeyIdResponse>{inner}</GetEbsDefaultKmsKeyIdResponse>")


def _simulate(account: EmulatedAccount, body: bytes) -> Answer:
    form = parse_qs(body.decode())
    actions = [values[0] for name, values in form.items() if name.startswith("ActionNames.member")]
    entry = "ContextEntries.member.1."
    assert form[f"{entry}ContextKeyName"] == ["aws:RequestedRegion"]
    [region] = form[f"{entry}ContextKeyValues.member.1"]
    account.regions |= dict.fromkeys(actions, region)
    missing = {name: f"<member>{escape(key)}</member>" for name, key in account.missing.items()}
    rows = "".join(
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        f"<EvalDecision>{account.decisions.get(action, 'allowed')}</EvalDecision>"
        f"<MissingContextValues>{missing.get(action, '')}</MissingContextValues></member>"
        for action in actions
    )
    return _xml(
        "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><IsTruncated>false"
        f"</IsTruncated><EvaluationResults>{rows}</EvaluationResults>"
        "</SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>"
    )


def _json(content: Mapping[str, Any]) -> Answer:
    return 200, "application/x-amz-json-1.1", json.dumps(content).encode()


def _xml(text: str) -> Answer:
    return 200, "text/xml", text.encode()


_HANDLERS: Mapping[str, Callable[[EmulatedAccount, bytes], Answer]] = {
    "budgets:DescribeBudgetActionsForAccount": _budget_actions,
    "ce:ListCostAllocationTags": _tags,
    "ec2:GetEbsDefaultKmsKeyId": _default_key,
    "ec2:DescribeVpcBlockPublicAccessOptions": _public_access,
    "freetier:GetAccountPlanState": _plan,
    "iam:SimulatePrincipalPolicy": _simulate,
    "servicequotas:GetServiceQuota": _quota,
    "servicequotas:GetAWSDefaultServiceQuota": _quota,
}
