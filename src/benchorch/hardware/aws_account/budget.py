"""May budgets be seen, and does the stack's tag count in them?"""

from __future__ import annotations

from collections.abc import Iterator

from benchorch.hardware.aws_account.account import Account, NotAnswered
from benchorch.hardware.aws_account.buckets import STACK_TAG
from benchorch.hardware.aws_account.finding import Finding, State
from benchorch.hardware.aws_account.identity import Identity

BILLING_REGION = "us-east-1"


def check_budget(account: Account, identity: Identity) -> Iterator[Finding]:
    """Budgets of the account, and whether the tag is a cost allocation tag."""
    answer = account.call(
        "budgets", "describe_budgets", region=BILLING_REGION, AccountId=identity.account
    )
    yield _finding(State.OK, "budgets", f"{len(answer.get('Budgets', []))} visible", "")
    yield _of_tag(account)


def _of_tag(account: Account) -> Finding:
    try:
        rows = account.pages(
            "ce",
            "list_cost_allocation_tags",
            "CostAllocationTags",
            region=BILLING_REGION,
            TagKeys=[STACK_TAG],
            Status="Active",
        )
    except NotAnswered as error:
        return _finding(
            State.UNKNOWN,
            STACK_TAG,
            str(error),
            "Member accounts ask their organization's billing account to activate the tag.",
        )
    if rows:
        return _finding(State.OK, STACK_TAG, "is a cost allocation tag", "")
    return _finding(
        State.WARNING,
        STACK_TAG,
        "is not active as cost allocation tag: the budget counts nothing",
        "A day after the first provision: aws ce update-cost-allocation-tags-status "
        f"--cost-allocation-tags-status TagKey={STACK_TAG},Status=Active",
    )


def _finding(state: State, subject: str, observed: str, remedy: str) -> Finding:
    return Finding(check="budget", state=state, subject=subject, observed=observed, remedy=remedy)
