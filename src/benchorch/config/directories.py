"""Directories of the built-in configuration, recipes and locks."""

from pathlib import Path


def builtin_directory(name: str) -> Path:
    """``conf``, ``recipes`` or ``infra``: in an installed wheel, else at the repository's root."""
    package = Path(__file__).parents[1]
    installed = package / name
    return installed if installed.is_dir() else package.parent.parent / name
