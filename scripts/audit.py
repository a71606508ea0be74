"""Known vulnerabilities of the packages of this environment, without the network.

    python scripts/audit.py --database all.zip

The database is OSV's of PyPI: a zip file or a folder of advisories as JSON, from
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip. Exit status: 0 none is known, 1
some are, 2 the database cannot be read.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Packages = Mapping[str, Version]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """A known vulnerability of an installed package.

    Attributes:
        name: of the package.
        version: that is installed.
        advisory: OSV's id, and the CVE's where it has one.
        fixed: the first version without it, or ``none``.
    """

    name: str
    version: str
    advisory: str
    fixed: str


def main(words: list[str] | None = None) -> int:
    """Print every finding as a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--database", type=Path, required=True, help="zip file or folder")
    database = parser.parse_args(words).database
    packages = installed()
    try:
        found, advisories = findings(read(database), packages)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as error:
        print(f"{database} is no database of advisories: {error!r}", file=sys.stderr)
        return 2
    if not advisories:
        print(f"{database} has no advisory of PyPI: expected OSV's JSON files", file=sys.stderr)
        return 2
    rows = [("package", "version", "advisory", "fixed in")] if found else []
    rows += [(each.name, each.version, each.advisory, each.fixed) for each in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(f"{len(packages)} packages, PyPI advisories: {advisories}, found: {len(found)}")
    return int(bool(found))


def installed() -> dict[str, Version]:
    """Every package here by its normal name; a build's own mark (``+cpu``) is left out."""
    found = {}
    for each in importlib.metadata.distributions():
        name = each.metadata["Name"]
        if not name:  # a folder that an uninstallation left
            continue
        try:
            found.setdefault(canonicalize_name(name), Version(Version(each.version).public))
        except InvalidVersion:
            print(f"{name} is left out: its version {each.version} has no order", file=sys.stderr)
    return found


def read(database: Path) -> Iterator[dict[str, Any]]:
    """Every advisory of a zip file or a folder."""
    if database.is_dir():
        for path in sorted(database.rglob("*.json")):
            yield json.loads(path.read_bytes())
        return
    with ZipFile(database) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def findings(
    advisories: Iterable[Mapping[str, Any]], packages: Packages
) -> tuple[list[Finding], int]:
    """What is known of these packages, sorted, and how many advisories there are of PyPI.

    A vulnerability that several databases describe is found once.
    """
    found, known, count = [], set(), 0
    for advisory in advisories:
        affected = [each for each in advisory.get("affected", ()) if _is_python(each)]
        count += bool(affected)
        if advisory.get("withdrawn"):
            continue
        aliases = [advisory["id"], *advisory.get("aliases", ())]
        for each in affected:
            name = canonicalize_name(each["package"]["name"])
            if name not in packages or not is_affected(each, packages[name]):
                continue
            if known.isdisjoint((name, alias) for alias in aliases):
                found.append(_finding(name, packages[name], aliases, each))
            known.update((name, alias) for alias in aliases)
    return sorted(found), count


def _is_python(affected: Mapping[str, Any]) -> bool:
    return bool(affected.get("package", {}).get("ecosystem") == "PyPI")


def _finding(
    name: str, version: Version, aliases: list[str], affected: Mapping[str, Any]
) -> Finding:
    cve = next((f" ({alias})" for alias in aliases[1:] if alias.startswith("CVE-")), "")
    later = [Version(text) for text in _events(affected, "fixed") if _later(text, version)]
    fixed = str(min(later)) if later else "none"
    return Finding(name=name, version=str(version), advisory=aliases[0] + cve, fixed=fixed)


def _events(affected: Mapping[str, Any], kind: str) -> Iterator[str]:
    for span in _spans(affected):
        yield from (event[kind] for event in span["events"] if kind in event)


def _later(text: str, version: Version) -> bool:
    try:
        return Version(text) > version
    except InvalidVersion:
        return False


def _spans(affected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Ranges of versions; those of commits say nothing of a package."""
    return [span for span in affected.get("ranges", ()) if span["type"] != "GIT"]


def is_affected(affected: Mapping[str, Any], version: Version) -> bool:
    """Whether OSV's algorithm counts the version: https://ossf.github.io/osv-schema/#evaluation."""
    listed = affected.get("versions", ())
    if any(_same(text, version) for text in listed):
        return True
    try:
        return any(_within(span["events"], version) for span in _spans(affected))
    except InvalidVersion:
        return not listed  # what cannot be compared is reported where nothing else decides


def _same(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:
        return False


def _within(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """Whether the last event up to this version introduces the vulnerability."""
    inside = False
    for at, kind in sorted((Version(text), kind) for each in events for kind, text in each.items()):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


if __name__ == "__main__":
    sys.exit(main())
