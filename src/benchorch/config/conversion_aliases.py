"""Names of conversions: files of ``conf/conversion``, joined by ``+``, or other tools' names.

Of a joined name the steps are applied in that order and the last runtime counts
(``bf16+export+inductor``). ``conf/names.yaml`` translates another tool's name
(``FP16+EXPORT+COMPILE_INDUCTOR_DEFAULT``) as a whole or word by word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from benchorch.config.yaml_limits import check_yaml
from benchorch.files import yaml_loader

JOINT = "+"
NAMES_FILE = "names.yaml"
RETIRED_TARGET = "benchorch.runtimes.retired.Retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredName:
    """A name whose upstream is gone.

    Attributes:
        reason: what became of it, in one sentence.
        successor: the name to choose instead, or an empty string.
    """

    reason: str
    successor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of other tools.

    Attributes:
        chains: whole names, and words of names, with the expression of ours that they mean.
        retired: whole names, and words of names, that mean nothing any more.
        listed: by the tool, the whole names that it lists, in its order.
        devices: names that run models in one place only, with ``cpu`` or ``cuda``.
    """

    chains: Mapping[str, str]
    retired: Mapping[str, RetiredName]
    listed: Mapping[str, tuple[str, ...]]
    devices: Mapping[str, str]

    def parts(self, name: str) -> tuple[str, ...]:
        """The files of ``conf/conversion`` that a name is made of; itself where it is one."""
        if name in self.chains:
            name = self.chains[name]
        words = [word for word in name.split(JOINT) if word]
        known = [self.chains.get(word, word) for word in words]
        return tuple(part for word in known for part in word.split(JOINT) if part)

    def retirement(self, name: str) -> RetiredName | None:
        """What became of a name, if nothing of it is left."""
        if name in self.chains:
            return None
        words = (name, *name.split(JOINT))
        return next((self.retired[word] for word in words if word in self.retired), None)


@cache
def other_names(directory: Path) -> Names:
    """The names that the ``names.yaml`` of a configuration directory translates."""
    content = cast("dict[str, Any]", read_yaml(directory / NAMES_FILE))
    retired = cast("dict[str, dict[str, str]]", content["retired"])
    return Names(
        chains={str(name): str(chain or "") for name, chain in content["chains"].items()},
        retired={name: RetiredName(**node) for name, node in retired.items()},
        listed={tool: tuple(names) for tool, names in content["listed"].items()},
        devices=content["devices"],
    )


def read_yaml(path: Path) -> object:
    """A YAML file's content."""
    check_yaml(path)
    return yaml_loader()(path.read_text(encoding="utf-8")).get_single_data()
