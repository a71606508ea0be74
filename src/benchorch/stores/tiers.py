"""A shelf on this machine before what all machines share: which of the two is asked, and when?

The shelf is asked first and holds whatever is used. What machines share may be away: then the shelf
has to do, and a warning says so. No build fails because of it.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry
from benchorch.stores.lease import BuildLease, try_lease
from benchorch.stores.manifest import COMPLETE
from benchorch.stores.objects import Denied, Objects, Unreachable
from benchorch.stores.remote import Remote
from benchorch.stores.shelf import ArtifactDirectory, checked

LOG = logging.getLogger(__name__)
_LOOK_AGAIN_S = 2.0
_SHORT_KEY = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Artifacts on a shelf and in an object store.

    Args:
        lease_s: how long a builder may be silent before another machine builds in its place.
    """

    shelf: ArtifactDirectory
    objects: Objects
    lease_s: float

    @property
    def _remote(self) -> Remote:
        return Remote(objects=self.objects, shelf=self.shelf)

    def find(self, key: str) -> Artifact | None:
        """The artifact on the shelf, where it is put first if only other machines have it."""
        found = self.shelf.find(key)
        if found:
            return found
        with _doing_without(f"{key[:_SHORT_KEY]} is looked for on this machine only", Unreachable):
            if self._remote.has(key):
                with self.shelf.alone(key):
                    found = self._find_alone(key)
        return found

    def _find_alone(self, key: str) -> Artifact | None:
        found = self.shelf.find_alone(key)
        if found is None:
            with _doing_without(f"{key[:_SHORT_KEY]} is not fetched", Unreachable):
                found = self._remote.fetch_alone(key)
        return found

    def build(
        self,
        key: BuildKey,
        *,
        format: Format,
        name: str,
        make: Callable[[Path], None],
        force: bool = False,
    ) -> tuple[Artifact, bool]:
        """The artifact, and whether this call built it; one builder of all machines at a time."""
        found = None if force else self.find(key.digest)
        if found:
            return found, False
        with self.shelf.alone(key.digest), ExitStack() as lease:
            found = self._wait(key.digest, lease, force=force)
            if found:
                return found, False
            artifact = self.shelf.build_alone(key, format=format, name=name, make=make)
            with _doing_without(f"{name} is kept on this machine only", StoreError):
                self._remote.publish(artifact, replace=force)
            return artifact, True

    def _wait(self, key: str, stack: ExitStack, *, force: bool) -> Artifact | None:
        """What another machine has built meanwhile, or None and the lease on the stack."""
        patient = False
        while True:
            try:
                lease = self._lease(key)
            except (Unreachable, Denied) as error:
                LOG.warning("%s is built whoever else builds it: %s", key[:_SHORT_KEY], error)
                return None
            if lease:
                stack.enter_context(lease)
            # Looked for after the lease was asked for: whoever gave it back has built before.
            found = None if force else self._find_alone(key)
            if lease or found:
                return found
            if not patient:
                LOG.warning("another machine builds %s: waiting for it", key[:_SHORT_KEY])
            patient = True
            time.sleep(min(_LOOK_AGAIN_S, self.lease_s / 4) * random.uniform(0.5, 1.0))

    def _lease(self, key: str) -> BuildLease | None:
        lease = try_lease(self.objects, key, self.lease_s)
        if lease and lease.taken_over:
            LOG.warning("the builder of %s is gone: building in its place", key[:_SHORT_KEY])
            self._remote.clear_up(key)
        return lease

    def newest(self, name: str) -> Entry | None:
        """The newest complete artifact of that name, wherever it is, on the shelf."""
        found = self.shelf.newest(name)
        with _doing_without(f"{name} is looked for on this machine only", Unreachable):
            there = self._remote.newest(name)
            if there and (found is None or found.created_at < there.created_at):
                fetched = self.find(there.artifact.key)
                return replace(there, artifact=fetched) if fetched else found
            if found and self._remote.has(found.artifact.key):
                found = self._marked(found)
        return found

    def entries(self) -> Sequence[Entry]:
        """What the shelf has, and what others have that it has not; newest first."""
        here = list(self.shelf.entries())
        complete = {entry.artifact.key for entry in here if entry.state == COMPLETE}
        keys: set[str] = set()
        elsewhere: list[Entry] = []
        with _doing_without("this is what is on this machine only", Unreachable):
            keys = self._remote.keys()
            elsewhere = self._remote.entries(sorted(keys - complete))
        both = [self._marked(entry) if entry.artifact.key in keys else entry for entry in here]
        return sorted([*both, *elsewhere], key=lambda entry: entry.created_at, reverse=True)

    def _marked(self, entry: Entry) -> Entry:
        """An entry of the shelf that others have, too; a failure is this machine's own."""
        if entry.state != COMPLETE:
            return entry
        return replace(entry, remote=self._remote.address_of(entry.artifact.key))

    def delete(self, key: str) -> None:
        """Remove the artifact for all machines; others keep what they have fetched of it."""
        checked(key)
        here = any(entry.artifact.key == key for entry in self.shelf.entries())
        lease = try_lease(self.objects, key, self.lease_s)
        if lease is None:
            raise StoreError(f"{key} is being built now; delete it when that is done.")
        with lease:
            if here:
                self.shelf.delete(key)
            if not self._remote.delete(key) and not here:
                places = f"{self.shelf.root} or {self.objects.address}"
                raise StoreError(f"there is no {key} in {places}.")


@contextmanager
def _doing_without(consequence: str, *failures: type[StoreError]) -> Iterator[None]:
    """Goes on after these failures, and says what comes of them."""
    try:
        yield
    except failures as error:
        LOG.warning("%s: %s", consequence, error)
