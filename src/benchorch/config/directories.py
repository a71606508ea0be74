"""Directories of the built-in configuration, recipes and locks, and the recipes that there are."""

from collections.abc import Sequence
from pathlib import Path

RECIPES = (".yaml", ".yml")


def builtin_directory(name: str) -> Path:
    """``conf``, ``recipes`` or ``infra``: in an installed wheel, else at the repository's root."""
    package = Path(__file__).parents[1]
    installed = package / name
    return installed if installed.is_dir() else package.parent.parent / name


def option_files(folder: Path) -> dict[str, Path]:
    """The options of a group's folder with their files; of two of one name that in ``.yaml``."""
    endings = reversed(RECIPES)
    return {path.stem: path for ending in endings for path in sorted(folder.glob(f"*{ending}"))}


def group_files(directories: Sequence[Path], group: str) -> dict[str, Path]:
    """The options of a group with their files; of two directories' of one name the first one's."""
    folders = [directory / group for directory in reversed(directories)]
    return {name: path for folder in folders for name, path in option_files(folder).items()}


def known_recipes(folder: Path = Path()) -> list[Path]:
    """Recipes of a folder and of ``recipes`` here, then the built-in ones, as a user names them."""
    places = [place for place in (folder, Path("recipes")) if place.is_dir()]
    here = [path for place in places for path in sorted(place.glob("*.y*ml")) if path.is_file()]
    own = [path for path in here if path.suffix in RECIPES]
    built_in = sorted(builtin_directory("recipes").glob("*.yaml"))
    return list(dict.fromkeys([*own, *(Path("recipes", path.name) for path in built_in)]))
