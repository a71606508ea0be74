"""Do the roles exist through which AWS's services work for the account?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchorch.hardware.aws_account.account import Account, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import Finding, State
from benchorch.hardware.aws_account.request import StackRequest


def check_roles(account: Account, request: StackRequest, facts: Facts) -> Iterator[Finding]:
    """Auto Scaling makes its own; spot's is made by whoever first asks in the console."""
    wanted = ["role.autoscaling", *(["role.spot"] if "spot" in request.markets else [])]
    for identifier in wanted:
        yield _of_role(account, facts[identifier].value)


def _of_role(account: Account, role: Mapping[str, Any]) -> Finding:
    exists = _exists(account, role["name"])
    if exists or role["made_by_service"]:
        observed = "exists" if exists else "absent; the service makes it"
        return _finding(State.OK, role["name"], observed, "")
    return _finding(
        State.WARNING,
        role["name"],
        "absent: spot launches fail until it is made",
        f"aws iam create-service-linked-role --aws-service-name {role['service']}",
    )


def _finding(state: State, subject: str, observed: str, remedy: str) -> Finding:
    return Finding(check="roles", state=state, subject=subject, observed=observed, remedy=remedy)


def _exists(account: Account, name: str) -> bool:
    try:
        account.call("iam", "get_role", RoleName=name)
    except NotAnswered as error:
        if error.code != "NoSuchEntity":
            raise
        return False
    return True
