"""What is known of an entry on the disk, be it readable or not?"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.files import write_json
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
    """What is known of an entry, be it readable or not."""
    key = key_of(directory)
    try:
        manifest = read_manifest(directory)
    except CorruptEntry as error:
        manifest = unreadable(key, str(error))
    if directory.parent.name == QUARANTINE:
        reason, at = _reason(directory)
        created_at = manifest.created_at or at
        manifest = replace(
            manifest, key=key, state=QUARANTINED, detail=reason, created_at=created_at
        )
    return to_entry(manifest, directory)


def unreadable(key: str, detail: str, created_at: str = "") -> Manifest:
    """What stands for a manifest that makes no sense."""
    return Manifest(
        key=key,
        name="(unreadable)",
        format=Format.MODULE,  # no artifact is ever a live module, so it stands for an unknown one
        fields={},
        created_at=created_at,
        state=QUARANTINED,
        detail=detail,
    )


def write_reason(directory: Path, reason: str) -> None:
    """Write down beside an entry that was set aside why it was."""
    write_json(directory / REASON, note_of(reason))


def note_of(reason: str) -> dict[str, Json]:
    """What is written down of an entry that is set aside now."""
    return {"reason": reason, "at": now()}


def reason_in(data: bytes) -> tuple[str, str]:
    """Why an entry was set aside, and when, as such a note has it."""
    with suppress(ValueError, KeyError, TypeError):
        note = json.loads(data)
        return str(note["reason"]), str(note["at"])
    return "the reason was not written down", ""


def _reason(directory: Path) -> tuple[str, str]:
    try:
        return reason_in((directory / REASON).read_bytes())
    except OSError:
        return reason_in(b"")


def key_of(directory: Path) -> str:
    """The key that an entry's directory is named after."""
    return directory.name.partition("-")[0]


def is_key(text: str) -> bool:
    """Whether it is a SHA-256 in hexadecimal digits; nothing else may become part of a path."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None
