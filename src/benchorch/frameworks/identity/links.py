"""Content of the code of a chain's link, as one short text."""

import sys
from functools import lru_cache
from pathlib import Path

from benchorch.domain.artifact import digest_of
from benchorch.frameworks.identity.code import file_syntax_digest
from benchorch.frameworks.identity.distributions import DIGITS, installed
from benchorch.frameworks.identity.owners import BENCHORCH, USER, FileOwners


@lru_cache(maxsize=64)
def link_code(kind: type) -> str | None:
    """The package of a link's class with its content, or a digest of the user's own files.

    Those are the Python files of its top-level package, or the one file of its module. None for
    benchorch's own, which state their version.
    """
    owner = FileOwners().of_module(kind.__module__)
    if owner == BENCHORCH:
        return None
    if not isinstance(owner, str):
        return f"{owner.name} {installed((owner.name,))[owner.name]}"
    return _digest(kind.__module__) if owner == USER else None


def _digest(module: str) -> str | None:
    top = sys.modules.get(module.partition(".")[0])
    folders = [Path(folder) for folder in getattr(top, "__path__", ())]
    found = {
        file.relative_to(folder).as_posix(): file_syntax_digest(file)
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
    }
    single = getattr(sys.modules.get(module), "__file__", None)
    if not folders and single:
        found = {Path(single).name: file_syntax_digest(Path(single))}
    return digest_of(dict(found))[:DIGITS] if found else None
