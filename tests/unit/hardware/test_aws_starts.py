"""Machines that could not join say why, and only those that are waited for are listened to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from benchorch.hardware.aws_starts import AwsStarts
from support.s3 import Bucket, bucket

__all__ = ["bucket"]  # a fixture

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def starts(bucket: Bucket, since: datetime = LONG_AGO) -> tuple[AwsStarts, list[float]]:
    clock = [0.0]
    url = f"{bucket.url.rpartition('/')[0]}/starts"
    return AwsStarts(url=url, since=since, now_s=lambda: clock[0]), clock


def say(bucket: Bucket, name: str, **more: object) -> None:
    told = {"instance": name, "type": "g5.xlarge", "role": "worker", "outcome": "failed"}
    told |= {"step": "apt", "log": ["Reading package lists...", "E: Unable to fetch", ""], **more}
    body = json.dumps(told).encode()
    bucket.s3.put_object(Bucket=bucket.name, Key=f"starts/{name}.json", Body=body)


def test_a_machine_whose_start_failed_is_told_with_its_last_line(bucket: Bucket) -> None:
    say(bucket, "i-1")
    say(bucket, "i-2", outcome="ready")
    say(bucket, "i-3", role="head")
    found, _ = starts(bucket)
    assert found.failed() == {"g5.xlarge": ["i-1 failed at apt: E: Unable to fetch"]}


def test_the_bucket_is_asked_once_in_a_while(bucket: Bucket) -> None:
    found, clock = starts(bucket)
    assert found.failed() == {}
    say(bucket, "i-1")
    clock[0] = 10.0
    assert found.failed() == {}
    clock[0] = 25.0
    assert list(found.failed()) == ["g5.xlarge"]


def test_starts_from_before_the_sweep_are_left_alone(bucket: Bucket) -> None:
    say(bucket, "i-1")
    found, _ = starts(bucket, since=datetime.now(UTC) + timedelta(minutes=1))
    assert found.failed() == {}


@pytest.mark.parametrize(
    "body", [b"", b"garbage", b"[1]", b"5", b"[" * 10**5, b'{"outcome": "failed", "log": 5}']
)
def test_what_a_machine_should_not_have_written_stops_no_sweep(
    body: bytes, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.s3.put_object(Bucket=bucket.name, Key="starts/i-0.json", Body=body)
    say(bucket, "i-1")
    found, clock = starts(bucket)
    assert list(found.failed()) == ["g5.xlarge"]
    clock[0] = 25.0
    assert list(found.failed()) == ["g5.xlarge"]
    assert caplog.text.count("starts=unreadable") == 1


def test_a_bucket_that_does_not_answer_stops_no_sweep(bucket: Bucket, caplog) -> None:
    found = AwsStarts(url="s3://no-such-bucket/starts")
    assert found.failed() == {}
    assert "starts=unreadable" in caplog.text
