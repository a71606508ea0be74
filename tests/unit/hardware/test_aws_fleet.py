"""What a stack leaves in its bucket is removed with it, and nothing else is."""

from __future__ import annotations

from benchorch.hardware.aws_fleet import empty_place
from support.s3 import Bucket, bucket

__all__ = ["bucket"]  # a fixture


def test_every_version_below_the_stores_prefix_is_removed_and_nothing_else(bucket: Bucket) -> None:
    name = bucket.name
    bucket.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for number in range(1005):  # more than one page
        bucket.put(f"artifacts/{number}", b"")
    bucket.put("artifacts/1", b"another version")
    bucket.remove("artifacts/2")  # leaves a marker
    bucket.s3.put_object(Bucket=name, Key="artifacts/of-mlflow", Body=b"")
    bucket.s3.put_object(Bucket=name, Key="store-of-others/x", Body=b"")
    said: list[str] = []
    assert empty_place(bucket.url, said.append) == 1007
    assert said == [f"removed 1007 object version(s) from {bucket.url}"]
    left = bucket.s3.list_object_versions(Bucket=name)
    kept = [*left["Versions"], *left.get("DeleteMarkers", ())]
    assert [one["Key"] for one in kept] == ["artifacts/of-mlflow", "store-of-others/x"]
    assert empty_place(bucket.url, said.append) == 0
    assert len(said) == 1
