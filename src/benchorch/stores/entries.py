"""Facts about an entry on disk, readable or not."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import StoreError
from benchorch.files import read_small
from benchorch.interfaces.store import Entry
from benchorch.stores.manifest import (
    QUARANTINED,
    CorruptEntry,
    Manifest,
    now,
    read_manifest,
    to_entry,
)

QUARANTINE = "quarantine"
REASON = "reason.json"


def entry_at(directory: Path) -> Entry:
    """The entry in a directory; one without a sensible manifest counts as quarantined."""
    key = key_of(directory)
    try:
        manifest = read_manifest(directory)
    except CorruptEntry as error:
        manifest = unreadable(key, str(error))
    if directory.parent.name == QUARANTINE:
        note = b""
        with suppress(OSError):
            note = read_small(directory / REASON)
        reason, at = parse_reason(note)
        manifest = replace(
            manifest,
            key=key,
            state=QUARANTINED,
            detail=reason,
            created_at=manifest.created_at or at,
        )
    return to_entry(manifest, directory)


def unreadable(key: str, detail: str, created_at: str = "") -> Manifest:
    """Substitute for an unreadable manifest."""
    return Manifest(
        key=key,
        name="(unreadable)",
        format=Format.MODULE,  # no artifact is ever a live module, so it stands for an unknown one
        fields={},
        created_at=created_at,
        state=QUARANTINED,
        detail=detail,
    )


def quarantine_note(reason: str) -> dict[str, Json]:
    """The content of a quarantined entry's `REASON`."""
    return {"reason": reason, "at": now()}


def parse_reason(data: bytes) -> tuple[str, str]:
    """Why and when an entry was quarantined, from the content of its `REASON`."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        note = json.loads(data)
        return str(note["reason"]), str(note["at"])
    return "the reason was not recorded", ""


def key_of(directory: Path) -> str:
    """The key that an entry's directory is named after."""
    return directory.name.partition("-")[0]


def is_key(text: str) -> bool:
    """Whether it is a SHA-256 in hexadecimal digits; nothing else may become part of a path."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def check_key(key: str) -> str:
    """The key itself; StoreError for anything else."""
    if not is_key(key):
        raise StoreError(f"{key!r} is not a key: expected 64 hexadecimal digits.")
    return key
