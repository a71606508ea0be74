"""Whether a machine can be had now: its offer, how it is sold, and the account's quota."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.preflight import Preflight
from support.aws_emulator.images import facts
from support.aws_emulator.server import REGION
from support.aws_emulator.traffic import Fault

BOTH = ("spot", "on_demand")
ON_DEMAND_G, SPOT_G = "L-DB2E81BA", "L-3819A6DF"
Look = Callable[..., Sequence[AccountFinding]]


@pytest.fixture
def look(aws, client) -> Look:
    def found(*kinds: str, markets: Sequence[str] = BOTH) -> Sequence[AccountFinding]:
        account = AwsAccount(region=REGION, client=client)
        return Preflight(account=account, kinds=kinds, markets=markets, facts=facts()).findings()

    return found


def states(findings: Sequence[AccountFinding]) -> dict[str, list[FindingState]]:
    by_check: dict[str, list[FindingState]] = {}
    for one in findings:
        by_check.setdefault(one.check, []).append(one.state)
    return by_check


def test_a_type_that_can_be_had_is_ok_in_every_respect(look) -> None:
    assert states(look("g5.xlarge")) == {
        "offers": [FindingState.OK],
        "quotas": [FindingState.OK] * 2,
    }


def test_a_type_that_the_region_does_not_offer_fails(look) -> None:
    finding = next(one for one in look("p9.huge") if one.check == "offers")
    assert (finding.state, finding.observed) == (FindingState.FAILED, f"not offered in {REGION}")
    assert "Take another region or type" in finding.remedy


def test_a_quota_of_zero_fails_with_the_command_that_raises_it(look, aws) -> None:
    aws.account.quotas_vcpus |= {ON_DEMAND_G: 0, SPOT_G: 0}
    failed = [one for one in look("g5.xlarge") if one.state is FindingState.FAILED]
    assert [one.subject for one in failed] == [f"spot g ({SPOT_G})", f"on_demand g ({ON_DEMAND_G})"]
    assert "request-service-quota-increase" in failed[0].remedy


def test_a_spot_quota_of_zero_stops_nothing_where_on_demand_follows(look, aws) -> None:
    aws.account.quotas_vcpus[SPOT_G] = 0
    assert FindingState.FAILED not in states(look("g5.xlarge"))["quotas"]
    assert FindingState.WARNING in states(look("g5.xlarge"))["quotas"]
    assert states(look("g5.xlarge", markets=["spot"]))["quotas"] == [FindingState.FAILED]


@pytest.mark.parametrize(
    ("sold", "state"),
    [
        (["on-demand", "spot"], None),
        (["on-demand", "capacity-block"], FindingState.WARNING),
        (["capacity-block"], FindingState.FAILED),
    ],
)
def test_a_type_that_is_sold_in_capacity_blocks_is_named_as_such(
    look, monkeypatch, sold, state
) -> None:
    pages = AwsAccount.pages

    def described(self, service, operation, *rest, **more):
        rows = pages(self, service, operation, *rest, **more)
        if operation == "describe_instance_types":
            rows = [{**row, "SupportedUsageClasses": sold} for row in rows]
        return rows

    monkeypatch.setattr(AwsAccount, "pages", described)
    found = [one for one in look("p5.48xlarge") if one.check == "sold"]
    assert [one.state for one in found] == ([state] if state else [])
    assert all("no capacity block" in one.remedy for one in found)


def test_a_call_that_is_refused_is_unknown_and_the_others_are_answered(look, aws) -> None:
    call = "ec2:DescribeInstanceTypeOfferings"
    aws.break_it(Fault(call, code="UnauthorizedOperation", status=403))
    found = look("g5.xlarge")
    assert "Allow this read-only call" in next(o for o in found if o.check == "preflight").remedy
    assert states(found)["quotas"] == [FindingState.OK] * 2
