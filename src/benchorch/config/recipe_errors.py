"""Mistakes of a recipe: all at once, each with its line and column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.config.components import suggest
from benchorch.config.overrides import EACH, MATRIX, NOT_OVERRIDES, spelled
from benchorch.config.yaml_limits import check_yaml
from benchorch.config.yaml_places import located, shortest
from benchorch.errors import ConfigError

if TYPE_CHECKING:
    from yaml import Node

    from benchorch.config.composer import Composer

DEFAULTS = "defaults"
_START = "a recipe begins with defaults: [config, override model: NAME, _self_]"
_WORDS = ("_self_", "config", "optional")


def check_file(path: Path) -> None:
    """ConfigError for a file that holds no recipe, whatever the configuration is."""
    check_yaml(path)
    root = _root(path)
    if root is None:
        raise ConfigError([f"{shortest(path)}: is empty; {_START}."])
    pairs = _pairs(root)
    if pairs is None:
        raise ConfigError([located(path, root.start_mark, f"expected keys with values; {_START}.")])
    problems = []
    for key, _ in pairs:
        if key.tag != "tag:yaml.org,2002:str":
            what = f"a key is text, not {key.value!r}; quote it."
            problems.append(located(path, key.start_mark, what))
    if not problems and DEFAULTS not in {key.value for key, _ in pairs}:
        problems.append(located(path, root.start_mark, f"there is no defaults list; {_START}."))
    problems += [] if problems else _without_self(path, pairs)
    if problems:
        raise ConfigError(problems)


def _without_self(path: Path, pairs: Sequence[tuple[Node, Node]]) -> Iterator[str]:
    """A defaults list by which Hydra would let the options win over the recipe's own keys."""
    for key, value in pairs:
        is_list = isinstance(value.value, list) and _pairs(value) is None
        entries = value.value if is_list else []
        if (
            key.value == DEFAULTS
            and len(pairs) > 1
            and not any(e.value == "_self_" for e in entries)
        ):
            what = f"_self_ is missing at its end, so the recipe's keys would not count; {_START}."
            yield located(path, value.start_mark, what)


def recipe_problems(path: Path, composer: Composer) -> list[str]:
    """Each mistake of a recipe that composing it by itself cannot place.

    Args:
        path: of a file that `check_file` has let pass.
        composer: of the root configuration, with the same directories.
    """
    root = _root(path)
    assert root is not None  # it has passed
    found = [
        (node, problem)
        for key, value in _pairs(root) or ()
        for node, problem in _of_key(key, value, composer)
    ]
    return [located(path, node.start_mark, problem) for node, problem in found]


def _of_key(key: Node, value: Node, composer: Composer) -> Iterator[tuple[Node, str]]:
    if key.value == DEFAULTS:
        for entry in value.value if isinstance(value.value, list) else ():
            yield from _of_default(entry, composer)
    elif key.value == MATRIX:
        for axis, values in _axes(value):
            yield from _of_axis(axis, values, composer)
    elif key.value == EACH:
        yield from _of_each(value, composer)
    elif key.value != "hydra":  # which reports its own mistakes
        yield from _of_section(key, value, composer.session([]))


def _of_each(value: Node, composer: Composer) -> Iterator[tuple[Node, str]]:
    is_list = isinstance(value.value, list) and _pairs(value) is None
    entries = value.value if is_list else [value] if value.value else []
    for entry in entries:
        if is_list and isinstance(entry.value, str):
            yield from ((entry, text) for text in composer.problems([entry.value], sweep=False))
        elif entry.tag != "tag:yaml.org,2002:null":
            yield entry, NOT_OVERRIDES


def _of_default(entry: Node, composer: Composer) -> Iterator[tuple[Node, str]]:
    """An entry of the defaults list: its group, and the option of it."""
    for key, value in _pairs(entry) or ():
        group = str(key.value).removeprefix("override ").strip().lstrip("/")
        if group.startswith("hydra"):
            continue
        if group not in composer.groups:
            known = sorted(composer.groups)
            meant = suggest(group, known)
            yield key, f"there is no group {group!r}.{meant} Groups: {', '.join(known)}."
        elif isinstance(value.value, str) and value.value != "null":
            words = [f"{group}={spelled(value.value)}"]
            yield from ((value, text) for text in composer.problems(words, sweep=False))


def _of_axis(axis: str, values: Node, composer: Composer) -> Iterator[tuple[Node, str]]:
    if not isinstance(values.value, list):
        yield values, f"{MATRIX}.{axis}: expected a list of values, got {values.value!r}."
        return
    if not values.value:
        yield values, f"{MATRIX}.{axis}: is empty, so there is nothing to run."
    told: set[str] = set()  # of an unknown key once, not for each value
    for value in values.value:
        if isinstance(value.value, str):
            found = composer.problems([f"{axis}={spelled(value.value)}"], sweep=False)
            yield from ((value, text) for text in found if text not in told)
            told.update(found)


def _of_section(
    key: Node, value: Node, base: Mapping[str, object], above: Sequence[str] = ()
) -> Iterator[tuple[Node, str]]:
    """A key that is unknown, or those below it that are."""
    name = str(key.value)
    if name not in base:
        dotted = ".".join((*above, name))
        yield key, f"{dotted}: unknown key.{suggest(name, base)} Keys here: {', '.join(base)}."
        return
    inner = base[name]
    # What chooses among classes has keys of its own.
    if isinstance(inner, Mapping) and inner and "_target_" not in inner:
        for one, below in _pairs(value) or ():
            yield from _of_section(one, below, inner, (*above, name))


def _axes(node: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """``workload.batch_size`` whether written with a dot or as nested mappings."""
    for key, value in _pairs(node) or ():
        name = f"{prefix}{key.value}"
        if _pairs(value) is not None:
            yield from _axes(value, f"{name}.")
        else:
            yield name, value


def _root(path: Path) -> Node | None:
    import yaml

    return yaml.compose(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _pairs(node: Node) -> Sequence[tuple[Node, Node]] | None:
    """The keys and values of a mapping; None for anything else."""
    from yaml import MappingNode

    return node.value if isinstance(node, MappingNode) else None
