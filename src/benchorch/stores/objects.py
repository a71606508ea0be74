"""Objects in an S3 bucket, and how a request for them may fail.

Only this file of the family talks to AWS. ``AWS_ENDPOINT_URL`` selects any other service that
speaks S3 and supports conditional writes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar, final

from benchorch.errors import StoreError, causes
from benchorch.host.paced_http import paced

ABSENT = "*"
"""Stands for the ETag of an object that does not exist."""
_T = TypeVar("_T")
_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>[^?#]*))?")
_CLIENT: Mapping[str, Any] = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "max_pool_connections": 16,  # as many requests as run at once when entries are listed
    "retries": {"mode": "standard", "total_max_attempts": 8},
}
_PAUSE_S = 60.0  # after eight attempts without a response no request is sent for so long
_ABSENT_CODES = {"404", "NoSuchKey", "NoSuchUpload"}
_CHANGED_CODES = {"412", "PreconditionFailed", "409", "ConditionalRequestConflict"}
_DENIED_CODES = {"403", "AccessDenied"}
_PERMANENT = "(before any request)"
_REFUSED_CODES = {
    _PERMANENT,
    *("NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed"),
    *("InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "AllAccessDisabled"),
}
_EXPIRED = "ExpiredToken"
_SET_CLOCK = "Set the clock of this machine: timedatectl set-ntp true"
_RENEW = "Renew the credentials, such as by `aws sso login`"
_WHO_AM_I = "Try `aws sts get-caller-identity`: it shows which identity AWS sees"


class Unreachable(StoreError):
    """The service does not respond now; later it may."""


class Refused(StoreError):
    """Permanent refusal: no credentials, no such bucket."""


class Denied(StoreError):
    """The credentials are valid but lack the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object as the service reported it.

    Attributes:
        name: relative to the store's prefix, with forward slashes.
        etag: changes whenever the bytes do.
        age_s: since the last write, in whole seconds and by the service's own clock.
    """

    name: str
    etag: str
    size_bytes: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The first bytes of an object, or all of them."""

    data: bytes
    info: ObjectInfo


def bucket_at(url: str) -> Objects:
    """The objects below ``s3://bucket/prefix``; StoreError for any other URL."""
    named = _URL.fullmatch(url)
    if named is None:
        raise StoreError(url_problem(url))
    return _bucket(named["bucket"], (named["prefix"] or "").strip("/"))


def url_problem(url: str) -> str:
    """Why a URL is none of a bucket, or an empty string."""
    return "" if _URL.fullmatch(url) else f"{url!r} names no bucket; expected s3://bucket/prefix."


@cache
def _bucket(name: str, prefix: str) -> Objects:
    """The process's client of a bucket: making one takes long, as does an unreachable service."""
    return Objects(name=name, prefix=prefix)


@final
@dataclass(slots=True, kw_only=True)
class Objects:
    """The objects of a bucket whose names begin with a prefix, each written atomically.

    All methods may raise Unreachable, Refused, Denied.
    """

    name: str
    prefix: str
    _made: Any = None
    _lock: Any = field(default_factory=threading.Lock)
    _paused_until_s: float = 0.0

    @property
    def address(self) -> str:
        """Address for display."""
        return f"s3://{self.name}/{self.prefix}".rstrip("/")

    def look(self, name: str) -> ObjectInfo | None:
        """An object without its bytes; None if it does not exist."""
        return self._request_of(name, lambda s3: _info(name, s3.head_object(**self._at(name))))

    def read(self, name: str, most_bytes: int) -> Content | None:
        """At most so many of an object's bytes; None if it does not exist."""

        def content(s3: Any) -> Content:
            response = s3.get_object(**self._at(name))
            with closing(response["Body"]) as body:
                return Content(data=body.read(most_bytes), info=_info(name, response))

        return self._request_of(name, content)

    def write(self, name: str, data: bytes, *, if_match: str | None = None) -> str | None:
        """The new object's ETag; None, with nothing written, if `if_match` does not match."""
        condition = {"IfNoneMatch": ABSENT} if if_match == ABSENT else _condition(if_match)
        try:
            done = self._request(lambda s3: s3.put_object(**self._at(name), Body=data, **condition))
        except (_Absent, _Changed):
            return None
        with _complete(name, done):
            return str(done["ETag"])

    def remove(self, name: str, *, if_match: str | None = None) -> None:
        """Ensure that it does not exist, unless `if_match` does not match."""
        with suppress(_Absent, _Changed):
            self._request(lambda s3: s3.delete_object(**self._at(name), **_condition(if_match)))

    def upload(self, name: str, path: Path) -> None:
        """Store a file's bytes, in several parts if they are many; visible once all are there."""
        self._request(lambda s3: s3.upload_file(str(path), *self._at(name).values()))

    def add(self, name: str, path: Path) -> None:
        """Store a file's bytes unless the object exists already, which S3 does up to 5 GiB."""

        def put(s3: Any) -> None:
            with path.open("rb") as body:
                s3.put_object(**self._at(name), Body=body, IfNoneMatch=ABSENT)

        with suppress(_Changed):
            self._request(put)

    def download(self, name: str, path: Path) -> bool:
        """Whether the object existed and was written to a file."""

        def fetch(s3: Any) -> bool:
            s3.download_file(*self._at(name).values(), str(path))
            return True

        return self._request_of(name, fetch) or False

    def copy(self, name: str, to: str) -> None:
        """Store the same bytes under another name, too, on the service's side."""
        self._request(lambda s3: s3.copy_object(**self._at(to), CopySource=self._at(name)))

    def listed(self, prefix: str) -> Sequence[ObjectInfo]:
        """Every object whose name begins with a prefix."""
        pages = self._pages("list_objects_v2", prefix)
        return [
            _info(found["Key"].removeprefix(self._full("")), {**page, **found})
            for page in pages
            for found in page.get("Contents", ())
        ]

    def folders(self, prefix: str) -> Sequence[str]:
        """Name parts between a prefix that ends in a slash and the next slash, each once."""
        pages = self._pages("list_objects_v2", prefix, Delimiter="/")
        full = self._full(prefix)
        return [
            found["Prefix"].removeprefix(full).rstrip("/")
            for page in pages
            for found in page.get("CommonPrefixes", ())
        ]

    def abort_uploads(self, prefix: str) -> None:
        """Free what unfinished uploads below a prefix occupy."""
        for page in self._pages("list_multipart_uploads", prefix):
            for found in page.get("Uploads", ()):
                which = {"Bucket": self.name, "Key": found["Key"], "UploadId": found["UploadId"]}
                with suppress(_Absent):
                    self._request(methodcaller("abort_multipart_upload", **which))

    def _pages(self, operation: str, prefix: str, **options: str) -> list[Mapping[str, Any]]:
        where = {"Bucket": self.name, "Prefix": self._full(prefix), **options}
        return self._request(lambda s3: list(s3.get_paginator(operation).paginate(**where)))

    def _full(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self.name, "Key": self._full(name)}

    def _request_of(self, name: str, call: Callable[[Any], _T]) -> _T | None:
        """The response about an object, or None if it does not exist."""
        try:
            return self._request(call)
        except _Absent:
            return None
        except Denied:
            # Without permission to list everything, 403 may also mean that it does not exist.
            if any(each.name == name for each in self.listed(name)):
                raise
            return None

    def _request(self, call: Callable[[Any], _T]) -> _T:
        """The response of S3; its errors become StoreErrors."""
        if time.monotonic() < self._paused_until_s:
            raise Unreachable(f"{self.address} did not respond a moment ago")
        try:
            client = self._client()
            with paced():
                return call(client)
        except _boto_errors() as error:
            explained = self._store_error(error)
            if isinstance(explained, Unreachable):
                self._paused_until_s = time.monotonic() + _PAUSE_S
            raise explained from error

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        with self._lock:  # boto3 cannot make two at a time
            if self._made is None:
                try:
                    self._made = boto3.client("s3", config=Config(**_CLIENT))
                except ValueError as error:  # such as an invalid endpoint
                    raise Refused(f"{self.address}: {error}") from error
            return self._made

    def _store_error(self, error: Exception) -> StoreError:
        """An error of S3, or of the way to it, as one that callers handle."""
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
        if code == "RequestTimeTooSkewed":
            return Unreachable(f"{self.address}: {error} {_SET_CLOCK}.")
        if code == _EXPIRED:  # which may be renewed while a sweep goes on
            return Unreachable(f"{self.address}: {error}. {_RENEW}.")
        if code in _REFUSED_CODES:
            return Refused(f"{self.address}: {error}. {_WHO_AM_I}.")
        return Unreachable(f"{self.address}: {error}")


class _Absent(StoreError):
    """There is no such object; never leaves this file."""


class _Changed(StoreError):
    """The object is not the expected one; never leaves this file."""


def _boto_errors() -> tuple[type[Exception], ...]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, Boto3Error


def _code(error: BaseException | None) -> str:
    """The S3 error code; `_PERMANENT` for lasting errors that occur before any request."""
    from botocore import exceptions as before
    from botocore.exceptions import ClientError

    permanent = (
        *(before.NoCredentialsError, before.PartialCredentialsError, before.ProfileNotFound),
        *(before.ParamValidationError, before.ConfigParseError, before.SSOError),
    )
    for cause in causes(error, implied=True):
        if isinstance(cause, ClientError):
            return str(cause.response.get("Error", {}).get("Code", ""))
        if isinstance(cause, permanent):
            return _PERMANENT
        if isinstance(cause, before.TokenRetrievalError):
            return _EXPIRED
    return ""


def _condition(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"IfMatch": etag}


def _info(name: str, response: Mapping[str, Any]) -> ObjectInfo:
    """An object from a response about it, or from one that lists several."""
    with _complete(name, response):
        now = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
        return ObjectInfo(
            name=name,
            etag=str(response["ETag"]),
            size_bytes=int(response.get("ContentLength", response.get("Size", 0))),
            age_s=(now - response["LastModified"]).total_seconds(),
        )


@contextmanager
def _complete(name: str, response: Mapping[str, Any]) -> Iterator[None]:
    """Unreachable, with what came, if a successful response is not one that S3 gives."""
    try:
        yield
    except (KeyError, ValueError, TypeError) as error:
        metadata = response["ResponseMetadata"]
        status, headers = metadata["HTTPStatusCode"], metadata["HTTPHeaders"]
        wrong = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        told = f"response {status} about {name!r} {wrong}; its headers are {headers}"
        raise Unreachable(told) from error
