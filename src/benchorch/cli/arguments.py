"""Parsing of a run's arguments: a recipe, directories, Hydra's flags, and overrides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.errors import ConfigError
from benchorch.models import trust

ALLOW_SKIPS = "--allow-skips"
_MULTIRUN = ("-m", "--multirun")
# Hydra's flags whose value is the next word.
_FLAGS_WITH_VALUE = frozenset({"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--info"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A parsed command line.

    Attributes:
        config_name: the primary config: ``config``, or a recipe's name.
        directories: the user's, which come before the built-in ones.
        flags: Hydra's.
        overrides: ``key=value``.
        resume: the run to resume, as its user calls it; None for a new one.
        allow_skips: whether requested conversions that cannot run leave the exit code at 0.
    """

    config_name: str
    directories: tuple[Path, ...]
    flags: tuple[str, ...]
    overrides: tuple[str, ...]
    resume: str | None = None
    allow_skips: bool = False

    @property
    def multirun(self) -> bool:
        """Whether comma-separated values are to be crossed."""
        return bool(set(_MULTIRUN) & set(self.flags))

    @property
    def foreign_flags(self) -> list[str]:
        """Flags of Hydra's that request something else than a run."""
        return sorted(set(self.flags) - set(_MULTIRUN))


def is_recipe(word: str) -> bool:
    """Whether an argument names a recipe's file, existing or not."""
    return word.endswith(".yaml") and "=" not in word


def is_script(word: str) -> bool:
    """Whether an argument names a script, a notebook or a model's file, as ``script`` takes."""
    return Path(word.partition("::")[0]).suffix in (".py", ".ipynb", ".onnx", ".pt2")


def parse(arguments: Sequence[str]) -> Request:
    """Parse a command line; ConfigError for a recipe or directory that does not exist."""
    directories: list[Path] = []
    flags: list[str] = []
    overrides: list[str] = []
    config_name, resume, allow_skips = "config", None, False
    rest, _ = trust.split(arguments)
    while rest:
        word = rest.pop(0)
        if is_recipe(word):
            if config_name != "config":
                raise ConfigError([f"{word}: one recipe at a time; {config_name} is given too."])
            recipe = _find_recipe(word)
            directories.append(recipe.parent)
            config_name = recipe.stem
        elif word in ("--config-dir", "-cd") or word.startswith("--config-dir="):
            directories.append(_directory(word.partition("=")[2] or (rest.pop(0) if rest else "")))
        elif word in ("--config-name", "-cn") or word.startswith("--config-name="):
            config_name = word.partition("=")[2] or (rest.pop(0) if rest else "config")
        elif word.startswith("resume=") and word != "resume=null":
            resume = word.partition("=")[2]
        elif word == ALLOW_SKIPS:
            allow_skips = True
        elif word.startswith("-"):
            flags.append(word)
            if word in _FLAGS_WITH_VALUE and rest:
                flags.append(rest.pop(0))
        else:
            overrides.append(word)
    return Request(
        config_name=config_name,
        directories=tuple(directories),
        flags=tuple(flags),
        overrides=tuple(overrides),
        resume=resume,
        allow_skips=allow_skips,
    )


def _find_recipe(word: str) -> Path:
    from benchorch.config.components import suggest
    from benchorch.config.directories import builtin_directory

    for path in (Path(word), builtin_directory("recipes").parent / word):
        if path.is_file():
            return _checked_place(path.resolve())
    parent = Path(word).parent
    folder = parent if parent.is_dir() else builtin_directory("recipes")
    names = sorted(path.name for path in folder.glob("*.y*ml"))
    raise ConfigError(
        [f"There is no recipe {word}.{suggest(Path(word).name, names)} In {folder}: {names}."]
    )


def _checked_place(recipe: Path) -> Path:
    """The recipe; ConfigError where a file beside it would replace benchorch's root config."""
    root = recipe.parent / "config.yaml"
    if recipe == root:
        raise ConfigError(
            [f"{recipe}: a recipe needs another name; config is benchorch's own root."]
        )
    if root.exists():
        raise ConfigError(
            [
                f"{root} would take the place of benchorch's own config, on which {recipe.name} "
                "builds. Rename it, or move the recipe to a directory of its own."
            ]
        )
    return recipe


def _directory(text: str) -> Path:
    path = Path(text)
    if not text or not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        raise ConfigError([f"--config-dir: there is no directory {text!r}."])
    return path.resolve()
