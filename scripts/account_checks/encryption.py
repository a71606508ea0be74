"""May whoever launches machines use the key that encrypts the account's volumes by default?"""

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from account_checks.identity import Identity
from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.request import StackRequest

_finding = partial(AccountFinding, "key")


def check_key(
    account: AwsAccount, identity: Identity, request: StackRequest, facts: Facts
) -> Iterator[AccountFinding]:
    """AWS's own key needs nothing; a customer's must be open to all that launch machines.

    Auto Scaling launches the head. The head launches workers, by the rights that its role has as
    far as the key leaves it to the account. Spot needs a grant for images that the key encrypts.
    """
    key = str(account.call("ec2", "get_ebs_default_kms_key_id")["KmsKeyId"])
    if key == facts["kms.ebs_default"].value or _managed_by_aws(account, key):
        yield _finding(FindingState.OK, key, "AWS's own key")
        return
    policy = json.loads(
        account.call("kms", "get_key_policy", KeyId=key, PolicyName="default")["Policy"]
    )
    grant = facts["kms.autoscaling.grant"]
    used = [*facts["kms.autoscaling.use"].value, grant.value["action"]]
    role = facts["role.autoscaling"].value
    yield _of_policy(
        key,
        policy,
        used,
        [_arn(identity, role)],
        role["name"],
        f"Add the two statements of {grant.source}",
    )
    owner = f"arn:{identity.partition}:iam::{identity.account}:root"
    head = f"arn:{identity.partition}:iam::{identity.account}:role/{request.name}-head"
    yield _of_policy(
        key,
        policy,
        facts["kms.launcher"].value,
        [owner, head],
        f"{request.name}-head",
        f"Let the key's policy allow {owner} kms:*, so that the account's policies decide.",
    )
    if "spot" in request.markets:
        yield _of_spot(account, key, policy, _arn(identity, facts["role.spot"].value), facts)


def _of_policy(
    key: str,
    policy: Mapping[str, Any],
    actions: Sequence[str],
    principals: Sequence[str],
    name: str,
    remedy: str,
) -> AccountFinding:
    """Whether one of these principals, which stand for `name`, may do all of it."""
    absent = [
        action
        for action in actions
        if not any(allows(policy, one, action.replace("*", "From")) for one in principals)
    ]
    if not absent:
        return _finding(FindingState.OK, key, f"{name}: allowed")
    return _finding(
        FindingState.FAILED, key, f"its policy does not allow {name} {', '.join(absent)}", remedy
    )


def _of_spot(
    account: AwsAccount, key: str, policy: Mapping[str, Any], role: str, facts: Facts
) -> AccountFinding:
    """Whether spot's role has the key, by its policy or by a grant."""
    operations = facts["kms.spot"].value
    grants = account.call("kms", "list_grants", KeyId=key, GranteePrincipal=role)["Grants"]
    granted = {operation for one in grants for operation in one["Operations"]}
    if granted >= set(operations) or all(allows(policy, role, f"kms:{one}") for one in operations):
        return _finding(FindingState.OK, key, f"{role.rpartition('/')[2]}: allowed")
    return _finding(
        FindingState.WARNING,
        key,
        f"{role.rpartition('/')[2]} has no grant: no spot machine starts from a baked image",
        f"aws kms create-grant --region {account.region} --key-id {key} --grantee-principal {role} "
        f"--operations {' '.join(operations)}",
    )


def _arn(identity: Identity, role: Mapping[str, Any]) -> str:
    return f"arn:{identity.partition}:iam::{identity.account}:role{role['path']}{role['name']}"


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


def _managed_by_aws(account: AwsAccount, key: str) -> bool:
    metadata = account.call("kms", "describe_key", KeyId=key)["KeyMetadata"]
    return bool(metadata.get("KeyManager") == "AWS")


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]
