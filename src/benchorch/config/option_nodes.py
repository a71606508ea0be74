"""Nodes of options that follow from their files alone, without composing everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from benchorch.config.composition import composition_errors
from benchorch.config.conversion_chains import merge
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.default_element import InputDefault

_SELF = "_self_"
_NAME = re.compile(r"(?!null$|true$|false$)[a-z_][\w-]*", re.ASCII)
"""A file beside the one that names it; nothing that Hydra's grammar reads otherwise."""


class OptionNodes:
    """Options whose choice changes the node of their group to the content of their files.

    A composition costs ten times as much as reading an option. Where a file names another package
    or group, or the root sets keys of the group itself, only Hydra can tell what is composed.
    """

    def __init__(self, loader: ConfigLoader, config_name: str, groups: frozenset[str]) -> None:
        self._loader = loader
        self._config_name = config_name
        self._groups = groups
        self._contents: dict[tuple[str, str], ConfigNode | None] = {}
        self._root: frozenset[str] | None = None

    def node(self, group: str, name: str) -> ConfigNode | None:
        """The node that a choice gives; None where only Hydra can tell."""
        if group not in self._groups or group in self._set_by_root():
            return None
        node = self._content(group, name)
        return None if node is None or "${" in json.dumps(node) else node

    def stays_inside(self, group: str, name: str) -> bool:
        """Whether a choice surely changes no other node than its own group's."""
        known = group in self._groups and isinstance(name, str)
        return known and self._content(group, name) is not None

    def reaching(self, choices: Mapping[str, str | None]) -> list[str]:
        """The groups of a composition whose chosen options may change other nodes than theirs."""
        chosen = {group: name for group, name in choices.items() if name and group[:6] != "hydra/"}
        return [group for group, name in chosen.items() if not self.stays_inside(group, name)]

    def _content(self, group: str, name: str) -> ConfigNode | None:
        """An option's files, merged; None where one of them reaches out of the group."""
        key = (group, name)
        if key not in self._contents:
            self._contents[key] = None  # a file that leads back to itself
            self._contents[key] = self._merged(group, name)
        return self._contents[key]

    def _merged(self, group: str, name: str) -> ConfigNode | None:
        read = self._read(f"{group}/{name}") if _NAME.fullmatch(name) else None
        if read is None:
            return None
        content, entries = read
        names = [_file_of(entry) for entry in entries]
        names += [] if _SELF in names else [_SELF]
        parts = [content if one == _SELF else self._content(group, one or "") for one in names]
        found = [part for part in parts if part is not None]
        return merge(found) if len(found) == len(parts) else None

    def _read(self, path: str) -> tuple[ConfigNode, Sequence[InputDefault]] | None:
        """A file that belongs where its path says, and its defaults list; None where none is."""
        from omegaconf import OmegaConf

        repository = self._loader.repository  # type: ignore[attr-defined]
        expected: tuple[type[Exception], ...] = (ConfigError, *composition_errors())
        try:
            found = repository.load_config(path)
        except expected:  # which Hydra reports when it is chosen
            return None
        if found is None or found.header.get("package") or not OmegaConf.is_dict(found.config):
            return None
        content = cast(ConfigNode, OmegaConf.to_container(found.config, resolve=False))
        return content, found.defaults_list or ()

    def _set_by_root(self) -> frozenset[str]:
        """Nodes that the primary config or what it builds on sets; all groups where unsure."""
        if self._root is None:
            try:
                self._root = frozenset(self._keys_of(self._config_name))
            except LookupError:
                self._root = self._groups
        return self._root

    def _keys_of(self, config_name: str) -> Iterator[str]:
        """Keys of a config without a group, and of those below it; LookupError where unsure."""
        from hydra.core.default_element import GroupDefault

        content, entries = self._read(config_name) or ({}, None)
        if entries is None:
            raise LookupError(config_name)
        yield from content
        for entry in entries:
            if isinstance(entry, GroupDefault):
                known = entry.group in self._groups or str(entry.group).startswith("hydra/")
                if entry.package is not None or not known:
                    raise LookupError(config_name)
            elif (name := _file_of(entry)) != _SELF:
                if name in (None, config_name):
                    raise LookupError(config_name)
                yield from self._keys_of(str(name))


def _file_of(entry: InputDefault) -> str | None:
    """The file beside its own that an entry of a defaults list names; None for any other entry."""
    from hydra.core.default_element import ConfigDefault

    if not isinstance(entry, ConfigDefault) or entry.package is not None or entry.optional:
        return None
    return entry.path if _NAME.fullmatch(entry.path or "") else None
