"""Are the stack's buckets, where there are some, closed to the public and to plain HTTP?"""

import json
from collections.abc import Iterator
from functools import partial

from benchorch.hardware.aws_account.account import AwsAccount, NotAnswered
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

STACK_TAG = "benchorch:stack"

_finding = partial(AccountFinding, "bucket")


def check_buckets(account: AwsAccount, name: str) -> Iterator[AccountFinding]:
    """One finding for each bucket that carries the stack's tag."""
    rows = account.pages(
        "resourcegroupstaggingapi",
        "get_resources",
        "ResourceTagMappingList",
        TagFilters=[{"Key": STACK_TAG, "Values": [name]}],
        ResourceTypeFilters=["s3"],
    )
    buckets = [row["ResourceARN"].rpartition(":")[2] for row in rows]
    for bucket in buckets:
        yield _of_bucket(account, bucket)
    if not buckets:
        yield _finding(FindingState.OK, name, "the stack has no bucket yet", "")


def _of_bucket(account: AwsAccount, bucket: str) -> AccountFinding:
    try:
        policy = json.loads(account.call("s3", "get_bucket_policy", Bucket=bucket)["Policy"])
        block = account.call("s3", "get_public_access_block", Bucket=bucket)
    except NotAnswered as error:
        if error.code == "NoSuchBucket":  # the tagging service remembers what is gone
            return _finding(FindingState.OK, bucket, "gone", "")
        if not error.code.startswith("NoSuch"):
            raise
        return _finding(FindingState.WARNING, bucket, f"has none: {error.code}", "make provision")
    closed = all(block["PublicAccessBlockConfiguration"].values())
    tls_only = "aws:SecureTransport" in json.dumps(policy)
    if closed and tls_only:
        return _finding(FindingState.OK, bucket, "no public access, TLS only", "")
    return _finding(
        FindingState.WARNING,
        bucket,
        f"public access blocked: {closed}, TLS only: {tls_only}",
        "make provision",
    )
