"""What an account on the free plan may launch."""

from collections.abc import Iterator, Mapping

from benchorch.hardware.aws_account.account import BILLING_REGION, AwsAccount, NotAnswered
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.machine_types import MachineType


def check_plan(account: AwsAccount, types: Mapping[str, MachineType]) -> Iterator[AccountFinding]:
    """An account on the free plan launches marked types alone; a dry run does not show it."""
    try:
        plan = account.call("freetier", "get_account_plan_state", region=BILLING_REGION)
    except NotAnswered as error:
        if error.code != "ResourceNotFoundException":  # the account is older than the plans
            raise
        return
    barred = sorted(kind.name for kind in types.values() if not kind.free_tier)
    is_barred = plan["accountPlanType"] == "FREE" and bool(barred)
    yield AccountFinding(
        "plan",
        FindingState.FAILED if is_barred else FindingState.OK,
        plan["accountPlanType"],
        f"may not launch {', '.join(barred)}" if is_barred else "launches any type",
        "aws freetier upgrade-account-plan --account-plan-type PAID" if is_barred else "",
    )
