"""What the built-in configuration's own comments state: of each key, of each option of a group."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from benchorch.config.directories import builtin_directory

_KEY = re.compile(r"^(?P<indent> *)(?P<name>[\w.]+):(?P<value>.*?)(?: +#(?: (?P<comment>.*))?)?$")
_GROUP = re.compile(
    r"^  - (?P<group>[a-z_]+): (?P<option>\w+)(?: +# (?P<meaning>.*))?$", re.MULTILINE
)
_SECTION = re.compile(r"^(?P<section>[a-z_]+):(?: +# (?P<meaning>.*))?$", re.MULTILINE)
_CONTINUED = " " * 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a file that holds a value.

    Attributes:
        name: with dots.
        default: as it is written.
        meaning: its comment; empty where it has none.
    """

    name: str
    default: str
    meaning: str


@cache
def groups() -> Mapping[str, str]:
    """Each group of the root with its default option."""
    text = (builtin_directory("conf") / "config.yaml").read_text(encoding="utf-8")
    return {found["group"]: found["option"] for found in _GROUP.finditer(text)}


@cache
def meanings() -> Mapping[str, str]:
    """What the comments of the root state of each group, and of each key that holds others."""
    text = (builtin_directory("conf") / "config.yaml").read_text(encoding="utf-8")
    of_groups = {found["group"]: found["meaning"] or "" for found in _GROUP.finditer(text)}
    return of_groups | {s["section"]: s["meaning"] or "" for s in _SECTION.finditer(text)}


@cache
def root_keys() -> tuple[Key, ...]:
    """The keys of every run that belong to no group."""
    found = keys_of(builtin_directory("conf") / "config.yaml")
    return tuple(key for key in found if key.name.partition(".")[0] not in ("defaults", "hydra"))


def options(group: str) -> Mapping[str, str]:
    """The built-in options of a group, each with the comment that its file begins with."""
    files = sorted((builtin_directory("conf") / group).glob("*.yaml"))
    return {path.stem: heading(path) for path in files if path.stem[0] != "_"}


def model_like(name: str, known: Iterable[str]) -> str:
    """The model whose name a longer one begins with: ``bert-base-uncased``; empty for none."""
    plain = name.rpartition("/")[2].lower().replace("-", "_")
    found = (one for one in known if plain == one or plain.startswith(f"{one}_"))
    return max(found, key=len, default="")


def option_keys(group: str, option: str) -> tuple[Key, ...]:
    """The keys of an option, under the group's name."""
    path = builtin_directory("conf") / group / f"{option}.yaml"
    if not path.is_file():
        return ()
    return tuple(
        Key(name=f"{group}.{key.name}", default=key.default, meaning=key.meaning)
        for key in keys_of(path)
        if key.name.partition(".")[0] not in ("_target_", "defaults")
    )


def default_of(key: str, option: str = "") -> str:
    """The default of a key as it is written; empty where it has none.

    Args:
        option: of the key's group; empty for the default one.
    """
    group = key.partition(".")[0]
    keys = (*root_keys(), *option_keys(group, option or groups().get(group, "")))
    return groups().get(key) or next((one.default for one in keys if one.name == key), "")


def example(key: str, target: str) -> str:
    """A value of a required key by its comment, quoted for a shell; ``...`` where it gives none.

    Args:
        key: with dots, its group first.
        target: the class that the option configures.
    """
    group, _, name = key.partition(".")
    for path in sorted((builtin_directory("conf") / group).glob("*.yaml")):
        keys = {each.name: each for each in keys_of(path)}
        if name in keys and keys.get("_target_", keys[name]).default == target:
            text, sign, value = keys[name].meaning.partition("e.g. ")
            return shlex.quote(value) if sign and not text else "..."
    return "..."


@cache
def default_keys() -> tuple[str, ...]:
    """The dotted names of all keys that a run has by default."""
    of_groups = (
        key.name for group, option in groups().items() for key in option_keys(group, option)
    )
    return (*groups(), *(key.name for key in root_keys()), *of_groups)


def heading(path: Path) -> str:
    """The comment that a file begins with, in one line."""
    lines = takewhile(
        lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines()
    )
    return " ".join(line.removeprefix("#").strip() for line in lines)


def keys_of(path: Path) -> Iterator[Key]:
    """Each key of a file that holds a value, with its default as written and its comment."""
    found: list[list[str]] = []
    above: list[tuple[int, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            if found and line.startswith(_CONTINUED):  # a comment that goes on in its own column
                found[-1][2] += " " + line.strip().removeprefix("# ")
            continue
        if not (match := _KEY.match(line)):
            continue
        indent, value = len(match["indent"]), match["value"].strip()
        above = [entry for entry in above if entry[0] < indent]
        name = ".".join([*(parent for _, parent in above), match["name"]])
        if value:
            found.append([name, value, match["comment"] or ""])
        else:
            above.append((indent, match["name"]))
    yield from (Key(name=name, default=value, meaning=text) for name, value, text in found)
