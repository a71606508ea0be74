"""Which versions of the packages involved are installed, without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


@cache
def installed(distribution: str) -> str | None:
    """A distribution's version, or None where it is not installed."""
    import importlib.metadata  # late: a measuring process asks for no version

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(distributions: tuple[str, ...]) -> Mapping[str, str | None]:
    """Each distribution's version by its name."""
    return {name: installed(name) for name in distributions}
