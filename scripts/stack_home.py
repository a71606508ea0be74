"""Where an account keeps what is known of its stacks: one bucket, whoever asks and from wherever.

The bucket is ``benchorch-stacks-ACCOUNT``. Below ``NAME/`` it holds Terraform's state with its
lock, and `Settings`: the stack's region, its variables, and every region that it was ever in. It is
versioned, so that a state that was lost can be had again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

DEFAULT_REGION = "us-east-1"
STATE, SETTINGS = "terraform.tfstate", "settings.json"
KEPT_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a stack was made with.

    Attributes:
        region: where it is.
        regions: where it ever was, which is where destroy looks first.
        variables: of Terraform, as they were given: ``ttl_minutes`` to ``60``.
        destroying_since: when `destroy` began, ISO 8601; empty while the stack is to stay.
    """

    region: str = DEFAULT_REGION
    regions: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    destroying_since: str = ""

    def updated(self, given: Mapping[str, str]) -> Settings:
        """With the variables given now; those given before are kept."""
        variables = {**self.variables, **given}
        region = variables.pop("region", self.region)
        regions = tuple(sorted({*self.regions, region}))
        return replace(self, region=region, regions=regions, variables=variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The bucket of an account.

    Attributes:
        region: the bucket's own; None before there is a bucket.
    """

    account: str
    region: str | None

    @property
    def bucket(self) -> str:
        """Its name."""
        return f"benchorch-stacks-{self.account}"

    def settings(self, name: str) -> Settings | None:
        """Of a stack; None if there is none."""
        if self.region is None:
            return None
        client = self._s3()
        try:
            kept = client.get_object(**self._at(f"{name}/{SETTINGS}"))
        except client.exceptions.NoSuchKey:
            return None
        return Settings(**json.load(kept["Body"]))

    def remember(self, name: str, settings: Settings) -> None:
        """Keep a stack's settings."""
        told = {
            "region": settings.region,
            "regions": list(settings.regions),
            "variables": dict(settings.variables),
            "destroying_since": settings.destroying_since,
        }
        body = json.dumps(told, indent=2).encode()
        self._s3().put_object(**self._at(f"{name}/{SETTINGS}"), Body=body)

    def forget(self, name: str) -> bool:
        """Remove all that is kept of a stack, and the bucket with the last; whether it is gone."""
        client = self._s3()
        for key, version in list(self._versions(f"{name}/")):
            client.delete_object(**self._at(key), VersionId=version)
        if any(self._versions("")):
            return False
        client.delete_bucket(Bucket=self.bucket, ExpectedBucketOwner=self.account)
        return True

    def backend(self, name: str, *, emulated: bool) -> Mapping[str, Any]:
        """Terraform's backend for a stack, with the lock that S3 itself keeps."""
        kept = {
            "bucket": self.bucket,
            "key": f"{name}/{STATE}",
            "region": self.region,
            "encrypt": True,
            "use_lockfile": True,
            "allowed_account_ids": [self.account],
        }
        skipped = ("credentials_validation", "metadata_api_check", "region_validation")
        for what in (f"skip_{word}" for word in skipped if emulated):
            kept[what] = True
        return {"terraform": {"backend": {"s3": {**kept, "use_path_style": emulated}}}}

    def _versions(self, prefix: str) -> Iterator[tuple[str, str]]:
        pages = self._s3().get_paginator("list_object_versions")
        for page in pages.paginate(
            Bucket=self.bucket, Prefix=prefix, ExpectedBucketOwner=self.account
        ):
            for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                yield one["Key"], one["VersionId"]

    def _at(self, key: str) -> Mapping[str, str]:
        return {"Bucket": self.bucket, "Key": key, "ExpectedBucketOwner": self.account}

    def _s3(self) -> Any:
        import boto3

        return boto3.client("s3", region_name=self.region)


def own_region() -> str:
    """Where a new stack is made unless it is said: this shell's region, or its profile's."""
    import boto3

    named = os.environ.get("AWS_REGION") or boto3.Session().region_name
    return str(named or DEFAULT_REGION)


def find_home() -> Home:
    """The account's bucket, where there is one; ValueError if somebody else has its name."""
    import boto3
    from botocore.exceptions import ClientError

    account = boto3.client("sts", region_name=DEFAULT_REGION).get_caller_identity()["Account"]
    home = Home(account=account, region=None)
    client = boto3.client("s3", region_name=DEFAULT_REGION)
    try:
        told = client.head_bucket(Bucket=home.bucket, ExpectedBucketOwner=account)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 404:
            return home
        raise ValueError(
            f"the bucket {home.bucket}, which keeps the states of this account's stacks, answers "
            f"{status}: it belongs to another account, or you may not use it (s3:ListBucket)"
        ) from error
    headers = told["ResponseMetadata"]["HTTPHeaders"]
    return replace(home, region=headers.get("x-amz-bucket-region", DEFAULT_REGION))


def make_home(home: Home, region: str) -> Home:
    """The account's bucket: versioned, encrypted, closed; one that is whole stays as it is."""
    import boto3

    client = boto3.client("s3", region_name=home.region or region)
    mine = {"Bucket": home.bucket, "ExpectedBucketOwner": home.account}
    if home.region is None:
        _create(client, home.bucket, region)
    elif _is_whole(client, mine):
        return home
    client.put_public_access_block(
        **mine, PublicAccessBlockConfiguration=dict.fromkeys(_SHUT, True)
    )
    client.put_bucket_versioning(**mine, VersioningConfiguration={"Status": "Enabled"})
    client.put_bucket_lifecycle_configuration(**mine, LifecycleConfiguration=_OLD_VERSIONS_GO)
    client.put_bucket_policy(**mine, Policy=json.dumps(_tls_only(home.bucket)))
    return replace(home, region=home.region or region)


def _is_whole(client: Any, mine: Mapping[str, str]) -> bool:
    """Whether its making came to the policy, which is the last."""
    from botocore.exceptions import ClientError

    try:
        client.get_bucket_policy(**mine)
    except ClientError as error:
        return bool(error.response["Error"]["Code"] != "NoSuchBucketPolicy")
    return True


def _create(client: Any, bucket: str, region: str) -> None:
    from botocore.exceptions import ClientError

    place = {} if region == DEFAULT_REGION else {"LocationConstraint": region}
    more = {"CreateBucketConfiguration": place} if place else {}
    try:
        client.create_bucket(Bucket=bucket, ObjectOwnership="BucketOwnerEnforced", **more)
    except ClientError as error:
        if error.response["Error"]["Code"] != "OperationAborted":
            raise
        raise ValueError(
            f"S3 does not make the bucket {bucket} yet: it frees the name of one that was deleted, "
            "as with the account's last stack, within an hour. Repeat the command then."
        ) from error


_SHUT = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
_OLD_VERSIONS_GO = {
    "Rules": [
        {
            "ID": "old-versions",
            "Status": "Enabled",
            "Filter": {},
            "NoncurrentVersionExpiration": {"NoncurrentDays": KEPT_DAYS},
        }
    ]
}


def _tls_only(bucket: str) -> Mapping[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "OnlyEncryptedInTransit",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }
