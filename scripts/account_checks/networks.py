"""May the stack's region hold one network more, and may its machines reach the outside?"""

from collections.abc import Iterator

from account_checks.buckets import STACK_TAG
from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState


def check_public_access(account: AwsAccount) -> Iterator[AccountFinding]:
    """A region that blocks public access, in either mode, cuts the stack's machines off."""
    answer = account.call("ec2", "describe_vpc_block_public_access_options")
    mode = answer["VpcBlockPublicAccessOptions"]["InternetGatewayBlockMode"]
    yield AccountFinding(
        "access",
        FindingState.OK if mode == "off" else FindingState.WARNING,
        "internet",
        mode if mode == "off" else f"{mode}: machines reach neither AWS nor packages",
        ""
        if mode == "off"
        else "After make provision: aws ec2 create-vpc-block-public-access-exclusion "
        "--internet-gateway-exclusion-mode allow-egress --vpc-id VPC --region "
        f"{account.region}",
    )


def check_networks(account: AwsAccount, stack: str, facts: Facts) -> Iterator[AccountFinding]:
    """The region's networks (VPCs) against the account's quota; a stack has one."""
    code = str(facts["quota.vpcs"].value["code"])
    quota = account.quota("vpc", code)
    rows = account.pages("ec2", "describe_vpcs", "Vpcs")
    has_its_own = any({"Key": STACK_TAG, "Value": stack} in row.get("Tags", ()) for row in rows)
    fits = has_its_own or len(rows) < quota
    yield AccountFinding(
        "networks",
        FindingState.OK if fits else FindingState.FAILED,
        f"VPCs ({code})",
        f"{len(rows)} of {quota:.0f} exist; "
        + ("the stack's is one of them" if has_its_own else "the stack makes one"),
        ""
        if fits
        else "Delete one that nothing uses, or aws service-quotas request-service-quota-increase "
        f"--service-code vpc --quota-code {code} --desired-value {len(rows) + 1} "
        f"--region {account.region}",
    )
