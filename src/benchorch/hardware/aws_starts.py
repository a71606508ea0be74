"""How the starts of a stack's machines went, as each of them writes it to the stack's bucket."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, final

from benchorch.interfaces.node_starts import NodeStarts
from benchorch.journal.chain import mapping_of

LOOK_S = 20.0
"""Minimum interval between requests to the bucket."""

LOG = logging.getLogger(__name__)


@final
@dataclass(slots=True, kw_only=True)
class AwsStarts(NodeStarts):
    """The files ``INSTANCE.json`` below ``s3://bucket/prefix``.

    Attributes:
        since: older files are of machines that nobody here has waited for.
        seen: by file, when it was written; one that is written anew is read anew.
    """

    url: str
    now_s: Callable[[], float] = time.monotonic
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    seen: dict[str, datetime] = field(default_factory=dict)
    told: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked_s: float = float("-inf")

    def failed(self) -> Mapping[str, Sequence[str]]:
        """See the interface; at most one request every `LOOK_S`."""
        if self.now_s() - self.asked_s >= LOOK_S:
            self.asked_s = self.now_s()
            self._look()
        found: dict[str, list[str]] = {}
        for kind, reason in self.told.values():
            found.setdefault(kind, []).append(reason)
        return found

    def _look(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        client = _client()
        try:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=f"{prefix}/"
            )
            for one in (each for page in pages for each in page.get("Contents", ())):
                name, written = one["Key"], one["LastModified"]
                if written >= self.since and self.seen.get(name) != written:
                    body = client.get_object(Bucket=bucket, Key=name)["Body"].read()
                    self.seen[name] = written
                    self._note(name, body)
        except (BotoCoreError, ClientError) as error:
            LOG.warning("starts=unreadable url=%s error=%r", self.url, str(error))

    def _note(self, name: str, body: bytes) -> None:
        try:
            start = start_in(body)
        except ValueError as error:
            LOG.warning("starts=unreadable file=%r error=%r", name, str(error))
            return
        if start.get("outcome") != "failed" or start.get("role") != "worker":
            return
        self.told[name] = (str(start.get("type")), reason_of(start))


def start_in(body: bytes) -> Mapping[str, Any]:
    """What a machine wrote of its start; ValueError for anything else, which a node may write."""
    start = mapping_of(body)
    log = start.get("log", [])
    if not isinstance(log, list) or not all(isinstance(line, str) for line in log):
        raise ValueError("its log is no list of lines")
    return start


def reason_of(start: Mapping[str, Any]) -> str:
    """Machine, failed step and last line of output of a failed start."""
    last = next((line for line in reversed(start.get("log", ())) if line.strip()), "no output")
    return f"{start.get('instance')} failed at {start.get('step')}: {last.strip()}"


def _client() -> Any:
    import boto3
    from botocore.config import Config

    quick = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})
    return boto3.client("s3", config=quick)
