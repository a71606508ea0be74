"""Install fake distributions into a site-packages folder, as an installer would leave them.

Nothing is downloaded and nothing is built: a distribution is a mapping from a path below
site-packages to its text. What is written has METADATA, WHEEL, INSTALLER, RECORD with correct
hashes, and where asked for top_level.txt, entry_points.txt and direct_url.json.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path


def normalized(name: str) -> str:
    """The name as it stands in the name of the .dist-info folder."""
    return re.sub(r"[-_.]+", "_", name).lower()


def recorded(data: bytes) -> tuple[str, str]:
    """Hash and size of a file as RECORD spells them."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}", str(len(data))


def forget_bytecode(folder: Path) -> None:
    """Remove compiled files, so that an edit within the same second is not overlooked."""
    for cache in sorted(folder.rglob("__pycache__")):
        shutil.rmtree(cache, ignore_errors=True)


def dist_info(site: Path, name: str) -> Path | None:
    """The .dist-info folder of an installed distribution."""
    found = sorted(site.glob(f"{normalized(name)}-*.dist-info"))
    return found[0] if found else None


def uninstall(site: Path, name: str) -> None:
    """Remove what RECORD names, and the folders which that leaves empty."""
    info = dist_info(site, name)
    if info is None:
        return
    forget_bytecode(site)
    with (info / "RECORD").open(newline="", encoding="utf-8") as handle:
        paths = [site / row[0] for row in csv.reader(handle) if row]
    for path in paths:
        path.unlink(missing_ok=True)
    for parent in sorted({parent for path in paths for parent in path.parents}, reverse=True):
        inside = parent != site and site in parent.parents
        if inside and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def install(
    site: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    top_level: Sequence[str] | None = None,
    requires: Sequence[str] = (),
    entry_points: str = "",
    direct_url: Mapping[str, object] | None = None,
    installer: str = "pip",
) -> None:
    """Install a distribution; an installed one of the same name is removed before."""
    uninstall(site, name)
    site.mkdir(parents=True, exist_ok=True)
    info = f"{normalized(name)}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {other}" for other in requires]
    content = dict(files)
    content[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{info}/INSTALLER"] = f"{installer}\n"
    if top_level is not None:
        content[f"{info}/top_level.txt"] = "".join(f"{entry}\n" for entry in top_level)
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points
    if direct_url is not None:
        content[f"{info}/direct_url.json"] = json.dumps(direct_url)
    rows = []
    for relative, text in content.items():
        path = site / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(data)
        rows.append((relative, *recorded(data)))
    rows.append((f"{info}/RECORD", "", ""))
    with (site / info / "RECORD").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle, lineterminator="\n").writerows(rows)


def install_editable(
    site: Path, name: str, version: str, source: Path, *, packages: Sequence[str], finder: bool
) -> None:
    """Install a source tree in place: by a path in a .pth file, or by an import hook."""
    stem = f"__editable___{normalized(name)}_{version.replace('.', '_')}"
    if finder:
        mapping = {package: str(source / package) for package in packages}
        files = {
            f"{stem}_finder.py": EDITABLE_FINDER.replace("{mapping}", repr(mapping)),
            f"__editable__.{normalized(name)}-{version}.pth": (
                f"import {stem}_finder; {stem}_finder.install()\n"
            ),
        }
    else:
        files = {f"__editable__.{normalized(name)}-{version}.pth": f"{source}\n"}
    url = {"dir_info": {"editable": True}, "url": source.as_uri()}
    install(site, name, version, files, top_level=packages, direct_url=url)


EDITABLE_FINDER = """\
import sys
from importlib.util import spec_from_file_location

MAPPING = {mapping}


class Finder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname not in MAPPING:
            return None
        folder = MAPPING[fullname]
        return spec_from_file_location(
            fullname, folder + "/__init__.py", submodule_search_locations=[folder]
        )


def install():
    if Finder not in sys.meta_path:
        sys.meta_path.append(Finder)
"""


def install_egg(site: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """Install as setup.py did: an .egg-info folder without hashes."""
    forget_bytecode(site)
    info = site / f"{normalized(name)}.egg-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "PKG-INFO").write_text(f"Metadata-Version: 1.1\nName: {name}\nVersion: {version}\n")
    (info / "top_level.txt").write_text("".join(sorted({f.split("/")[0] + "\n" for f in files})))
    (info / "SOURCES.txt").write_text("".join(f"{path}\n" for path in files))
    for relative, text in files.items():
        path = site / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def patch(site: Path, relative: str, old: str, new: str) -> None:
    """Edit one installed file by hand: neither the version nor RECORD changes."""
    path = site / relative
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise ValueError(f"{relative} does not contain {old!r}")
    path.write_text(text.replace(old, new), encoding="utf-8")
    forget_bytecode(site)
