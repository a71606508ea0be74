"""Reading of a bundle, which is a stranger's: bounded, compared with its digests, never run."""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.codec import decode
from benchorch.domain.estimate import Estimate
from benchorch.errors import ConfigError
from benchorch.files import ARCHIVE_DAMAGE
from benchorch.journal.chain import UNREADABLE
from benchorch.progress import Say, silent
from benchorch.results.compare.load_run import derive, stored
from benchorch.results.compare.reproduction import expectations
from benchorch.results.compare.stored_run import StoredRun
from benchorch.run.check import FAILS, check, same_figure
from benchorch.run.reproduce.bundle import (
    COPIED_BYTES,
    FILES,
    FORMAT,
    MANIFEST,
    RUN,
    SCHEMA_VERSION,
    BundleManifest,
    member,
)

_MEMBER = re.compile(
    r"""bundle\.json | README\.md | requirements\.txt | run/plan\.json | run/results\.jsonl
    | run/trials/[A-Za-z0-9_][\w.-]{0,127}/(observations\.jsonl | environment\.json | parity\.json)
    | files/[0-9a-f]{64}(\.\w{1,16})?
    """,
    re.VERBOSE | re.ASCII,
)
_MOST_MEMBERS = 100_000
_MOST_TIMES, _FREE_BYTES, _MOST_BYTES = 200, 2**26, 2**32
_MANIFEST_BYTES = 2**26
_DAMAGE = (*ARCHIVE_DAMAGE, OSError, *UNREADABLE)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A bundle whose digests and figures hold.

    Attributes:
        directory: of its run, as `run_directory` has it.
        run: the same, derived anew from the raw series.
        carried: the user's files that it holds, by the name in the trials.
    """

    manifest: BundleManifest
    directory: Path
    run: StoredRun
    carried: Mapping[str, Path]


def open_bundle(path: Path, into: Path, say: Say = silent) -> Opened:
    """Unpack and check a bundle; ConfigError for what is none, is damaged or does not hold."""
    try:
        with zipfile.ZipFile(path) as archive:
            _refuse(path, list(_problems(archive, path.stat().st_size)))
            manifest = _manifest(path, archive)
            _refuse(path, list(_unpacked(archive, manifest, into)))
    except _DAMAGE as error:
        _refuse(path, [f"it is damaged or no bundle ({str(error)[:200]})"])
    failing = [one for one in check(into / RUN, say) if one.verdict == FAILS]
    _refuse(path, [f"{one.name}: {problem}" for one in failing for problem in one.problems[:3]])
    run = stored(derive(into / RUN, str(path), say), str(path), say)
    _refuse(path, list(_unfounded(manifest, run)))
    return Opened(
        manifest=manifest, directory=into / RUN, run=run, carried=_carried(manifest, into)
    )


def is_bundle(path: Path) -> bool:
    """Whether a file may be one, by its first bytes."""
    return path.is_file() and zipfile.is_zipfile(path)


def _refuse(path: Path, problems: list[str]) -> None:
    if problems:
        raise ConfigError([f"{path} cannot be reproduced: {one}." for one in problems[:10]])


def _problems(archive: zipfile.ZipFile, size_bytes: int) -> Iterator[str]:
    """What the directory of the archive shows, before anything of it is read."""
    members = archive.infolist()
    names = [member.filename for member in members]
    if len(names) > _MOST_MEMBERS:
        yield f"it has {len(names)} files, of at most {_MOST_MEMBERS}"
    if len({name.casefold() for name in names}) < len(names):
        yield "two of its files have one name"
    strange = [name for name in names if not _MEMBER.fullmatch(name)]
    yield from (f"it holds {name[:80]!r}" for name in strange[:5])
    carried = [one for one in members if one.filename.startswith(f"{FILES}/")]
    total = sum(member.file_size for member in members)
    plain = sum(member.file_size for member in carried)
    most = min(_MOST_BYTES, _MOST_TIMES * size_bytes + _FREE_BYTES)
    if total - plain > most or plain > size_bytes:  # what is carried is not compressed
        yield f"its {size_bytes} bytes expand to {total}"


def _manifest(path: Path, archive: zipfile.ZipFile) -> BundleManifest:
    if MANIFEST not in archive.namelist():
        _refuse(path, [f"it has no {MANIFEST}"])
    if archive.getinfo(MANIFEST).file_size > _MANIFEST_BYTES:
        _refuse(path, [f"its {MANIFEST} is larger than {_MANIFEST_BYTES} bytes"])
    manifest = decode(BundleManifest, json.loads(archive.read(MANIFEST)))
    if (manifest.format, manifest.schema_version) != (FORMAT, SCHEMA_VERSION):
        what = f"{manifest.format!r}, schema {manifest.schema_version}"
        _refuse(path, [f"it is {what}; this version reads {FORMAT!r}, schema {SCHEMA_VERSION}"])
    return manifest


def _unpacked(archive: zipfile.ZipFile, manifest: BundleManifest, into: Path) -> Iterator[str]:
    """Write every member out; what is not as its digest says."""
    names = set(archive.namelist()) - {MANIFEST}
    for name in sorted(names ^ set(manifest.digests)):
        yield f"{name[:80]!r} is missing, or {MANIFEST} does not know it"
    for name in sorted(names & set(manifest.digests)):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        with archive.open(name) as packed, (into / name).open("wb+") as file:
            shutil.copyfileobj(packed, file, COPIED_BYTES)
            file.seek(0)
            if hashlib.file_digest(file, "sha256").hexdigest() != manifest.digests[name]:
                yield f"{name} does not have its digest"


def _carried(manifest: BundleManifest, into: Path) -> dict[str, Path]:
    """The files whose member has the digest that the trials' file had."""
    members = {name: member(name, digest) for name, digest in manifest.files.items()}
    return {
        name: into / members[name]
        for name, digest in manifest.files.items()
        if manifest.digests.get(members[name]) == digest
    }


def _unfounded(manifest: BundleManifest, run: StoredRun) -> Iterator[str]:
    """Figures that are announced and do not follow from the raw series, or are left out."""
    again = expectations(run.trials)
    if set(again) != set(manifest.trials):
        yield f"{MANIFEST} is about other trials than the plan"
        return
    for trial_id, stated in manifest.trials.items():
        yield from _other_figures(trial_id, stated.figures, again[trial_id])


def _other_figures(
    trial_id: str, stated: Mapping[str, Estimate], again: Mapping[str, Estimate]
) -> Iterator[str]:
    for name in sorted({*stated, *again}):
        if name not in stated or name not in again:
            yield f"trial {trial_id}: {name} is announced or measured, not both"
            continue
        first, second = ((one.value, one.low, one.high) for one in (stated[name], again[name]))
        if not all(map(same_figure, first, second)):
            yield f"trial {trial_id}: {name} is announced as {first}, its series give {second}"
