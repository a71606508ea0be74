"""Mistakes of a recipe: all at once, each with its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, final

from benchorch.config.components import misspelt, nearest, suggest
from benchorch.config.descriptions import default_keys, groups, options
from benchorch.config.directories import RECIPES
from benchorch.config.overrides import EACH, MATRIX, NOT_OVERRIDES, key_of, spelled
from benchorch.config.renamed_keys import current_name
from benchorch.config.yaml_limits import check_yaml
from benchorch.config.yaml_places import located, shortest, text_of_line
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import yaml_loader

if TYPE_CHECKING:
    from yaml import Node

    from benchorch.config.composer import Composer

DEFAULTS = "defaults"
_START = "a recipe begins with defaults: [config, override model: NAME, _self_]"
_INTERPOLATION = re.compile(r"(?:Interpolation key|Environment variable) '([^']+)' not found")
_MOST_VALUES = 12
"""Values of an axis that are composed by themselves: each takes a twentieth of a second."""

_MOST_TRIED, _MOST_FOUND = 50, 20
"""Values that are tried in all, and mistakes that are placed: each takes a composition."""

_EXAMPLE = """\
defaults:
  - config
  - override model: bert
  - _self_
matrix:
  conversion: [eager, onnxruntime]"""


def check_file(path: Path) -> None:
    """ConfigError for a file that holds no recipe, whatever the configuration is."""
    check_yaml(path)
    root = _root(path)
    if root is None:
        example = _EXAMPLE.replace("\n", "\n  ")
        problem = f"{shortest(path)}: is empty; {_START}.\n  {example}"
        raise ConfigError([Problem(problem, in_file=True)])
    pairs = _pairs(root)
    if pairs is None:
        what = f"expected keys with values; {_START}."
        raise ConfigError([located(path, root.start_mark, what, _EXAMPLE)])
    problems: list[str] = []
    for key, _ in pairs:
        if key.tag != "tag:yaml.org,2002:str":
            what = f"a key is text, not {key.value!r}; quote it."
            problems.append(located(path, key.start_mark, what))
    if not problems and DEFAULTS not in {key.value for key, _ in pairs}:
        what = f"there is no defaults list; {_START}."
        problems.append(located(path, root.start_mark, what, _defaults_for(pairs)))
    problems += [] if problems else _of_structure(path, pairs)
    if problems:
        raise ConfigError(problems)


def _defaults_for(pairs: Sequence[tuple[Node, Node]]) -> str:
    """A defaults list, with the model that the recipe names as a key."""
    model = {key.value: value for key, value in pairs}.get("model")
    own = {key.value for key, _ in (_pairs(model) if model else None) or ()}
    named = "factory" if "factory" in own else str(model.value) if model else ""
    meant = named if named in options("model") else "bert"
    return _EXAMPLE.partition("\nmatrix")[0].replace("bert", meant)


def _of_structure(path: Path, pairs: Sequence[tuple[Node, Node]]) -> Iterator[str]:
    """Parts that are of another kind than Hydra expects, which it reports without a place."""
    for key, value in pairs:
        if key.value == DEFAULTS:
            yield from _of_defaults(path, value, others=len(pairs) > 1)
        elif key.value == MATRIX and _pairs(value) is None and value.value:
            what = "matrix: expected axes, AXIS: [VALUE, VALUE], not a list."
            yield located(path, value.start_mark, what, "conversion: [eager, onnxruntime]")
        elif group := _group_of(key):
            yield from _of_group(path, group, key, value)


def _group_of(key: Node) -> str:
    """The group that a key of the recipe names or misspells, as ``conversions`` does, or none."""
    known = nearest(key.value, {*default_keys(), *groups()}, cutoff=0.8)
    return known if known in groups() else ""


def _of_group(path: Path, group: str, key: Node, value: Node) -> Iterator[str]:
    """A group's options as the value of its key, which holds the keys of the chosen one."""
    items = _items(value)
    listed = [value] if items is None else items
    names = [one.value for one in listed if isinstance(one.value, str) and one.value]
    if not names or len(names) < len(listed):
        return
    if items is not None or groups()[group] == "null":
        what = f"{key.value}: options to compare are an axis of the matrix."
        yield located(path, key.start_mark, what, f"{MATRIX}:\n  {group}: [{', '.join(names)}]")
    else:
        what = f"{key.value}: an option of this group is chosen in the defaults list."
        yield located(path, key.start_mark, what, f"- override {group}: {names[0]}")


def _of_defaults(path: Path, value: Node, *, others: bool) -> Iterator[str]:
    """What is wrong with a defaults list, such as that the recipe's own keys would not count."""
    entries = _items(value) or ()
    for entry in entries:
        for name, option in _pairs(entry) or ():
            yield from _of_choice(path, str(name.value), name, option)
        if isinstance(entry.value, str) and "=" in entry.value:
            what = f"{entry.value!r} is no entry: a colon parts a group and its option."
            yield located(path, entry.start_mark, what, f"- {entry.value.replace('=', ': ')}")
    names = [entry.value for entry in entries]
    if others and "_self_" in names and "config" in names[names.index("_self_") :]:
        what = f"_self_ comes before config, whose values would replace the recipe's; {_START}."
        yield located(path, value.start_mark, what, _EXAMPLE.partition("\nmatrix")[0])
    if others and "_self_" not in names:
        what = f"_self_ is missing at its end, so the recipe's keys would not count; {_START}."
        meant = _EXAMPLE.partition("\nmatrix")[0] if not entries else "- _self_"
        yield located(path, value.start_mark, what, meant)


def _of_choice(path: Path, name: str, key: Node, option: Node) -> Iterator[str]:
    """A choice that Hydra would refuse without its place, or read as another."""
    if name in groups() and isinstance(option.value, str):
        what = f"{name}: this group has a default, which 'override' replaces."
        yield located(path, key.start_mark, what, f"- override {name}: {option.value}")
    elif (items := _items(option)) is not None:
        group = name.removeprefix("override ")
        listed = ", ".join(str(one.value) for one in items)
        what = f"{group}: defaults take one option; several are an axis of the matrix."
        yield located(path, option.start_mark, what, f"{MATRIX}:\n  {group}: [{listed}]")


def recipe_problems(path: Path, composer: Composer, overrides: Sequence[str] = ()) -> list[str]:
    """Each mistake of a recipe that composing it by itself cannot place.

    Args:
        path: of a file that `check_file` has let pass.
        composer: of the root configuration, with the same directories.
        overrides: those of the command line.
    """
    by_hand = ((key_of(word), word.partition("=")[2].strip("[]").split(",")) for word in overrides)
    bounded = _Bounded(composer, {**_choices(path), **dict(by_hand)})
    found = (
        (node, problem)
        for key, value in _root_pairs(path)
        for node, problem in chain(_of_key(key, value, bounded), _of_option(key, value, bounded))
    )
    return [located(path, node.start_mark, problem) for node, problem in islice(found, _MOST_FOUND)]


@final
class _Bounded:
    """A composer that tries so many overrides, and then finds nothing wrong with any."""

    def __init__(self, composer: Composer, choices: Mapping[str, Sequence[str]]) -> None:
        self.groups, self._composer = composer.groups, composer
        self._left = _MOST_TRIED
        names = {g: choices[g][:_MOST_VALUES] for g in choices if g in self.groups}
        words = {g: [f"{g}={name}" for name in names[g]] for g in names}
        valid = {g: [word for word in words[g] if not self._tried([word])] for g in words}
        self._chosen = {group: listed for group, listed in valid.items() if listed}

    def session(self) -> ConfigNode:
        """The configuration with the first option of each group that may be chosen."""
        try:
            return self._composer.session([words[0] for words in self._chosen.values()])
        except ConfigError:
            return self._composer.session([])

    def problems(self, override: str) -> list[str]:
        """Every problem of an override; none where one of the options of its group takes it."""
        group, dot, _ = key_of(override).partition(".")
        if dot and group not in self._chosen and groups().get(group) == "null":
            return []  # its options are the hardware's
        others = [words[0] for key, words in self._chosen.items() if key != group]
        found: list[str] = []
        for own in self._chosen.get(group, [""]) if dot else [""]:
            found = self._tried([override, *filter(None, [own]), *others])
            if not found:
                break
        return found

    def _tried(self, overrides: Sequence[str]) -> list[str]:
        self._left -= 1
        return self._composer.problems(overrides, sweep=False) if self._left >= 0 else []


def placed(path: Path, problem: str) -> str:
    """A problem of a composed recipe with the place of its key or its reference in the file."""
    pairs = _root_pairs(path)
    if named := _INTERPOLATION.search(problem):
        nodes = (n for pair in pairs for n in _scalars(pair[1]) if named[1] in n.value)
        node = next(nodes, None)
        return (
            located(path, node.start_mark, *_reference(path, named[1], node)) if node else problem
        )
    keys = ": unknown key" in problem or ": unknown option" in problem
    node = _deepest(pairs, problem.partition(": ")[0].split("."), keys=keys)
    return located(path, node.start_mark, problem) if node else problem


def _reference(path: Path, name: str, node: Node) -> tuple[str, str]:
    """What is wrong with ``${name}`` in a scalar, and its line with what was meant."""
    line = text_of_line(path, node.start_mark.line)
    if f"oc.env:{name}" in node.value:
        what = f"the environment variable {name!r} is not set; a comma gives a default."
        return what, line.replace(name, f"{name},VALUE")
    meant = nearest(name, default_keys())
    what = f"there is no key {name!r} to take a value from.{suggest(name, default_keys())}"
    return what, line.replace(name, meant) if meant else ""


def _deepest(
    pairs: Sequence[tuple[Node, Node]], parts: Sequence[str], *, keys: bool
) -> Node | None:
    """The value, or with ``keys`` the key, that a dotted name leads to, as deep as it goes."""
    found = None
    while parts:
        step = next(((key, value) for key, value in pairs if key.value == parts[0]), None)
        if step is None:
            break
        is_value = len(parts) == 1 and not keys
        found, pairs, parts = step[is_value], _pairs(step[1]) or (), parts[1:]
    return found


def _scalars(node: Node) -> Iterator[Node]:
    """Every text below a node."""
    if isinstance(node.value, str):
        yield node
        return
    for one in node.value:
        for below in one if isinstance(one, tuple) else (one,):
            yield from _scalars(below)


def _root_pairs(path: Path) -> Sequence[tuple[Node, Node]]:
    root = _root(path)
    return _pairs(root) or () if root else ()


def _of_key(key: Node, value: Node, composer: _Bounded) -> Iterator[tuple[Node, str]]:
    if key.value == DEFAULTS:
        for entry in value.value if isinstance(value.value, list) else ():
            yield from _of_default(entry, composer)
    elif key.value == MATRIX:
        for axis, name, values in _axes(value):
            yield from _of_axis(axis, name, values, composer)
    elif key.value == EACH:
        yield from _of_each(value, composer)
    elif key.value != "hydra":  # which reports its own mistakes
        yield from _of_section(key, value, composer.session())


def _choices(path: Path, extending: Sequence[Path] = ()) -> Mapping[str, Sequence[str]]:
    """The options, spelled for Hydra, that each group may have in a recipe or in its bases."""
    root = {key.value: value for key, value in _root_pairs(path)}
    chosen: dict[str, Sequence[str]] = {}
    for entry in _items(root[DEFAULTS]) or () if DEFAULTS in root else ():
        name = entry.value.lstrip("/") if isinstance(entry.value, str) else ""
        files = (path.parent / f"{name}{ending}" for ending in RECIPES)
        base = next(filter(Path.is_file, files), path)
        if base not in (*extending, path):
            check_yaml(base)
            chosen |= _choices(base, (*extending, path))
        chosen |= {_group_in(key): [_spelled(option)] for key, option in _pairs(entry) or ()}
    for axis, _, values in _axes(root[MATRIX]) if MATRIX in root else ():
        chosen[axis] = [_spelled(one) for one in _items(values) or ()]
    for entry in _items(root[EACH]) or () if EACH in root else ():
        key, _, value = str(entry.value).partition("=")
        chosen[key] = [value]
    return chosen


def _spelled(option: Node) -> str:
    return spelled(str(option.value))


def _group_in(key: Node) -> str:
    """The group of an entry of a defaults list."""
    return current_name(str(key.value).removeprefix("override ").strip().lstrip("/"))


def _of_option(key: Node, value: Node, composer: _Bounded) -> Iterator[tuple[Node, str]]:
    """Unknown keys of the option that is chosen of a group, each with its place."""
    if key.value not in groups():
        return
    for name, inner in _pairs(value) or ():
        if isinstance(inner.value, str) and isinstance(name.value, str):
            dotted = f"{key.value}.{name.value}"
            found = composer.problems(f"{dotted}=null")
            yield from ((name, text) for text in found if text.startswith(f"{dotted}: "))


def _of_each(value: Node, composer: _Bounded) -> Iterator[tuple[Node, str]]:
    items = _items(value)
    entries = items if items is not None else [value] if value.value else []
    for entry in entries:
        if items is not None and isinstance(entry.value, str):
            yield from ((entry, text) for text in composer.problems(entry.value))
        elif entry.tag != "tag:yaml.org,2002:null":
            yield entry, NOT_OVERRIDES


def _of_default(entry: Node, composer: _Bounded) -> Iterator[tuple[Node, str]]:
    """An entry of the defaults list: its group, and the option of it."""
    for key, value in _pairs(entry) or ():
        group = _group_in(key)
        if group.startswith("hydra"):
            continue
        if group not in composer.groups:
            known = sorted(composer.groups)
            listed = f" Groups: {', '.join(known)}."
            yield key, misspelt(f"there is no group {group!r}.", group, known, listed)
        elif isinstance(value.value, str) and value.value != "null":
            word = f"{group}={spelled(value.value)}"
            yield from ((value, text) for text in composer.problems(word))


def _of_axis(axis: str, key: Node, values: Node, composer: _Bounded) -> Iterator[tuple[Node, str]]:
    if not isinstance(values.value, list):
        what = f"{MATRIX}.{axis}: expected a list of values, got {values.value!r}."
        meant = f"[{values.value}]"
        correction = Correction(typed=str(values.value), meant=meant)
        yield values, Problem(f"{what} Did you mean {meant!r}?", correction)
        return
    if not values.value:
        yield values, f"{MATRIX}.{axis}: is empty, so there is nothing to run."
    for value in values.value[:_MOST_VALUES]:
        if isinstance(value.value, str):
            found = composer.problems(f"{axis}={spelled(value.value)}")
            unknown = [text for text in found if ": unknown key." in text]
            yield from ((key if text in unknown else value, text) for text in found)
            if unknown:  # whatever its other values are
                return


def _of_section(
    key: Node, value: Node, base: Mapping[str, object], above: Sequence[str] = ()
) -> Iterator[tuple[Node, str]]:
    """A key that is unknown, or those below it that are."""
    name = str(key.value) if above else current_name(str(key.value))
    group, _, inner_name = name.partition(".")
    if inner_name and name in default_keys():
        yield key, f"{name}: YAML nests keys without dots: {group}: {{{inner_name}: ...}}."
        return
    if name not in base:
        dotted = ".".join((*above, name))
        homes = [known for known in default_keys() if known.endswith(f".{name}")]
        if len(homes) == 1 and not above:
            home = homes[0].removesuffix(f".{name}")
            yield key, f"{name}: unknown key here; there is {home}: {{{name}: ...}}."
            return
        ours = {known.partition(".")[0] for known in (*default_keys(), MATRIX)}
        found = [one for one in base if above or one in ours]  # not the folders beside a recipe
        listed = "" if nearest(name, found) and not above else f" Keys here: {', '.join(found)}."
        yield key, misspelt(f"{dotted}: unknown key.", name, found, listed)
        return
    inner = base[name]
    # What chooses among classes has keys of its own.
    if isinstance(inner, Mapping) and inner and "_target_" not in inner:
        for one, below in _pairs(value) or ():
            yield from _of_section(one, below, inner, (*above, name))


def _axes(node: Node, prefix: str = "") -> Iterator[tuple[str, Node, Node]]:
    """``workload.batch_size`` whether written with a dot or as nested mappings."""
    for key, value in _pairs(node) or ():
        name = f"{prefix}{key.value}"
        if _pairs(value) is not None:
            yield from _axes(value, f"{name}.")
        else:
            yield name, key, value


def _root(path: Path) -> Node | None:
    import yaml

    return yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml_loader())


def _items(node: Node) -> Sequence[Node] | None:
    """The entries of a list; None for anything else."""
    from yaml import SequenceNode

    return node.value if isinstance(node, SequenceNode) else None


def _pairs(node: Node) -> Sequence[tuple[Node, Node]] | None:
    """The keys and values of a mapping; None for anything else."""
    from yaml import MappingNode

    return node.value if isinstance(node, MappingNode) else None
