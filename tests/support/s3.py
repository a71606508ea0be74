"""A bucket on this machine's loopback, with what a test may do to it."""

from __future__ import annotations

import atexit
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - looks at what is kept, and spoils it
import pytest

from benchorch.stores.s3 import S3Store
from support.aws_emulator.server import Emulator

_open = ExitStack()  # closed with the process: starting it takes seconds
atexit.register(_open.close)  # before the thread that answers is no more, for which it would wait
_numbers = itertools.count(1)


@cache
def emulator() -> Emulator:
    """AWS for all tests of this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    return _open.enter_context(Emulator({}).running())


@cache
def _client() -> Any:
    """The tests' own way to the emulator: making a client takes as long as some of its requests."""
    return boto3.client("s3")


class Bucket:
    """One bucket of the emulator, and stores that have it in common."""

    def __init__(self, tmp_path: Path) -> None:
        self.emulator = emulator()
        self.name = f"artifacts-{next(_numbers)}"
        self.url = f"s3://{self.name}/store"
        self.s3 = _client()
        self.s3.create_bucket(Bucket=self.name)
        self._tmp_path = tmp_path

    def machine(self, name: str, **options: Any) -> S3Store:
        """The store as a machine of that name has it, with a disk of its own."""
        return S3Store(url=self.url, root=str(self._tmp_path / name), **options)

    def names(self, prefix: str = "") -> list[str]:
        found = self.s3.list_objects_v2(Bucket=self.name, Prefix=f"store/{prefix}")
        return [each["Key"].removeprefix("store/") for each in found.get("Contents", ())]

    def read(self, name: str) -> bytes:
        return self.s3.get_object(Bucket=self.name, Key=f"store/{name}")["Body"].read()

    def put(self, name: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.name, Key=f"store/{name}", Body=content)

    def fill(self, contents: Mapping[str, bytes]) -> None:
        """Objects without a request for each."""
        from moto.s3.models import s3_backends

        backend = s3_backends["123456789012"]["aws"]
        for name, content in contents.items():
            backend.put_object(self.name, f"store/{name}", content)

    def remove(self, name: str) -> None:
        self.s3.delete_object(Bucket=self.name, Key=f"store/{name}")

    def manifest(self, key: str) -> dict[str, Any]:
        return json.loads(self.read(f"artifacts/{key}/manifest.json"))

    def rewrite(self, key: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change what a manifest says."""
        content = self.manifest(key)
        change(content)
        self.put(f"artifacts/{key}/manifest.json", json.dumps(content).encode())

    def age(self, name: str, seconds: float) -> None:
        """As if an object had been written that long ago."""
        from datetime import timedelta

        from moto.s3.models import s3_backends

        buckets = s3_backends["123456789012"]["aws"].buckets
        buckets[self.name].keys[f"store/{name}"].last_modified -= timedelta(seconds=seconds)

    def environment(self) -> Mapping[str, str]:
        return self.emulator.environment()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, where this process looks for AWS."""
    pytest.importorskip("moto", reason="moto stands in for AWS")
    for name, value in emulator().environment().items():
        monkeypatch.setenv(name, value)
    # Retries that wait as long as those of a real service would are of no use here.
    backoff = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(backoff, lambda self, context: 0.0)
    made = Bucket(tmp_path)
    monkeypatch.setenv("TEST_BUCKET_URL", made.url)  # for scripts in processes of their own
    yield made
    emulator().traffic.faults.clear()
