"""Parsing of a run's arguments: a recipe, directories, flags, and overrides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.cli.mistakes import FLAGS_WITH_VALUE, recipe_called, refuse_mistakes
from benchorch.config.directories import RECIPES, builtin_directory, known_recipes
from benchorch.config.overrides import quoted
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.models import trust
from benchorch.models.script_files import SCRIPT_SUFFIXES

ALLOW_SKIPS = "--allow-skips"
EXIT_FIRST = ("-x", "--exitfirst")
ONLY = "--only"
_MULTIRUN = ("-m", "--multirun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A parsed command line.

    Attributes:
        config_name: the primary config: ``config``, or a recipe's name.
        directories: the user's, which come before the built-in ones.
        flags: Hydra's.
        overrides: ``key=value``.
        recipe: the recipe's file.
        resume: the run to resume, as its user calls it; None for a new one.
        allow_skips: whether requested conversions that cannot run leave the exit code at 0.
        exit_first: whether the first failure ends the run.
        only: patterns of the conversions or trials to run; all where there is none.
    """

    config_name: str
    directories: tuple[Path, ...]
    flags: tuple[str, ...]
    overrides: tuple[str, ...]
    recipe: Path | None = None
    resume: str | None = None
    allow_skips: bool = False
    exit_first: bool = False
    only: tuple[str, ...] = ()

    @property
    def multirun(self) -> bool:
        """Whether comma-separated values are to be crossed."""
        return bool(set(_MULTIRUN) & set(self.flags))

    @property
    def is_bare(self) -> bool:
        """Whether only switches are given, such as ``-m``, which describe nothing."""
        named = self.overrides or self.directories or self.only or self.resume
        return not (named or self.foreign_flags or self.config_name != "config")

    @property
    def foreign_flags(self) -> list[str]:
        """Flags of Hydra's that request something else than a run."""
        return sorted(set(self.flags) - set(_MULTIRUN))

    def extends(self, overrides: Sequence[str]) -> bool:
        """Whether a recipe or a model names trials that a resumed plan may lack."""
        from benchorch.run.resumed_settings import names_trials

        return self.config_name != "config" or names_trials(overrides)


def is_recipe(word: str) -> bool:
    """Whether an argument names a recipe's file, existing or not."""
    return word.endswith(RECIPES) and "=" not in word


def is_script(word: str) -> bool:
    """Whether an argument names a script, a notebook or a model's file, as ``script`` takes."""
    return Path(word.partition("::")[0]).suffix in SCRIPT_SUFFIXES


def parse(arguments: Sequence[str], command: str = "run") -> Request:
    """Parse a run's words; ConfigError for what is none, with the line that was probably meant.

    Args:
        command: that the words are given to.
    """
    directories: list[Path] = []
    flags: list[str] = []
    overrides: list[str] = []
    only: list[str] = []
    config_name, recipe, resume = "config", None, None
    allow_skips = exit_first = False
    rest, _ = trust.split(arguments)
    refuse_mistakes(rest, command)
    while rest:
        word = rest.pop(0)
        name, sign, value = word.partition("=")
        if is_recipe(word):
            if recipe is not None:
                problem = f"{word}: one recipe at a time; {recipe.name} is given too."
                raise ConfigError([Problem(problem, Correction(typed=word))])
            recipe = _find_recipe(word)
            directories.append(recipe.parent)
            config_name = recipe.stem
        elif name in ("--config-dir", "-cd"):
            directories.append(_directory(value if sign else _next(rest)))
        elif name in ("--config-name", "-cn"):
            config_name = (value if sign else _next(rest)) or "config"
        elif name == ONLY:
            only += _patterns(value if sign else _next(rest))
        elif name == "resume" and sign and value != "null":
            resume = value
        elif word == ALLOW_SKIPS:
            allow_skips = True
        elif word in EXIT_FIRST:
            exit_first = True
        elif word in FLAGS_WITH_VALUE and rest:
            flags += [word, rest.pop(0)]
        elif word.startswith("-"):
            flags.append(word)
        else:
            overrides.append(quoted(word))
    _check_config_name(config_name, directories)
    return Request(
        config_name=config_name,
        directories=tuple(directories),
        flags=tuple(flags),
        overrides=tuple(overrides),
        recipe=recipe,
        resume=resume,
        allow_skips=allow_skips,
        exit_first=exit_first,
        only=tuple(only),
    )


def _check_config_name(name: str, directories: Sequence[Path]) -> None:
    """ConfigError for a primary config that no directory holds."""
    places = [*directories, builtin_directory("conf")]
    if any((place / f"{name}{suffix}").is_file() for place in places for suffix in RECIPES):
        return
    problem = f"--config-name: no --config-dir holds {name}.yaml. A recipe is given by its file."
    recipe = recipe_called(name)
    added = [recipe] if recipe else []
    raise ConfigError([Problem(problem, Correction(typed=name, added=added))])


def _next(rest: list[str]) -> str:
    return rest.pop(0) if rest else ""


def _patterns(text: str) -> list[str]:
    """The patterns that a value of ``--only`` lists; ConfigError for none, which chose all."""
    found = [*filter(None, text.split(","))]
    if not found:
        raise ConfigError([f"{ONLY}: expected a conversion or the name of a trial, got {text!r}."])
    return found


def _find_recipe(word: str) -> Path:
    from benchorch.config.components import nearest

    for path in (Path(word), builtin_directory("recipes").parent / word):
        if path.is_file():
            return _checked_place(path.resolve())
    known = [str(path) for path in known_recipes(Path(word).parent)]
    same_name = [one for one in known if Path(one).name == Path(word).name]
    by_stem = {Path(one).stem: one for one in reversed(known)}
    near = same_name[0] if same_name else by_stem.get(nearest(Path(word).stem, by_stem))
    meant = f" Did you mean {near!r}?" if near else ""
    here = [one for one in known if Path(one).is_file()]
    listed = "" if meant else f" Recipes: {', '.join(here or known)}."
    correction = Correction(typed=word, meant=near or known[0])
    what = f"{word!r} is a folder" if os.path.isdir(word) else f"there is no recipe {word!r}"  # noqa: PTH112 - Path.is_dir raises for long names
    raise ConfigError([Problem(f"{what}.{meant}{listed}", correction)])


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
    if recipe.suffix == ".yml" and recipe.with_suffix(".yaml").exists():
        beside = f"{recipe.stem}.yaml"
        problem = (
            f"{recipe.name!r} and {beside!r} are beside each other; rename one of them. "
            f"Did you mean {beside!r}?"
        )
        raise ConfigError([Problem(problem, Correction(typed=recipe.name, meant=beside))])
    return recipe


def _directory(text: str) -> Path:
    path = Path(text)
    if not text or not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        here = ", ".join(sorted(one.name for one in Path().iterdir() if one.is_dir())[:10])
        problem = f"--config-dir: there is no directory {text!r}. Directories: {here or 'none'}."
        raise ConfigError([Problem(problem, Correction(typed=text))])
    return path.resolve()
