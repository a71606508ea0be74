"""Native libraries of the user's, which read files and variables unheard."""

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from benchorch.frameworks.identity.code import file_names
from benchorch.frameworks.identity.distributions import mapped_files
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.stacks import kind_of

_SYSTEM_LIBRARIES = (
    *("/lib", "/usr/lib", "/usr/local/lib", "/usr/local/cuda"),
    *(f"{sys.prefix}/lib", f"{sys.base_prefix}/lib"),
)
_LARGEST_LIBRARY_BYTES = 32 * 2**20
_TEXT = re.compile(rb"[\x20-\x7e]{3,200}(?=\x00)")
_VARIABLE = re.compile(r"[A-Z]{2,}[A-Z0-9_]+")
_OF_INDUCTOR = re.compile(r"c[a-z2-7]{50,52}(?:\.\w+)*\.so")
"""Names that Inductor gives what it compiled, after the content, wherever its cache is."""


def users_libraries() -> Iterator[str]:
    """Native files of the user's that this process has mapped; compiled kernels read nothing."""
    for name in mapped_files():
        file = Path(name).name
        is_others = name.startswith(_SYSTEM_LIBRARIES) or _OF_INDUCTOR.fullmatch(file)
        if ".so" in file and not is_others and kind_of(name) == USER:
            yield name


def named_by_library(library: str) -> tuple[list[str], list[str]]:
    """Variables and files that a native file may read, as it holds their names."""
    try:
        status = os.stat(library)
    except OSError:
        return [], []
    texts = _texts(library, status.st_ino, status.st_size, status.st_mtime_ns)
    folders = (Path.cwd(), Path(library).parent)
    places = (str(folder / name) for name in file_names(texts) for folder in folders)
    return [*filter(_VARIABLE.fullmatch, texts)], [*filter(os.path.isfile, places)]


@lru_cache(maxsize=64)
def _texts(library: str, inode: int, size: int, time_ns: int) -> tuple[str, ...]:
    del inode, time_ns  # with which it is the same file
    if size > _LARGEST_LIBRARY_BYTES:
        return ()
    try:
        found = _TEXT.findall(Path(library).read_bytes())
    except OSError:
        return ()
    return tuple({one.decode() for one in found})
