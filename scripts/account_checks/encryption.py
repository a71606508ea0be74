"""May Auto Scaling use the key that encrypts the account's volumes by default?"""

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from account_checks.identity import Identity
from benchorch.hardware.aws_account.account import Account
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import Finding, State

_finding = partial(Finding, "key")


def check_key(account: Account, identity: Identity, facts: Facts) -> Iterator[Finding]:
    """The account's own key needs nothing; a customer's key must name Auto Scaling's role."""
    key = str(account.call("ec2", "get_ebs_default_kms_key_id")["KmsKeyId"])
    if key == facts["kms.ebs_default"].value or _managed_by_aws(account, key):
        yield _finding(State.OK, key, "AWS's own key")
        return
    policy = json.loads(
        account.call("kms", "get_key_policy", KeyId=key, PolicyName="default")["Policy"]
    )
    role = facts["role.autoscaling"].value
    arn = f"arn:{identity.partition}:iam::{identity.account}:role{role['path']}{role['name']}"
    needed = [*facts["kms.autoscaling.use"].value, facts["kms.autoscaling.grant"].value["action"]]
    absent = [action for action in needed if not allows(policy, arn, action.replace("*", "From"))]
    yield _finding(
        State.FAILED if absent else State.OK,
        key,
        f"its policy does not allow {role['name']} {', '.join(absent)}" if absent else "allowed",
        f"Add the two statements of {facts['kms.autoscaling.grant'].source}" if absent else "",
    )


def allows(policy: Mapping[str, Any], principal: str, action: str) -> bool:
    """Whether a statement of a key's policy names this principal for this action.

    Conditions of an Allow are taken as met, those of a Deny as well: a Deny that names the
    principal refuses. The account as principal is no permission for a service's role, whose own
    policy AWS writes.
    """
    effects = {
        statement["Effect"]
        for statement in _listed(policy.get("Statement"))
        if _names(statement, principal) and _covers(statement, action)
    }
    return "Allow" in effects and "Deny" not in effects


def _names(statement: Mapping[str, Any], principal: str) -> bool:
    named = statement.get("Principal", {})
    if named == "*":
        return True
    return any(one in ("*", principal) for one in _listed(named.get("AWS")))


def _covers(statement: Mapping[str, Any], action: str) -> bool:
    return any(
        fnmatch.fnmatchcase(action.lower(), str(pattern).lower())
        for pattern in _listed(statement.get("Action"))
    )


def _managed_by_aws(account: Account, key: str) -> bool:
    metadata = account.call("kms", "describe_key", KeyId=key)["KeyMetadata"]
    return bool(metadata.get("KeyManager") == "AWS")


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]
