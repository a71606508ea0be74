"""Build leases: which of all machines that share a store may build a key.

The first to write the lease has it. Its holder renews it; its age is judged by the storage
service's clock, never by a machine's own, so clock skew takes no lease from a living holder. An
expired lease is taken over by a write that is conditional on it, so only one taker succeeds.

A holder that was only slow then builds beside another. That costs time and nothing else: every
build is published whole.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from contextlib import suppress
from types import TracebackType
from typing import final

from benchorch.errors import StoreError
from benchorch.stores.objects import ABSENT, Content, Objects

LOG = logging.getLogger(__name__)
RENEWALS = 4
"""Renewals per lease duration."""
MARGIN_S = 2.0
"""Ages are differences of two dates that were each truncated to whole seconds."""
_MOST_BYTES = 4096
_STOP_S = 5.0


def try_lease(objects: Objects, key: str, lease_s: float) -> BuildLease | None:
    """The right to build a key, or None while a living builder holds it."""
    name, holder = f"leases/{key}", uuid.uuid4().hex
    first = _content(holder, 0)
    etag = _claim(objects, name, first, ABSENT)
    if etag is not None:
        return BuildLease(objects, name, holder, etag, lease_s, taken_over=False)
    found = objects.read(name, _MOST_BYTES)
    if found is None or not is_expired(found, lease_s):
        return None
    etag = _claim(objects, name, first, found.info.etag)
    if etag is None:  # another machine was faster, or it was renewed after all
        return None
    return BuildLease(objects, name, holder, etag, lease_s, taken_over=True)


def is_expired(found: Content, lease_s: float) -> bool:
    """Whether its holder no longer renews it."""
    return found.info.age_s > lease_s + MARGIN_S


def _content(holder: str, renewal: int) -> bytes:
    """A lease's bytes: different each time, so that its ETag is, too."""
    fields = {"holder": holder, "turn": renewal, "host": socket.gethostname(), "pid": os.getpid()}
    return json.dumps(fields).encode()


def _claim(objects: Objects, name: str, data: bytes, if_match: str) -> str | None:
    """The ETag of what was written, or None if another holder's lease is there.

    A write whose response was lost is sent again, and then conflicts with itself.
    """
    etag = objects.write(name, data, if_match=if_match)
    if etag is not None:
        return etag
    found = objects.read(name, _MOST_BYTES)
    return found.info.etag if found and found.data == data else None


@final
class BuildLease:
    """The right to build one key; renewed while it is open, then released."""

    def __init__(
        self,
        objects: Objects,
        name: str,
        holder: str,
        etag: str,
        lease_s: float,
        *,
        taken_over: bool,
    ) -> None:
        self.taken_over = taken_over
        self._objects = objects
        self._name = name
        self._holder = holder
        self._etag = etag
        self._lease_s = lease_s
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> BuildLease:
        self._renewing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._renewing.join(_STOP_S)  # it may be waiting for a service that is gone
        with suppress(StoreError):  # then it expires
            self._objects.remove(self._name, if_match=self._etag)

    def _renew(self) -> None:
        renewal = 0
        while not self._stop.wait(self._lease_s / RENEWALS):
            renewal += 1
            # What could not be renewed now may be renewed next time, if no machine was faster.
            with suppress(StoreError):
                content = _content(self._holder, renewal)
                etag = _claim(self._objects, self._name, content, self._etag)
                if etag is None:
                    LOG.warning("%s: not renewed in time, another machine builds too", self._name)
                    return
                self._etag = etag
