"""Permissions of the caller to make and remove the stack, by AWS's policy simulator."""

from collections.abc import Iterator, Sequence

from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

_A_CALL = 50  # actions in one simulation


def check_permissions(
    account: AwsAccount, arn: str | None, actions: Sequence[str]
) -> Iterator[AccountFinding]:
    """One finding for the allowed actions, one for each kind of refusal."""
    if arn is None:
        yield _finding(
            FindingState.UNKNOWN, "no policies to simulate for root or a federated user", ""
        )
        return
    decisions = _decisions(account, arn, actions)
    denied = sorted(name for name, decision in decisions.items() if decision == "explicitDeny")
    absent = sorted(name for name, decision in decisions.items() if decision == "implicitDeny")
    allowed = len(decisions) - len(denied) - len(absent)
    if allowed == len(decisions):
        yield _finding(FindingState.OK, f"{allowed} actions allowed", "")
    if denied:
        yield _finding(
            FindingState.FAILED,
            f"a policy denies {_some(denied)}",
            f"Remove the Deny from the policies of {arn}, or of the organization.",
        )
    if absent:
        yield _finding(
            FindingState.WARNING if allowed else FindingState.FAILED,
            f"not allowed on every resource: {_some(absent)}",
            f"Allow them in a policy of {arn}; a policy that names the stack's own resources "
            "suffices.",
        )


def _decisions(account: AwsAccount, arn: str, actions: Sequence[str]) -> dict[str, str]:
    decisions = {}
    for start in range(0, len(actions), _A_CALL):
        answer = account.call(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=arn,
            ActionNames=list(actions[start : start + _A_CALL]),
        )
        for result in answer["EvaluationResults"]:
            decisions[result["EvalActionName"]] = result["EvalDecision"]
    return decisions


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def _finding(state: FindingState, observed: str, remedy: str) -> AccountFinding:
    return AccountFinding("permissions", state, "the caller", observed, remedy)
