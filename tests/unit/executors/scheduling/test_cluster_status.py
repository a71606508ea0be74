"""Why no node came, and what to do: by what EC2 answered."""

from __future__ import annotations

import pytest

from benchorch.domain.price import Market
from benchorch.executors.scheduling.capacity import CapacityRules
from benchorch.executors.scheduling.cluster_file import NodeType, Placement
from benchorch.executors.scheduling.cluster_status import (
    LAUNCH_REMEDIES,
    LaunchStatus,
    explain_no_capacity,
)
from support.aws_emulator import failures

RULES = CapacityRules(
    node_types=[
        NodeType(
            placement=Placement(kind="g5.xlarge", market=Market.SPOT), max_nodes=1, name="g5-spot"
        )
    ]
)
FAILURES = [
    failures.no_capacity(),
    failures.over_quota(spot=False),
    failures.over_quota(spot=True),
    failures.unauthorized("ec2:RunInstances"),
    failures.no_spot_role(),
]


@pytest.mark.parametrize("fault", FAILURES, ids=lambda fault: fault.code)
def test_each_refusal_of_a_launch_has_its_remedy(fault) -> None:
    error = f"An error occurred ({fault.code}) when calling the RunInstances operation"
    why = explain_no_capacity("g5.xlarge", RULES, 0, LaunchStatus(last_error=error))
    assert why.failure == "no_capacity"
    assert fault.code in why.reason
    assert why.remedy == LAUNCH_REMEDIES[fault.code]


def test_a_quota_leads_to_the_check_that_names_it() -> None:
    for code in ("VcpuLimitExceeded", "MaxSpotInstanceCountExceeded"):
        assert "make provision-check" in LAUNCH_REMEDIES[code]


def test_an_unknown_refusal_has_the_general_remedy() -> None:
    why = explain_no_capacity("g5.xlarge", RULES, 1, LaunchStatus(last_error="InternalError"))
    assert "another size" in why.remedy
    assert "raise executor.wait_s (with executor=stack" in why.remedy
    assert "InternalError" in why.reason


def test_an_autoscaler_that_is_silent_because_ec2_refuses_its_calls_says_so() -> None:
    refused = "DescribeInstances: (SignatureDoesNotMatch) Signature expired"
    silent = LaunchStatus(last_error=refused, stopped="it has reported nothing for 130 s")
    why = explain_no_capacity("g5.xlarge", RULES, 0, silent)
    assert refused in why.reason
    assert "clock" in why.remedy
    unexplained = explain_no_capacity("g5.xlarge", RULES, 0, LaunchStatus(stopped="silent"))
    assert "monitor.log" in unexplained.remedy
