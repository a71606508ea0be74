"""What an account on the free plan may launch."""

from collections.abc import Iterator, Mapping

from benchorch.hardware.aws_account.account import BILLING_REGION, Account, NotAnswered
from benchorch.hardware.aws_account.finding import Finding, State
from benchorch.hardware.aws_account.machine_types import MachineType


def check_plan(account: Account, types: Mapping[str, MachineType]) -> Iterator[Finding]:
    """An account on the free plan launches marked types alone; a dry run does not show it."""
    try:
        plan = account.call("freetier", "get_account_plan_state", region=BILLING_REGION)
    except NotAnswered as error:
        if error.code != "ResourceNotFoundException":  # the account is older than the plans
            raise
        return
    barred = sorted(kind.name for kind in types.values() if not kind.free_tier)
    is_barred = plan["accountPlanType"] == "FREE" and bool(barred)
    yield Finding(
        "plan",
        State.FAILED if is_barred else State.OK,
        plan["accountPlanType"],
        f"may not launch {', '.join(barred)}" if is_barred else "launches any type",
        "aws freetier upgrade-account-plan --account-plan-type PAID" if is_barred else "",
    )
