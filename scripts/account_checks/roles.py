"""Do the roles exist through which AWS's services work for the account?"""

from collections.abc import Iterator, Mapping
from typing import Any

from benchorch.hardware.aws_account.account import AwsAccount, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.request import StackRequest


def check_roles(
    account: AwsAccount, request: StackRequest, facts: Facts
) -> Iterator[AccountFinding]:
    """Auto Scaling makes its own; `make provision` makes spot's, for which it needs permission."""
    required = ["role.autoscaling", *(["role.spot"] if "spot" in request.markets else [])]
    for identifier in required:
        yield _of_role(account, facts[identifier].value)


def _of_role(account: AwsAccount, role: Mapping[str, Any]) -> AccountFinding:
    if _exists(account, role["name"]):
        observed = "exists"
    elif role["made_by_service"]:
        observed = "absent; the service makes it"
    else:
        observed = f"absent; make provision makes it, for {role['service']}"
    return AccountFinding("roles", FindingState.OK, role["name"], observed)


def _exists(account: AwsAccount, name: str) -> bool:
    try:
        account.call("iam", "get_role", RoleName=name)
    except NotAnswered as error:
        if error.code != "NoSuchEntity":
            raise
        return False
    return True
