"""May budgets be seen, and does the stack's tag count in them?"""

from collections.abc import Iterator
from functools import partial

from account_checks.buckets import STACK_TAG
from account_checks.identity import Identity
from benchorch.hardware.aws_account.account import BILLING_REGION, AwsAccount, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

_finding = partial(AccountFinding, "budget")

_OPEN_BILLING = (
    "Allow budgets:ViewBudget and budgets:ModifyBudget. Where a policy does, the account's root "
    "user has not opened billing: Account, IAM user and role access to Billing information."
)


def check_budget(
    account: AwsAccount, identity: Identity, stack: str, facts: Facts
) -> Iterator[AccountFinding]:
    """Budgets of the account, whether the tag counts in them, and what one more costs."""
    try:
        answer = account.call(
            "budgets", "describe_budgets", region=BILLING_REGION, AccountId=identity.account
        )
    except NotAnswered as error:
        if not error.denied:
            raise
        yield _finding(FindingState.FAILED, "budgets", str(error), _OPEN_BILLING)
        return
    yield _finding(FindingState.OK, "budgets", f"{len(answer.get('Budgets', []))} visible", "")
    yield _of_tag(account)
    yield _of_actions(account, identity, f"{stack}-monthly", facts)


def _of_actions(account: AwsAccount, identity: Identity, own: str, facts: Facts) -> AccountFinding:
    """What the stack's budget costs beside others that act."""
    rows = account.pages(
        "budgets",
        "describe_budget_actions_for_account",
        "Actions",
        region=BILLING_REGION,
        AccountId=identity.account,
    )
    others = {row["BudgetName"] for row in rows} - {own}
    price = facts["budget.action_price"].value
    is_free = len(others) < price["free"]
    return _finding(
        FindingState.OK if is_free else FindingState.WARNING,
        own,
        f"acts beside {len(others)} others and costs "
        + ("nothing" if is_free else f"{price['usd_per_day']:.2f} USD a day"),
        "" if is_free else "Remove an action that is not needed, or pay 3 USD a month.",
    )


def _of_tag(account: AwsAccount) -> AccountFinding:
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
            FindingState.UNKNOWN,
            STACK_TAG,
            str(error),
            "Member accounts ask their organization's billing account to activate the tag.",
        )
    if rows:
        return _finding(FindingState.OK, STACK_TAG, "is a cost allocation tag", "")
    return _finding(
        FindingState.WARNING,
        STACK_TAG,
        "is not active as cost allocation tag: the budget counts nothing",
        "A day after the first provision: aws ce update-cost-allocation-tags-status "
        f"--cost-allocation-tags-status TagKey={STACK_TAG},Status=Active",
    )
