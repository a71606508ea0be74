"""Composition of YAML: from overrides to resolved cells.

Composing costs tens of milliseconds, so a job is not composed as a whole: each group is composed
once for each distinct set of overrides that touch it, and cells are put together from those nodes.
A thousand cells of ten models, ten conversions and ten batch sizes need thirty compositions.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.config.components import TARGET, takes
from benchorch.config.composition import (
    composition_errors,
    first_line,
    group_names,
    group_options,
    load,
    plain_node,
)
from benchorch.config.diagnostics import OverrideErrors
from benchorch.config.directories import builtin_directory
from benchorch.config.environment_references import guard
from benchorch.config.extensions import extension_directories
from benchorch.config.hardware_aliases import machine_of
from benchorch.config.interpolation_limits import bounded_references
from benchorch.config.option_nodes import OptionNodes
from benchorch.config.overrides import (
    CONVERSION,
    EACH,
    MATRIX,
    NOT_OVERRIDES,
    PLAIN_OVERRIDE,
    check_count,
    is_scalar,
    key_of,
    lift_lists,
    parse_override,
    plain_text,
    spelled,
    sweep_jobs,
    top_node,
    without_postponed,
)
from benchorch.domain.codec import Json
from benchorch.domain.tensors import NOT_SYMBOLS
from benchorch.domain.trial import ConfigNode, node_of, with_value
from benchorch.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.config_search_path import ConfigSearchPath
    from omegaconf import DictConfig

WORKLOAD = "workload"
_SHORTEST_SECRET = 4  # what is shorter is part of many words
_ENVIRONMENT = re.compile(r"oc\.env:\s*(\w+)")
# Interpolations that cannot leave a top-level node: a sibling, the node's own path, a variable.
_OWN = r"\$\{{(?:\.(?!\.)[\w.]*|{key}(?:\.\w+)*|oc\.env:[^${{}}]*)\}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One point of the matrix, resolved but not yet checked.

    Attributes:
        choices: the option chosen in each group, e.g. ``{"model": "bert"}``.
        axes: swept keys that are not groups, with their values as text.
        config: every key's value.
        is_named: whether its conversion was requested, and is not only one of those that its
            hardware tries by default.
    """

    choices: Mapping[str, str]
    axes: Mapping[str, str]
    config: ConfigNode
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class _Composed:
    """A composition.

    Attributes:
        literal: names of the nodes in which no value refers to another one.
        open: of those nodes that still hold a reference once it is composed.
    """

    config: ConfigNode
    choices: Mapping[str, str | None]
    literal: frozenset[str]
    open: frozenset[str]


def config_loader(extra_directories: Sequence[Path] = ()) -> ConfigLoader:
    """A Hydra loader over the user's directories first, then the built-in ones."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path

    from benchorch.config.yaml_source import read_faster

    search_path = create_config_search_path(str(builtin_directory("conf")))
    add_directories(search_path, extra_directories)
    loader = ConfigLoaderImpl(search_path)
    read_faster(loader)
    guard()
    return loader


def add_directories(search_path: ConfigSearchPath, directories: Sequence[Path]) -> None:
    """Put the user's directories first, extensions' before the built-in one, aliases last."""
    from hydra._internal.sources_registry import SourcesRegistry

    from benchorch.config.aliases_source import AliasSource
    from benchorch.config.renamed_keys import ConfigDirectory

    for source in (ConfigDirectory, AliasSource):
        SourcesRegistry.instance().register(source)
    for provider, paths in (("extension", extension_directories()), ("user", directories)):
        for path in reversed(paths):
            search_path.prepend(provider, f"{ConfigDirectory.scheme()}://{path.resolve()}")
    all_directories = (*directories, *extension_directories(), builtin_directory("conf"))
    listed = os.pathsep.join(str(path.resolve()) for path in all_directories)
    aliases = f"{AliasSource.scheme()}://{listed}"
    entries = search_path.get_path()
    # While Hydra runs a command, its plugin has added that command's names already.
    entries[:] = [entry for entry in entries if entry.provider != "benchorch"]
    # Hydra requires its own source of schemas to be the last one, and adds it after its plugins.
    if entries[-1].provider == "schema":
        search_path.prepend("benchorch", aliases, anchor="schema")
    else:
        search_path.append("benchorch", aliases)


class Composer:
    """Turns override lists into cells; remembers compositions, nothing else."""

    def __init__(self, loader: ConfigLoader, config_name: str = "config") -> None:
        self._loader = loader
        self._config_name = config_name
        self._composed: dict[tuple[str, ...], _Composed] = {}
        # Of the latest job after each override put in by hand, for the next one begins alike.
        self._latest: dict[tuple[Sequence[str], ...], _Composed] = {}
        # A node and what an override makes of it: cells share equal nodes, by which others remember
        # what they have found in one.
        self._valued: dict[tuple[int, str], tuple[ConfigNode, ConfigNode]] = {}
        self._odd: set[str] = set()
        self._groups = group_names(loader)
        self._files = OptionNodes(loader, config_name, self._groups)
        self._errors = OverrideErrors(loader, config_name, self._groups, self._files)
        self._from_environment: set[str] = set()

    @property
    def groups(self) -> frozenset[str]:
        """The configuration groups a user can choose from."""
        return self._groups

    def options(self, group: str) -> list[str]:
        """The names one can choose in a group."""
        return group_options(self._loader, group)

    def option(self, group: str, name: str) -> ConfigNode:
        """The node that a choice gives; ConfigError if there is no such choice."""
        node = self._files.node(group, name)
        return node or node_of(self._compose((f"{group}={name}",)).config, group)

    def lifted(self, overrides: Sequence[str]) -> list[str]:
        """A command's overrides with present names, and lists of options as axes of the matrix."""
        return lift_lists(overrides, self._groups)

    def jobs(self, overrides: Sequence[str], *, sweep: bool = False) -> list[list[str]]:
        """The jobs of a command: one, or what Hydra's sweeper makes of comma-separated values."""
        lifted = self.lifted(overrides)
        return sweep_jobs(lifted, self._loader) if sweep else [lifted]

    def cells(self, job: Sequence[str]) -> list[MatrixCell]:
        """The cells of one job in order; ConfigError with every problem of it."""
        try:
            return list(self._cells_of(job))
        except ConfigError as error:
            # A section fails on its first mistake; the others may hold more.
            found = dict.fromkeys((*self._errors.of_job(job), *error.problems))
            raise ConfigError(list(found)) from error

    def masked(self, text: str) -> str:
        """A message with the names of the environment's variables in place of their values."""
        from omegaconf.resolvers import oc

        for name in self._from_environment:
            value = str(oc.env(name, ""))
            if len(value) >= _SHORTEST_SECRET and value in text:
                text = text.replace(value, f"${{oc.env:{name}}}")
        return text

    def hydra_settings(self, overrides: Sequence[str]) -> ConfigNode:
        """Hydra's own settings of a sweep, unresolved; any of `composition_errors`."""
        from omegaconf import OmegaConf

        settings = load(self._loader, self._config_name, overrides, sweep=True).hydra
        return cast(ConfigNode, OmegaConf.to_container(settings, resolve=False))

    def composed(self, overrides: Sequence[str]) -> DictConfig:
        """What Hydra composes, its own settings included; ConfigError as of `session`."""
        whole = tuple(overrides)
        with self._explained(whole):
            config = load(self._loader, self._config_name, whole)
            self._composed[whole] = self._described(config, resolve=False)
        self.session(whole)
        return config

    def problems(self, overrides: Sequence[str], *, sweep: bool) -> list[str]:
        """Every problem of a command's overrides, with each value of a sweep."""
        return self._errors.of_command(overrides, sweep=sweep)

    def session(self, overrides: Sequence[str]) -> ConfigNode:
        """The keys that are not about single trials: executor, store, recorder, rebuild, ..."""
        return _with_texts(self._assemble(list(overrides), {}).config, overrides)

    def _cells_of(self, lifted: Sequence[str]) -> Iterator[MatrixCell]:
        job, postponed = without_postponed(lifted)
        rest = self._together(job).config
        given = rest.get(EACH) or []
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise ConfigError([NOT_OVERRIDES])
        each = [str(override) for override in (*given, *postponed)]
        own = {text.partition("=")[0]: text.partition("=")[2] for text in job if _is_dotted(text)}
        for axes in self._combinations([*job, *postponed], rest.get(MATRIX)):
            swept = [f"{key}={spelled(value)}" for key, value in axes.items()]
            texts = [f"{key}={value}" for key, value in axes.items() if isinstance(value, str)]
            plain = {k: str(v) for k, v in axes.items() if k not in self._groups}
            for cell in self._with_conversions(job + swept, each, {**own, **plain}):
                config = _with_texts(cell.config, [*job, *texts, *each])
                yield from _expand_workload(replace(cell, config=config))

    def _combinations(self, job: list[str], matrix: Json) -> Iterator[Mapping[str, Json]]:
        """Every combination of the declared matrix; a key set by hand is no longer an axis."""
        if matrix is not None and not isinstance(matrix, Mapping):
            raise ConfigError([f"{MATRIX}: expected axes with their values, got {matrix!r}."])
        by_hand = {key_of(override) for override in job}
        matrix = matrix or {}
        flat = [axis for axis in _flatten_axes(matrix) if axis[0] not in by_hand]
        axes, keys = dict(flat), [key for key, _ in flat]
        problems = [
            f"{MATRIX}.{key}: is there twice, with a dot and nested; keep one."
            for key in axes
            if keys.count(key) > 1
        ]
        problems += [
            f"{MATRIX}.{key}: is empty, so there is nothing to run."
            if values == []
            else f"{MATRIX}.{key}: expected a list of values, got {values!r}."
            for key, values in axes.items()
            if not isinstance(values, list) or not values
        ]
        if problems:
            raise ConfigError(problems)
        lists = cast(Mapping[str, list[Json]], axes)
        check_count(map(len, lists.values()), MATRIX)
        for values in itertools.product(*lists.values()):
            yield dict(zip(lists, values, strict=True))

    def _with_conversions(
        self, job: list[str], each: list[str], axes: Mapping[str, str]
    ) -> Iterator[MatrixCell]:
        """The cell, or one for each of the hardware's default conversions if none is named."""
        inside = [text for text in each if self._group_of(key_of(text)) == CONVERSION]
        beside = [text for text in each if text not in inside]
        cell = self._assemble([*job, *beside], axes)
        if cell.choices.get(CONVERSION):
            _check_said_once(cell)
            yield self._assemble([*job, *each], axes) if inside else cell
            return
        hardware = cell.config.get("hardware")
        names = hardware.get("conversions") if isinstance(hardware, Mapping) else None
        if not isinstance(names, list | tuple) or not names:
            raise ConfigError(
                ["hardware.conversions: is empty and no conversion is named: nothing to run."]
            )
        for name in names:
            cell = self._assemble([*job, f"{CONVERSION}={name}", *each], axes)
            yield replace(cell, is_named=False)

    def _assemble(self, job: list[str], axes: Mapping[str, str]) -> MatrixCell:
        composed = self._together(job)
        config = composed.config
        if composed.open:
            config = self._compose_anew(tuple(job), resolve=True).config
        choices = {group: composed.choices.get(group) or "" for group in sorted(self._groups)}
        mixed = [group for group, name in choices.items() if not isinstance(name, str)]
        if mixed:
            raise ConfigError([f"{group}: expected one name in each job." for group in mixed])
        return MatrixCell(choices=choices, axes=axes, config=config)

    def _together(self, job: list[str]) -> _Composed:
        """The composition of a job: a known one, or one with the plain overrides put in by hand."""
        whole = tuple(job)
        if not self._composed or whole in self._composed:
            return self._compose(whole)  # one composition serves a command of a single job
        first = next(iter(self._composed))
        composed = self._completed(first, job) if whole[: len(first)] == first else None
        while composed is None:
            odd = {top_node(text) for text in job if not self._is_plain(text)} | self._odd
            composed = self._completed(tuple(o for o in job if top_node(o) in odd), job)
        return composed

    def _is_plain(self, override: str) -> bool:
        """Whether it only chooses an option of one group, or only gives one key a value."""
        is_value = PLAIN_OVERRIDE.match(override) is not None
        return is_value or self._files.stays_inside(*override.partition("=")[::2])

    def _completed(self, base: tuple[str, ...], job: list[str]) -> _Composed | None:
        """What Hydra composes of some of a job's overrides, with the others put in by hand.

        None where only Hydra can tell what one of them gives: its node is odd from then on.
        """
        composed, latest = self._compose(base), {}
        # Choices come before values.
        others = sorted((text for text in job if text not in base), key=_is_dotted)
        for count, override in enumerate(others, 1):
            place = (base, *others[:count])
            found = self._latest.get(place) or self._with_override(composed, override, base)
            if found is None:
                self._odd.add(top_node(override))
                return None
            composed = latest[place] = found
        self._latest = latest
        return composed

    def _with_override(
        self, known: _Composed, override: str, base: tuple[str, ...]
    ) -> _Composed | None:
        if not self._is_plain(override):
            return None
        put_in = self._with_value if _is_dotted(override) else self._with_choice
        return put_in(known, override, base)

    def _with_choice(
        self, known: _Composed, choice: str, base: tuple[str, ...]
    ) -> _Composed | None:
        """With another option of a group, read from its files or composed beside the base."""
        group, _, name = choice.partition("=")
        reaching = self._files.reaching(known.choices)
        if group in reaching or group in map(top_node, base):
            return None
        node = None if reaching else self._files.node(group, name)
        if node is None:
            beside = self._compose((*base, choice))
        else:
            own = frozenset({group})
            beside = _Composed({group: node}, {group: name}, literal=own, open=frozenset())
        return _Composed(
            {**known.config, group: beside.config.get(group)},
            {**known.choices, group: beside.choices.get(group)},
            literal=known.literal - {group} | beside.literal & {group},
            open=known.open - {group} | beside.open & {group},
        )

    def _with_value(
        self, known: _Composed, override: str, base: tuple[str, ...]
    ) -> _Composed | None:
        path = key_of(override).split(".")
        with self._explained((*base, override)):
            value = _value_of(override)
        is_known = path[0] in known.literal and is_scalar(_at(known.config, path))
        if not is_known or not is_scalar(value):
            return None
        node = node_of(known.config, path[0])
        place = id(node), override
        if place not in self._valued:
            self._valued[place] = node, with_value(node, path[1:], cast(Json, value))
        return replace(known, config={**known.config, path[0]: self._valued[place][1]})

    def _group_of(self, key: str) -> str | None:
        first = top_node(key)
        return first if first in self._groups else None

    def _compose(self, overrides: tuple[str, ...]) -> _Composed:
        if overrides not in self._composed:
            self._composed[overrides] = self._compose_anew(overrides, resolve=False)
        return self._composed[overrides]

    def _compose_anew(self, overrides: tuple[str, ...], *, resolve: bool) -> _Composed:
        with self._explained(overrides):
            config = load(self._loader, self._config_name, overrides)
            return self._described(config, resolve=resolve)

    def _described(self, config: DictConfig, *, resolve: bool) -> _Composed:
        choices = dict(config.hydra.runtime.choices)
        plain = plain_node(config, resolve=resolve)
        self._from_environment.update(_ENVIRONMENT.findall(json.dumps(plain)))
        literal = frozenset(key for key, node in plain.items() if "${" not in json.dumps(node))
        if not resolve:
            plain = _resolve_own(config, plain, plain.keys() - literal)
        unresolved = () if resolve else plain.keys() - literal
        still = frozenset(key for key in unresolved if "${" in json.dumps(plain[key]))
        return _Composed(plain, choices, literal=literal, open=still)

    @contextmanager
    def _explained(self, overrides: tuple[str, ...]) -> Iterator[None]:
        """Every problem of the overrides in place of what composing them raises."""
        try:
            yield
        except composition_errors() as error:
            found = self._errors.of_job(overrides) or [first_line(error)]
            raise ConfigError(found) from error


def _check_said_once(cell: MatrixCell) -> None:
    """ConfigError where a machine's name tells a conversion and the command another."""
    hardware, conversion = cell.choices["hardware"], cell.choices[CONVERSION]
    if machine_of(hardware) != hardware:
        raise ConfigError(
            [
                f"hardware={hardware} names a conversion already, and conversion={conversion} one "
                "more: leave out either."
            ]
        )


@cache
def _value_of(override: str) -> object:
    return parse_override(override).value()


def _is_dotted(override: str) -> bool:
    return "." in key_of(override)


def _at(node: Json, path: Sequence[str]) -> Json:
    """What lies at a path; an empty node where nothing does."""
    for part in path:
        node = node.get(part, {}) if isinstance(node, Mapping) else {}
    return node


def _with_texts(config: ConfigNode, overrides: Sequence[str]) -> ConfigNode:
    """The same with values as they are typed, where their keys take text alone.

    Hydra reads commits such as 1234567 and 7e38291 as numbers.
    """
    for override in overrides:
        config = _with_text(config, override)
    return config


def _with_text(config: ConfigNode, override: str) -> ConfigNode:
    text, path = plain_text(override), key_of(override).split(".")
    if not text or isinstance(_value_of(override), str) or _at(config, path) != _value_of(override):
        return config
    changed = with_value(config, path, text)
    return changed if _takes(changed, path) and not _takes(config, path) else config


def _takes(config: ConfigNode, path: Sequence[str]) -> bool:
    """Whether the run or the class of a node takes the value at a path."""
    if path == ["name"]:
        return isinstance(config["name"], str)
    group, *rest = path
    node = node_of(config, group)
    return not rest or TARGET not in node or takes(node, rest[0])


def _flatten_axes(matrix: ConfigNode, prefix: str = "") -> Iterator[tuple[str, Json]]:
    """``workload.batch_size`` whether written with a dot or as nested mappings."""
    for key, value in matrix.items():
        if isinstance(value, Mapping):
            yield from _flatten_axes(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value  # a key may be a number


def _expand_workload(cell: MatrixCell) -> Iterator[MatrixCell]:
    """A cell for each combination of symbols given as lists."""
    workload = cell.config.get(WORKLOAD)
    if not isinstance(workload, Mapping):
        yield cell
        return
    lists = {k: v for k, v in workload.items() if isinstance(v, list) and k not in NOT_SYMBOLS}
    if not lists:
        yield cell
        return
    for key, values in lists.items():
        if not values:
            raise ConfigError([f"{WORKLOAD}.{key}: is empty, so there is nothing to run."])
    check_count(map(len, lists.values()), WORKLOAD)
    for combination in itertools.product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        yield replace(cell, config={**cell.config, WORKLOAD: {**workload, **chosen}})


def _resolve_own(
    config: DictConfig, plain: dict[str, Json], unresolved: Iterable[str]
) -> dict[str, Json]:
    """Resolve each of the top-level nodes whose interpolations surely stay inside it."""
    from omegaconf import OmegaConf

    for key in unresolved:
        text = json.dumps(plain[key])
        if text.count("${") == len(re.findall(_OWN.format(key=key), text)):
            with bounded_references():
                selected = OmegaConf.select(config, key)
                nested = OmegaConf.is_config(selected)
                found = OmegaConf.to_container(selected, resolve=True) if nested else selected
            plain[key] = cast(Json, found)
    return plain
