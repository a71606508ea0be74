"""Download of the files that nodes have uploaded by themselves, by the journal's digests."""

import logging
from collections.abc import Callable
from pathlib import Path

from benchorch.domain.result import TrialResult, UploadedFile
from benchorch.files import check_inside, file_digest
from benchorch.journal.run_directory import trial_directory

ATTEMPTS = "attempts"
"""The folder of uploaded files in a run's archive."""

LOG = logging.getLogger(__name__)


def complete(directory: Path, result: TrialResult, download: Callable[[str, Path], object]) -> None:
    """Download a trial's uploaded files that its folder lacks; warn of those that were changed.

    A file of an earlier attempt, which the folder still has, is removed.

    Args:
        directory: the run's.
        result: which names the files.
        download: fetches an object of the run's archive into a file, if there is one.
    """
    folder = trial_directory(directory, result.trial_id)
    for upload in result.uploads:
        try:
            check_inside(upload.name, folder)
            check_inside(upload.key, folder)
        except ValueError as error:
            LOG.warning("%s; the result stands without it.", error)
            continue
        path = folder / upload.name
        own = upload.key.startswith(f"{ATTEMPTS}/{result.trial_id}/")
        if not own or path.is_dir() or _is_there(upload, path):
            continue
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        try:
            download(upload.key, part)
            _accept(upload, part, path)
        finally:
            part.unlink(missing_ok=True)


def _is_there(upload: UploadedFile, path: Path) -> bool:
    return path.is_file() and file_digest(path) == upload.sha256


def _accept(upload: UploadedFile, part: Path, path: Path) -> None:
    """Keep a download whose bytes are those that were uploaded."""
    if not part.exists():
        LOG.warning("%s is gone from the bucket; the result stands without it.", upload.key)
        return
    if file_digest(part) == upload.sha256:
        part.replace(path)
    else:
        LOG.warning("%s was changed in the bucket; the result stands without it.", upload.key)
