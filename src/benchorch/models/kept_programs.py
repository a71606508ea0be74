"""Exported programs, bundles and saved models of live code: a folder each, named by its content."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json
from benchorch.journal.registry import state_directory

if TYPE_CHECKING:
    import torch

MOST_BYTES = 20 << 30
"""Of all programs; those that were used longest ago are removed first."""
_MOST_S, _LEAST_S = 30 * 86_400.0, 86_400.0
"""A program that was not used for a month is removed; one of the last day never."""


def programs_folder() -> Path:
    """Where this user's runs keep programs, so that a module's weights are there once."""
    return state_directory() / "captured" / "programs"


def keep_program(program: torch.export.ExportedProgram, folder: Path) -> dict[str, Json]:
    """Write a program below a folder, and remove old ones; the keys of ``model`` that name it."""
    from benchorch.frameworks.torch_program import save_program
    from benchorch.models.exported import program_digest

    program.example_inputs = None  # they would be pickled

    def write(place: Path) -> str:
        save_program(program, place)
        return program_digest(place)

    place, digest = keep(write, folder)
    return {"program": str(place), "digest": digest}


def keep(write: Callable[[Path], str], folder: Path) -> tuple[Path, str]:
    """Have a folder written below another, and remove old ones; its place and its digest.

    Args:
        write: writes into an empty folder, and returns the digest of what is in it.
        folder: the one below which each is kept.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder, prefix=".partial-"))
    try:
        digest = write(partial)
        place = folder / digest[:16]
        with suppress(OSError):  # it is there already
            partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    os.utime(place)
    remove_old(folder)
    return place, digest


def remove_old(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the programs that have not been used for 30 days, and of the others the oldest."""
    now_s, held = datetime.now(UTC).timestamp(), 0
    for used_s, size, place in sorted(_used(folder), reverse=True):
        held, age_s = held + size, now_s - used_s
        if age_s > _MOST_S or (held > most_bytes and age_s > _LEAST_S):
            shutil.rmtree(place, ignore_errors=True)


def _used(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each program was last used, its bytes, and its place."""
    for place in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has removed it meanwhile
            size = sum(file.stat().st_size for file in place.rglob("*"))
            yield place.stat().st_mtime, size, place
