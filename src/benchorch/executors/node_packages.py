"""Distributions on the nodes of a stack, by the lock that each kind of node is installed by.

The locks of ``infra/locks`` are in the wheel and in every stack's bucket; which conversions a node
can run follows from them, not from what is installed where a sweep is planned.
"""

import re
from collections.abc import Mapping
from functools import cache

from benchorch.config.directories import builtin_directory
from benchorch.config.hardware_aliases import known_names, split
from benchorch.errors import ConfigError

_LOCKED = re.compile(r"^(\w[\w.-]*)[^\n=]*(?:==([^ ;\n\\]+))?", re.MULTILINE)


@cache
def lock_name(hardware_kind: str) -> str | None:
    """The name of an EC2 type's lock, e.g. ``cuda-x86_64``; None for other hardware."""
    names = known_names()
    family, size = split(hardware_kind)
    if size is None or family not in names.kinds:
        return None
    try:
        device = names.device(family)
    except ConfigError:  # the trial itself reports it
        return None
    arch = names.node(family).get("arch")
    return f"{device}-{arch}" if arch else None


@cache
def bundled_packages(hardware_kind: str) -> Mapping[str, str] | None:
    """Versions of the distributions of this version's own lock; None where it has none."""
    name = lock_name(hardware_kind)
    path = builtin_directory("infra") / "locks" / f"{name}.txt"
    return distributions(path.read_text(encoding="utf-8")) if path.is_file() else None


def distributions(lock: str) -> Mapping[str, str]:
    """The distributions that a lock's text names, with their versions."""
    return {found[1]: found[2] or "" for found in _LOCKED.finditer(lock)}
