"""Large files of trials in the bucket where their run is archived.

A node that has measured a trial adds them below ``attempts/<trial_id>/<a new name>/``. They count
once the trial's line is in the journal, which has their names and digests: what an attempt leaves
that was interrupted before is in no line, and is never taken for another attempt's.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.result import UploadedFile
from benchorch.files import file_digest
from benchorch.interfaces.attempt_files import AttemptFiles
from benchorch.journal.uploads import ATTEMPTS
from benchorch.stores.objects import bucket_at


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBucket(AttemptFiles):
    """Below ``s3://bucket/prefix``, which is one run's."""

    url: str

    def add(self, folder: Path, names: Sequence[str], trial_id: str) -> tuple[UploadedFile, ...]:
        """Each file with one conditional request, which S3 accepts up to 5 GiB."""
        place = f"{ATTEMPTS}/{trial_id}/{secrets.token_hex(8)}"
        bucket = bucket_at(self.url)
        found = []
        for name in names:
            digest = file_digest(folder / name)
            bucket.add(f"{place}/{name}", folder / name)
            found.append(UploadedFile(name=name, key=f"{place}/{name}", sha256=digest))
        return tuple(found)
