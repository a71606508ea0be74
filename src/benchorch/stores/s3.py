"""Artifacts in an S3 bucket that machines share, each with a directory of its own before it.

What lies in the bucket, and how it is believed, stands in `stores.remote`; who builds, in
`stores.lease`. Only this file of the family talks to AWS. ``AWS_ENDPOINT_URL`` leads to any other
service that speaks S3 and knows conditional writes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry, Store
from benchorch.stores.objects import (
    ABSENT,
    Content,
    Denied,
    ObjectInfo,
    Objects,
    Refused,
    Unreachable,
)
from benchorch.stores.shelf import ArtifactDirectory
from benchorch.stores.tiers import Tiers

_T = TypeVar("_T")
_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>[^?#]*))?")
_PATIENCE: Mapping[str, Any] = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "max_pool_connections": 16,  # as many as ask at once when entries are listed
    "retries": {"mode": "standard", "total_max_attempts": 8},
}
_PAUSE_S = 60.0  # who has not answered eight times need not be asked at every turn
_ABSENT_CODES = {"404", "NoSuchKey", "NoSuchUpload"}
_CHANGED_CODES = {"412", "PreconditionFailed", "409", "ConditionalRequestConflict"}
_DENIED_CODES = {"403", "AccessDenied"}
_LASTING = "(before S3 was asked)"
_REFUSED_CODES = {
    _LASTING,
    *("NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed"),
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AllAccessDisabled"),
}
_WHO_AM_I = "Try `aws sts get-caller-identity`: it says who you are to AWS"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store(Store):
    """Keeps artifacts in a bucket for all machines, and those in use in a directory of this one.

    Args:
        url: ``s3://bucket/prefix``; None where nobody has named one, which is a problem.
        root: the directory; ``~`` is the user's own. Made when first needed.
        quota_gib: how much the directory may hold when nobody uses it; null for any amount. The
            bucket has rules of its own.
        lease_s: how long a builder may be silent before another machine builds in its place.
    """

    url: str | None
    root: str
    quota_gib: float | None = None
    lease_s: float = 60.0

    def __post_init__(self) -> None:
        _ = self._shelf  # which refuses what makes no sense
        if not 1 <= self.lease_s <= 3600:
            raise ValueError(f"lease_s must be from 1 to 3600 seconds, got {self.lease_s}.")

    @property
    def _shelf(self) -> ArtifactDirectory:
        return ArtifactDirectory.at(self.root, self.quota_gib)

    @property
    def _tiers(self) -> Tiers:
        problem = self._url_problem()
        if problem:
            raise StoreError(problem)
        objects = bucket_at(str(self.url))
        return Tiers(shelf=self._shelf, objects=objects, lease_s=self.lease_s)

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept there, as far as that is known without asking anybody."""
        return [*filter(None, [self._url_problem()]), *self._shelf.problems()]

    def is_shared(self) -> bool:
        """By all machines that reach the bucket."""
        return True

    def _url_problem(self) -> str:
        if not self.url:
            return (
                "store.url: no bucket is named. Give store.url=s3://bucket/prefix or set "
                "BENCHORCH_STORE_URL, as root's shell (`sudo -i`) on a stack's machines does. With "
                "store=local each machine builds for itself."
            )
        return "" if _URL.fullmatch(self.url) else f"store.url: {_no_url(self.url)}"

    def find(self, key: str) -> Artifact | None:
        """The artifact in the directory, fetched from the bucket if need be, every byte verified.

        What is corrupt in either place is quarantined there.
        """
        return self._tiers.find(key)

    def build(
        self,
        key: BuildKey,
        *,
        format: Format,
        name: str,
        make: Callable[[Path], None],
        force: bool = False,
    ) -> tuple[Artifact, bool]:
        """The artifact, and whether this call built it; one builder of all machines at a time.

        Where the bucket does not answer or takes nothing, the directory has to do, and a warning
        says so. Failures are remembered in the directory alone.
        """
        return self._tiers.build(key, format=format, name=name, make=make, force=force)

    def newest(self, name: str) -> Entry | None:
        """The newest complete artifact of that name in either place, fetched if need be."""
        return self._tiers.newest(name)

    def scratch(self, key: str) -> Path:
        """A directory of this machine for a compiler's cache."""
        return self._shelf.scratch(key)

    def entries(self) -> Sequence[Entry]:
        """Everything kept in either place, newest first; nothing is verified here."""
        return self._tiers.entries()

    def in_use(self) -> AbstractContextManager[None]:
        """Until it ends, what is found stays in the directory; then room is made there."""
        return self._shelf.in_use()

    def trim(self) -> Sequence[str]:
        """Drop from the directory what was used longest ago; the bucket keeps it."""
        return self._shelf.trim()

    def delete(self, key: str) -> None:
        """Remove the artifact from both places, and all that either remembers of it."""
        self._tiers.delete(key)


def bucket_at(url: str) -> Objects:
    """The objects below ``s3://bucket/prefix``; StoreError for what is no such URL."""
    named = _URL.fullmatch(url)
    if named is None:
        raise StoreError(_no_url(url))
    return _bucket(named["bucket"], (named["prefix"] or "").strip("/"))


def _no_url(url: str) -> str:
    return f"{url!r} names no bucket; expected s3://bucket/prefix."


@cache
def _bucket(name: str, prefix: str) -> _Bucket:
    """One for all stores of a process: making a client takes long, and so does waiting in vain."""
    return _Bucket(name=name, prefix=prefix)


@final
@dataclass(slots=True, kw_only=True)
class _Bucket(Objects):
    """The objects of a bucket whose names begin with a prefix."""

    name: str
    prefix: str
    _made: Any = None
    _making: Any = field(default_factory=threading.Lock)
    _silent_until_s: float = 0.0

    @property
    def address(self) -> str:
        """Where they are, for people."""
        return f"s3://{self.name}/{self.prefix}".rstrip("/")

    def look(self, name: str) -> ObjectInfo | None:
        """How an object is, without its bytes."""
        return self._ask_of(name, lambda s3: _seen(name, s3.head_object(**self._at(name))))

    def read(self, name: str, most_bytes: int) -> Content | None:
        """An object's bytes, no more than so many."""

        def content(s3: Any) -> Content:
            answer = s3.get_object(**self._at(name))
            with closing(answer["Body"]) as body:
                return Content(data=body.read(most_bytes), seen=_seen(name, answer))

        return self._ask_of(name, content)

    def write(self, name: str, data: bytes, *, if_is: str | None = None) -> str | None:
        """The new object's mark; None, and nothing written, if another than `if_is` is there."""
        condition = {"IfNoneMatch": ABSENT} if if_is == ABSENT else _if_match(if_is)
        try:
            done = self._ask(lambda s3: s3.put_object(**self._at(name), Body=data, **condition))
        except (_Absent, _Changed):
            return None
        return str(done["ETag"])

    def remove(self, name: str, *, if_is: str | None = None) -> None:
        """Make sure that it is not there, unless another than `if_is` is."""
        with suppress(_Absent, _Changed):
            self._ask(lambda s3: s3.delete_object(**self._at(name), **_if_match(if_is)))

    def upload(self, name: str, path: Path) -> None:
        """Keep a file's bytes, in several parts where they are many."""
        self._ask(lambda s3: s3.upload_file(str(path), *self._at(name).values()))

    def download(self, name: str, path: Path) -> bool:
        """Whether the object was there to be written to a file."""

        def fetch(s3: Any) -> bool:
            s3.download_file(*self._at(name).values(), str(path))
            return True

        return self._ask_of(name, fetch) or False

    def copy(self, name: str, to: str) -> None:
        """Keep the same bytes under another name, too; they do not pass through here."""
        self._ask(lambda s3: s3.copy_object(**self._at(to), CopySource=self._at(name)))

    def listed(self, prefix: str) -> Sequence[ObjectInfo]:
        """Every object whose name begins so."""
        pages = self._pages("list_objects_v2", prefix)
        return [
            _seen(found["Key"].removeprefix(self._full("")), {**page, **found})
            for page in pages
            for found in page.get("Contents", ())
        ]

    def folders(self, prefix: str) -> Sequence[str]:
        """What comes between a prefix that ends in a slash and the next slash, each once."""
        pages = self._pages("list_objects_v2", prefix, Delimiter="/")
        full = self._full(prefix)
        return [
            found["Prefix"].removeprefix(full).rstrip("/")
            for page in pages
            for found in page.get("CommonPrefixes", ())
        ]

    def forget_unfinished(self, prefix: str) -> None:
        """Abort the uploads of several parts that were begun below a prefix and never ended."""
        for page in self._pages("list_multipart_uploads", prefix):
            for found in page.get("Uploads", ()):
                self._abort({"Key": found["Key"], "UploadId": found["UploadId"]})

    def _abort(self, which: Mapping[str, str]) -> None:
        with suppress(_Absent):
            self._ask(lambda s3: s3.abort_multipart_upload(Bucket=self.name, **which))

    def _pages(self, operation: str, prefix: str, **options: str) -> list[Mapping[str, Any]]:
        where = {"Bucket": self.name, "Prefix": self._full(prefix), **options}
        return self._ask(lambda s3: list(s3.get_paginator(operation).paginate(**where)))

    def _full(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self.name, "Key": self._full(name)}

    def _ask_of(self, name: str, ask: Callable[[Any], _T]) -> _T | None:
        """The answer about an object, or None where there is none."""
        try:
            return self._ask(ask)
        except _Absent:
            return None
        except Denied:
            # Who may list some prefixes only is not told that an object does not exist.
            if any(seen.name == name for seen in self.listed(name)):
                raise
            return None

    def _ask(self, ask: Callable[[Any], _T]) -> _T:
        """What S3 answers; its failures become ours."""
        if time.monotonic() < self._silent_until_s:
            raise Unreachable(f"{self.address} did not answer a moment ago")
        try:
            return ask(self._client())
        except _failures() as error:
            explained = self._explained(error)
            if isinstance(explained, Unreachable):
                self._silent_until_s = time.monotonic() + _PAUSE_S
            raise explained from error

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        with self._making:  # boto3 makes one at a time
            if self._made is None:
                try:
                    self._made = boto3.client("s3", config=Config(**_PATIENCE))
                except ValueError as error:  # such as an endpoint that is none
                    raise Refused(f"{self.address}: {error}") from error
            return self._made

    def _explained(self, error: Exception) -> StoreError:
        """What S3 or the way to it said, as one of the failures that callers know."""
        code = _code(error)
        if code in _ABSENT_CODES:
            return _Absent(f"{self.address}: {error}")
        if code in _CHANGED_CODES:
            return _Changed(f"{self.address}: {error}")
        if code in _DENIED_CODES:
            return Denied(f"{self.address}: {error}. {_WHO_AM_I}.")
        if code == "NoSuchBucket":
            return Refused(
                f"{self.address}: there is no bucket {self.name!r}. Name another store.url, or "
                "make one: `make provision`."
            )
        if code in _REFUSED_CODES:
            return Refused(f"{self.address}: {error}. {_WHO_AM_I}.")
        return Unreachable(f"{self.address}: {error}")


class _Absent(StoreError):
    """There is no such object; never leaves this file."""


class _Changed(StoreError):
    """Another object than the expected one is there; never leaves this file."""


def _failures() -> tuple[type[Exception], ...]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, Boto3Error


def _code(error: BaseException | None) -> str:
    """What S3 calls a failure; one word for those that come before S3 is asked, and will stay."""
    from botocore import exceptions as before
    from botocore.exceptions import ClientError

    lasting = (
        *(before.NoCredentialsError, before.PartialCredentialsError, before.ProfileNotFound),
        *(before.ParamValidationError, before.ConfigParseError, before.SSOError),
    )
    while error is not None:
        if isinstance(error, ClientError):
            return str(error.response.get("Error", {}).get("Code", ""))
        if isinstance(error, lasting):
            return _LASTING
        error = error.__cause__ or error.__context__
    return ""


def _if_match(mark: str | None) -> dict[str, str]:
    return {} if mark is None else {"IfMatch": mark}


def _seen(name: str, answer: Mapping[str, Any]) -> ObjectInfo:
    """An object as an answer has it, or as one does that lists several."""
    told = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    return ObjectInfo(
        name=name,
        mark=str(answer["ETag"]),
        size_bytes=int(answer.get("ContentLength", answer.get("Size", 0))),
        age_s=(told - answer["LastModified"]).total_seconds(),
    )
