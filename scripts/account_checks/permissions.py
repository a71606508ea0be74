"""Permissions of the caller to make and remove the stack, by AWS's policy simulator."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from benchorch.hardware.aws_account.account import BILLING_REGION, AwsAccount
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

_A_CALL = 50  # actions in one simulation
_GLOBAL = ("iam:", "budgets:")
"""Actions of services that answer in one region, wherever the stack is."""

_DEPENDS = "depends"
"""Decision on an action that a policy denies under conditions on what only a request has."""


def check_permissions(
    account: AwsAccount, arn: str | None, actions: Sequence[str]
) -> Iterator[AccountFinding]:
    """One finding for the allowed actions, one for each kind of refusal."""
    if arn is None:
        yield _finding(
            FindingState.UNKNOWN, "no policies to simulate for root or a federated user", ""
        )
        return
    decisions, keys = _decisions(account, arn, actions)
    denied = sorted(name for name, decision in decisions.items() if decision == "explicitDeny")
    absent = sorted(name for name, decision in decisions.items() if decision == "implicitDeny")
    depending = sorted(name for name, decision in decisions.items() if decision == _DEPENDS)
    allowed = len(decisions) - len(denied) - len(absent) - len(depending)
    if allowed == len(decisions):
        yield _finding(FindingState.OK, f"{allowed} actions allowed", "")
    if denied:
        yield _finding(
            FindingState.FAILED,
            f"a policy denies {_some(denied)}",
            f"Remove the Deny from the policies of {arn}, or of the organization.",
        )
    if depending:
        yield _finding(
            FindingState.WARNING,
            f"a policy denies under conditions: {_some(depending)}",
            f"The simulator does not know {', '.join(sorted(keys))}, which a request has, such as "
            "that of a session with MFA.",
        )
    if absent:
        yield _finding(
            FindingState.WARNING if allowed or depending else FindingState.FAILED,
            f"not allowed on every resource: {_some(absent)}",
            f"Allow them in a policy of {arn}; a policy that names the stack's own resources "
            "suffices.",
        )


def _decisions(
    account: AwsAccount, arn: str, actions: Sequence[str]
) -> tuple[Mapping[str, str], Collection[str]]:
    """The decision on each action, and the keys of conditions that the simulator lacks."""
    decisions: dict[str, str] = {}
    keys: set[str] = set()
    everywhere = [name for name in actions if name.startswith(_GLOBAL)]
    regional = [name for name in actions if not name.startswith(_GLOBAL)]
    for region, names in ((BILLING_REGION, everywhere), (account.region, regional)):
        for start in range(0, len(names), _A_CALL):
            for result in _simulated(account, arn, names[start : start + _A_CALL], region):
                name, decision = result["EvalActionName"], result["EvalDecision"]
                missing = result.get("MissingContextValues")
                if decision == "explicitDeny" and missing:
                    decision = _DEPENDS
                    keys.update(missing)
                decisions[name] = decision
    return decisions, keys


def _simulated(
    account: AwsAccount, arn: str, actions: Sequence[str], region: str
) -> Sequence[Mapping[str, Any]]:
    """The simulator's answers for requests to a region."""
    key = {"ContextKeyName": "aws:RequestedRegion", "ContextKeyType": "string"}
    return account.pages(
        "iam",
        "simulate_principal_policy",
        "EvaluationResults",
        PolicySourceArn=arn,
        ActionNames=list(actions),
        ContextEntries=[{**key, "ContextKeyValues": [region]}],
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def _finding(state: FindingState, observed: str, remedy: str) -> AccountFinding:
    return AccountFinding("permissions", state, "the caller", observed, remedy)
