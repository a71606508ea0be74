"""Chains as files spell them, and several of them joined to one.

Joining keeps the last runtime whole and drops what a later part would only repeat: of
``onnxruntime_int8_static+openvino`` the second export, because OpenVINO reads the ONNX file.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

from benchorch.config.components import resolve
from benchorch.config.conversion_aliases import Names, other_names, read_yaml
from benchorch.config.directories import group_files
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import ConfigError
from benchorch.interfaces.conversion import Step
from benchorch.interfaces.runtime import Runtime

FOLDER = "conversion"
_SELF = "_self_"
Steps = Mapping[str, ConfigNode]
T = TypeVar("T", Step, Runtime)


class UnknownFile(ConfigError):
    """A name that is no file of the group; Hydra may find it elsewhere."""


class ConversionFiles:
    """The files of ``conversion`` in configuration directories; of two of a name the first."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Of these directories the last is the one with names.yaml."""
        self.paths: Mapping[str, Path] = group_files(directories, FOLDER)
        self.names: Names = other_names(directories[-1])

    def parts(self, name: str) -> tuple[str, ...]:
        """The files that a name is made of; itself where it is one."""
        return (name,) if name in self.paths else self.names.parts(name)

    def node(self, name: str) -> ConfigNode:
        """A file over those that its defaults list names.

        UnknownFile where it extends what only Hydra can find.
        """
        if name not in self.paths:
            raise UnknownFile([f"conversion: {name!r} is no file of this group."])
        content = dict(_read(self.paths[name]))
        extended = cast("list[str]", content.pop("defaults", []))
        order = extended if _SELF in extended else [*extended, _SELF]
        return merge([content if each == _SELF else self._extended(each) for each in order])

    def _extended(self, entry: object) -> ConfigNode:
        """An entry of a defaults list: a file, or a joined name."""
        parts = self.parts(entry) if isinstance(entry, str) else (str(entry),)
        return joined([(part, self.node(part)) for part in parts])


@cache
def _read(path: Path) -> ConfigNode:
    return cast(ConfigNode, read_yaml(path) or {})


def joined(parts: Sequence[tuple[str, ConfigNode]]) -> ConfigNode:
    """The chain of several conversions; ConfigError where two of them give the same step.

    Args:
        parts: each file's name with its node, in the order in which they are applied.
    """
    if len(parts) == 1:
        return parts[0][1]
    chain: dict[str, ConfigNode] = {}
    origins: dict[str, str] = {}
    for part, node in parts:
        added = _added(chain, cast(Steps, node_of(node, "steps")), node_of(node, "runtime"))
        twice = [name for name in added if name in chain]
        if twice:
            first = origins[twice[0]]
            raise ConfigError(
                [f"conversion: two {twice[0]} steps in one chain: {first} then {part}; keep one."]
            )
        chain |= added
        origins |= dict.fromkeys(added, part)
    nodes = [node for _, node in parts]
    allowed = [each["tolerance_ratio"] for each in nodes if _is_number(each.get("tolerance_ratio"))]
    return {
        **merge(nodes),
        "description": f"{', then '.join(part for part, _ in parts)}.",
        "tolerance_ratio": max(cast("list[float]", allowed), default=None),
        "steps": chain,
        "runtime": nodes[-1].get("runtime"),
    }


def _added(chain: Steps, steps: Steps, runtime: ConfigNode) -> Steps:
    """What a part adds to a chain, without leading steps to where the chain is already."""
    given, rest = _given(chain), dict(steps)
    for name in steps:
        leads_here = not _takes(rest, runtime, given) and _only_changes_format(chain, name, steps)
        if not (_is_repeated(chain, name, steps) or leads_here):
            break
        del rest[name]
    if _takes(rest, runtime, given):
        return rest
    return {name: node for name, node in steps.items() if chain.get(name) != node}


def _takes(steps: Steps, runtime: ConfigNode, given: Format) -> bool:
    """Whether the first of these links can start from that format."""
    first = next(iter(steps.values()), None)
    link = _class(Runtime, runtime) if first is None else _class(Step, first)
    return link is not None and given in link.consumes


def _given(chain: Steps) -> Format:
    """What the chain so far gives."""
    last = _class(Step, list(chain.values())[-1]) if chain else None
    return last.produces if last else Format.MODULE


def _is_repeated(chain: Steps, name: str, steps: Steps) -> bool:
    """Whether the chain has the step: as it is, or with options that lead to what follows too."""
    return name in chain and (chain[name] == steps[name] or name != list(steps)[-1])


def _only_changes_format(chain: Steps, name: str, steps: Steps) -> bool:
    """Whether leaving the step out loses nothing that somebody asked for."""
    step = _class(Step, steps[name])
    if not chain or step is None or name in chain:
        return False
    return step.produces not in step.consumes


def _class(interface: type[T], node: ConfigNode) -> type[T] | None:
    """The class that a node names, or None where there is none: reported with the whole chain."""
    try:
        return resolve(node, interface, "")
    except ConfigError:
        return None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def merge(nodes: Iterable[ConfigNode]) -> ConfigNode:
    """Later values win; mappings are merged key by key, as Hydra does."""
    merged: dict[str, Json] = {}
    for node in nodes:
        for key, value in node.items():
            before = merged.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            merged[key] = (
                merge([cast(ConfigNode, before), cast(ConfigNode, value)]) if both else value
            )
    return merged
