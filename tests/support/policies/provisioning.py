"""Calls of whoever provisions, and the permissions that AWS requires for them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "provision_check.py"
CALLED_OTHERWISE = {
    "budgets:CreateBudget": "budgets:ModifyBudget",
    "budgets:CreateNotification": "budgets:ModifyBudget",
    "budgets:DeleteBudget": "budgets:ModifyBudget",
    "budgets:DescribeBudget": "budgets:ViewBudget",
    "budgets:DescribeNotificationsForBudget": "budgets:ViewBudget",
    "budgets:DescribeSubscribersForNotification": "budgets:ViewBudget",
    "iam:GetUser": "sts:GetCallerIdentity",  # instead of it, where an endpoint is not AWS's own
    "monitoring:DescribeAlarms": "cloudwatch:DescribeAlarms",
    "monitoring:DeleteAlarms": "cloudwatch:DeleteAlarms",
    "monitoring:ListTagsForResource": "cloudwatch:ListTagsForResource",
    "monitoring:PutMetricAlarm": "cloudwatch:PutMetricAlarm",
    "s3:DeleteBucketLifecycle": "s3:PutLifecycleConfiguration",
    "s3:DeleteBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls",
    "s3:DeletePublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "s3:DeleteObjects": "s3:DeleteObjectVersion",
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetBucketCors": "s3:GetBucketCORS",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:GetBucketReplication": "s3:GetReplicationConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:ListObjects": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Calls whose permission has another name, by AWS's service authorization reference."""


def unexamined(operations: Iterable[str]) -> Sequence[str]:
    """The permissions that these calls need and that `make provision-check` does not simulate."""
    needed = {CALLED_OTHERWISE.get(name, name) for name in operations}
    return sorted(needed - {*simulated()})


def simulated() -> Sequence[str]:
    """The actions that `make provision-check` has AWS's policy simulator decide on."""
    spec = importlib.util.spec_from_file_location("provision_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.actions()
