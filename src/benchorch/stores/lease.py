"""Who may build a key, of all machines that share a store?

Whoever writes the lease first. It is written anew while its holder lives, and its age is judged by
the service that keeps it, never by this machine's clock: two clocks that disagree take nothing from
anybody. One that was not renewed in time is taken over, by a write that holds only while the dead
one's is still there, so that of many who try one succeeds.

A holder that was only slow then builds beside another. That costs time and nothing else: what is
built is whole either way.
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
"""How often a lease is renewed in the time that it lasts."""
MARGIN_S = 2.0
"""Ages come in whole seconds, from two dates that were each cut off."""
_MOST_BYTES = 4096
_LEAVE_S = 5.0


def try_lease(objects: Objects, key: str, lease_s: float) -> BuildLease | None:
    """The right to build a key, or None while somebody has it that lives."""
    name, holder = f"leases/{key}", uuid.uuid4().hex
    first = _written(holder, 0)
    mark = _claim(objects, name, first, ABSENT)
    if mark is not None:
        return BuildLease(objects, name, holder, mark, lease_s, taken_over=False)
    found = objects.read(name, _MOST_BYTES)
    if found is None or not is_over(found, lease_s):
        return None
    mark = _claim(objects, name, first, found.seen.mark)
    if mark is None:  # somebody else was faster, or it was renewed after all
        return None
    return BuildLease(objects, name, holder, mark, lease_s, taken_over=True)


def is_over(found: Content, lease_s: float) -> bool:
    """Whether nobody can be renewing a lease any more."""
    return found.seen.age_s > lease_s + MARGIN_S


def _written(holder: str, turn: int) -> bytes:
    """A lease's bytes: others each time, so that it has another mark each time."""
    who = {"holder": holder, "turn": turn, "host": socket.gethostname(), "pid": os.getpid()}
    return json.dumps(who).encode()


def _claim(objects: Objects, name: str, data: bytes, if_is: str) -> str | None:
    """The mark of what was written, or None if somebody else's is there.

    A write whose answer was lost is sent again, and refused because of itself.
    """
    mark = objects.write(name, data, if_is=if_is)
    if mark is not None:
        return mark
    found = objects.read(name, _MOST_BYTES)
    return found.seen.mark if found and found.data == data else None


@final
class BuildLease:
    """The right to build one key; renewed while it is open, and given back."""

    def __init__(
        self,
        objects: Objects,
        name: str,
        holder: str,
        mark: str,
        lease_s: float,
        *,
        taken_over: bool,
    ) -> None:
        self.taken_over = taken_over
        self._objects = objects
        self._name = name
        self._holder = holder
        self._mark = mark
        self._lease_s = lease_s
        self._leaving = threading.Event()
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
        self._leaving.set()
        self._renewing.join(_LEAVE_S)  # it may be waiting for a service that is gone
        with suppress(StoreError):  # then it runs out by itself
            self._objects.remove(self._name, if_is=self._mark)

    def _renew(self) -> None:
        turn = 0
        while not self._leaving.wait(self._lease_s / RENEWALS):
            turn += 1
            # What could not be renewed now may be renewed next time, if nobody was faster.
            with suppress(StoreError):
                mark = _claim(self._objects, self._name, _written(self._holder, turn), self._mark)
                if mark is None:
                    LOG.warning("%s: not renewed in time, another builds too", self._name)
                    return
                self._mark = mark
