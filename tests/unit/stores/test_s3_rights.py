"""What the store asks of S3 is what the stack lets machines do, and all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.s3 import S3Store
from support.s3 import Bucket

POLICY = Path(__file__).resolve().parents[3] / "infra/terraform/modules/access/main.tf"
KEY = BuildKey(fields={"model": "mlp"})
ACTIONS = {
    "AbortMultipartUpload": {"s3:AbortMultipartUpload"},
    "CompleteMultipartUpload": {"s3:PutObject"},
    "CopyObject": {"s3:GetObject", "s3:PutObject"},
    "CreateMultipartUpload": {"s3:PutObject"},
    "DeleteObject": {"s3:DeleteObject"},
    "GetObject": {"s3:GetObject"},
    "HeadObject": {"s3:GetObject"},
    "ListMultipartUploads": {"s3:ListBucketMultipartUploads"},
    "ListObjectsV2": {"s3:ListBucket"},
    "PutObject": {"s3:PutObject"},
    "UploadPart": {"s3:PutObject"},
}
"""The right that each call needs, by AWS's service authorization reference."""


def granted() -> set[str]:
    return set(re.findall(r'"(s3:[A-Z]\w+)"', POLICY.read_text()))


def write(out: Path) -> None:
    (out / "big").write_bytes(bytes(9 * 2**20))


def build(store: S3Store, **options: bool) -> None:
    store.build(KEY, format=Format.ONNX, name="mlp", make=write, **options)


@pytest.fixture
def calls(bucket: Bucket) -> list[tuple[str, str]]:
    """Every call, with the name or prefix that it is about."""
    seen: list[tuple[str, str]] = []

    def note(model: Any, context: dict[str, Any], **_: Any) -> None:
        asked = context["input_params"]
        seen.append((model.name, asked.get("Key", asked.get("Prefix", ""))))

    client = bucket.machine("a").objects._client()
    client.meta.events.register("before-call.s3", note)
    return seen


def test_calls_are_what_is_granted_below_the_prefix(
    bucket: Bucket, calls: list[tuple[str, str]]
) -> None:
    one, other = bucket.machine("a"), bucket.machine("b")
    build(one)
    other.find(KEY.digest)
    bucket.put(f"leases/{KEY.digest}", b"somebody's who died")
    bucket.age(f"leases/{KEY.digest}", 100)
    path = f"store/artifacts/{KEY.digest}/files/begun"
    bucket.s3.create_multipart_upload(Bucket=bucket.name, Key=path)
    build(one, force=True)
    bucket.rewrite(KEY.digest, lambda said: said.update(state="failed"))
    bucket.machine("c").find(KEY.digest)
    other.newest("mlp")
    other.entries()
    other.delete(KEY.digest)

    used = {action for call, _ in calls for action in ACTIONS[call]}
    assert used == granted()
    assert {place.split("/")[0] for _, place in calls} == {"store"}
