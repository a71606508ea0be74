"""Artifacts in an S3 bucket that machines share, each with a directory of its own in front of it.

The directory is searched first and holds whatever is used. If the bucket is unreachable the
directory alone is used, with a warning; no build fails because of it.

The layout of the bucket and its verification are in `stores.remote`, build leases in
`stores.lease`, requests in `stores.objects`.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import Correction, Problem, StoreError
from benchorch.interfaces.store import Entry
from benchorch.stores.artifact_directory import DirectoryStore
from benchorch.stores.entries import check_key
from benchorch.stores.lease import BuildLease, try_lease
from benchorch.stores.manifest import COMPLETE
from benchorch.stores.objects import Denied, Objects, Unreachable, bucket_at, url_problem
from benchorch.stores.remote import RemoteArtifacts

LOG = logging.getLogger(__name__)
_POLL_S = 2.0
_SHORT_KEY = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store(DirectoryStore):
    """Keeps artifacts in a bucket for all machines, and those in use in a directory of this one.

    One builder of all machines builds a key at a time.

    Args:
        url: ``s3://bucket/prefix``; None where none is configured, which is a problem.
        root: the directory; ``~`` is the user's own. Made when first needed.
        quota_gib: size limit of the directory while unused; null for none. The bucket has
            lifecycle rules of its own.
        lease_s: how long a builder may be silent before another machine builds in its place.
    """

    url: str | None
    lease_s: float = 60.0

    def __post_init__(self) -> None:
        DirectoryStore.__post_init__(self)
        if not 1 <= self.lease_s <= 3600:
            raise ValueError(f"lease_s must be from 1 to 3600 seconds, got {self.lease_s}.")

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept there, as far as that is known without any request."""
        return [*filter(None, [self._url_problem()]), *DirectoryStore.problems(self)]

    @property
    def objects(self) -> Objects:
        """The bucket; StoreError if none is named."""
        problem = self._url_problem()
        if problem:
            raise StoreError(problem)
        return bucket_at(str(self.url))

    def _url_problem(self) -> str:
        if not self.url:
            return Problem(
                "store.url: no bucket is named. Give store.url=s3://bucket/prefix or set "
                "BENCHORCH_STORE_URL, as root's shell (`sudo -i`) on a stack's machines does. With "
                "store=local each machine builds for itself.",
                Correction(settings=["store.url=s3://bucket/prefix"]),
            )
        problem = url_problem(self.url)
        allowed = Correction(allowed=["s3://bucket/prefix"])
        return Problem(f"store.url: {problem}", allowed) if problem else ""

    @property
    def _remote(self) -> RemoteArtifacts:
        return RemoteArtifacts(objects=self.objects, store=self)

    def is_shared(self) -> bool:
        """Shared by all machines with access to the object storage."""
        return True

    def find(self, key: str, format: Format | None = None) -> Artifact | None:
        """The artifact in the directory, downloaded first if only other machines have it.

        Every byte is verified; a corrupt entry is quarantined where it is.
        """
        remote = self._remote
        found = DirectoryStore.find(self, key, format)
        if found:
            return found
        with _warning_on(f"{key[:_SHORT_KEY]} is looked for on this machine only", Unreachable):
            if remote.has(key):
                with self.lock(key):
                    found = self._find_or_download(key, format)
        return found

    def _find_or_download(self, key: str, format: Format | None) -> Artifact | None:
        found = self.find_locked(key, format)
        if found is None:
            with _warning_on(f"{key[:_SHORT_KEY]} is not downloaded", Unreachable):
                found = self._remote.download_locked(key, format)
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
        """The artifact, and whether this call built it.

        An artifact that cannot be published stays in the directory, with a warning. Failures are
        recorded in the directory only.
        """
        remote, found = self._remote, None if force else self.find(key.digest, format)
        if found:
            return found, False
        with self.lock(key.digest), ExitStack() as lease:
            found = self._wait(key.digest, format, lease, force=force)
            if found:
                return found, False
            artifact = self.build_locked(key, format=format, name=name, make=make)
            with _warning_on(f"{name} is kept on this machine only", StoreError):
                remote.publish(artifact, replace=force)
            return artifact, True

    def _wait(self, key: str, format: Format, stack: ExitStack, *, force: bool) -> Artifact | None:
        """Artifact built meanwhile by another machine, or None and the lease on the stack."""
        warned = False
        while True:
            try:
                lease = self._lease(key)
            except (Unreachable, Denied) as error:
                LOG.warning("%s is built without a lease: %s", key[:_SHORT_KEY], error)
                return None
            if lease:
                stack.enter_context(lease)
            # Searched after the lease was requested: its last holder has built before.
            found = None if force else self._find_or_download(key, format)
            if lease or found:
                return found
            if not warned:
                LOG.warning("another machine builds %s: waiting for it", key[:_SHORT_KEY])
            warned = True
            time.sleep(min(_POLL_S, self.lease_s / 4) * random.uniform(0.5, 1.0))

    def _lease(self, key: str) -> BuildLease | None:
        lease = try_lease(self.objects, key, self.lease_s)
        if lease and lease.taken_over:
            LOG.warning("the builder of %s is gone: building in its place", key[:_SHORT_KEY])
            self._remote.abort_uploads(key)
        return lease

    def newest(self, name: str) -> Entry | None:
        """The newest complete artifact of that name in either place, downloaded if need be."""
        remote, found = self._remote, DirectoryStore.newest(self, name)
        with _warning_on(f"{name} is looked for on this machine only", Unreachable):
            there = remote.newest(name)
            if there and (found is None or found.created_at < there.created_at):
                downloaded = self.find(there.artifact.key)
                return replace(there, artifact=downloaded) if downloaded else found
            if found and remote.has(found.artifact.key):
                found = self._marked(found)
        return found

    def entries(self) -> Sequence[Entry]:
        """Everything kept in either place, newest first; nothing is verified here."""
        remote, here = self._remote, list(DirectoryStore.entries(self))
        complete = {entry.artifact.key for entry in here if entry.state == COMPLETE}
        keys: set[str] = set()
        elsewhere: list[Entry] = []
        with _warning_on("this is what is on this machine only", Unreachable):
            keys = remote.keys()
            elsewhere = remote.entries(sorted(keys - complete))
        both = [self._marked(entry) if entry.artifact.key in keys else entry for entry in here]
        return sorted([*both, *elsewhere], key=lambda entry: entry.created_at, reverse=True)

    def _marked(self, entry: Entry) -> Entry:
        """An entry that is also in object storage; a failure is this machine's own."""
        if entry.state != COMPLETE:
            return entry
        return replace(entry, remote=self._remote.address_of(entry.artifact.key))

    def delete(self, key: str) -> None:
        """Remove the artifact from both places; other machines keep what they downloaded."""
        objects = self.objects
        check_key(key)
        here = any(entry.artifact.key == key for entry in DirectoryStore.entries(self))
        lease = try_lease(objects, key, self.lease_s)
        if lease is None:
            raise StoreError(f"{key} is being built now; delete it when that is done.")
        with lease:
            if here:
                DirectoryStore.delete(self, key)
            if not self._remote.delete(key) and not here:
                raise StoreError(f"there is no {key} in {self.directory} or {objects.address}.")


@contextmanager
def _warning_on(consequence: str, *failures: type[StoreError]) -> Iterator[None]:
    """Continue after these failures, with a warning about their consequence."""
    try:
        yield
    except failures as error:
        LOG.warning("%s: %s", consequence, error)
