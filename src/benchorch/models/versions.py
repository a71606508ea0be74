"""Installed releases of packages, without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


@cache
def installed(distribution: str) -> str | None:
    """A distribution's release, or None where it is not installed."""
    import importlib.metadata  # late: a measuring process asks for no version

    from benchorch.host.environment import release

    try:
        return release(importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(distributions: tuple[str, ...]) -> Mapping[str, str | None]:
    """Each distribution's release by its name: weights are the same with and without CUDA."""
    return {name: installed(name) for name in distributions}
