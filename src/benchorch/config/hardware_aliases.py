"""Names of machines, with or without a conversion: ``g5``, ``g5.12xlarge``, ``g5/onnxrt-cuda``.

``g5`` is a file of ``conf/hardware``, ``g5.12xlarge`` that family in another size than its default,
and ``g5.xlarge/onnxrt-cuda`` the machine with the one conversion to try on it, by our name or by
octoml-profile's::

    target = backend("g5.xlarge/onnxrt-cuda")
    target.hardware, target.size, target.conversion   # "g5", "xlarge", "onnxruntime_cuda"
    benchmark(model, inputs, hardware=target.machine, conversions=target.conversion)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from benchorch.config.components import misspelt, resolve
from benchorch.config.conversion_aliases import JOINT, Names, other_names, read_yaml
from benchorch.config.directories import builtin_directory, group_files
from benchorch.config.extensions import extension_directories
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, Problem
from benchorch.interfaces.hardware import Hardware

HARDWARE = "hardware"
SLASH = "/"
_DOT = "."
_LISTER = "octoml-profile"
# It writes what is done to the model first in brackets: onnxrt-cuda[fp16].
_BRACKETS = re.compile(r"^(?P<runtime>[^\[]*)\[(?P<step>[^\]]*)\]$")


def backend(name: str) -> Backend:
    """The machine and conversion of ``HARDWARE[.SIZE][/CONVERSION]``; ConfigError if unknown."""
    return known_names().open(name)


def backends() -> Sequence[str]:
    """Each kind of machine in its default size, with its own conversions and octoml-profile's.

    Any other size and any other conversion makes a name as well.
    """
    return [each.name for each in known_names().every()]


def known_names() -> HardwareNames:
    """The machines of this package and of installed extensions."""
    return HardwareNames(directories=(*extension_directories(), builtin_directory("conf")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A machine and what runs a model on it.

    Attributes:
        hardware: a file of ``conf/hardware``.
        size: of a family, e.g. ``xlarge``; None where the name has none.
        conversion: ours, after ``conversion=``; None where the name has none.
    """

    hardware: str
    size: str | None = None
    conversion: str | None = None

    @property
    def machine(self) -> str:
        """The value of ``hardware=`` for the machine alone."""
        return self.hardware if self.size is None else f"{self.hardware}{_DOT}{self.size}"

    @property
    def name(self) -> str:
        """The value of ``hardware=`` for both."""
        return self.machine + (f"{SLASH}{self.conversion}" if self.conversion else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareNames:
    """The machines of configuration directories; of two files of a name the first counts.

    Attributes:
        directories: each may have a folder ``hardware``; the last one has ``names.yaml``.
    """

    directories: tuple[Path, ...]

    @property
    def kinds(self) -> Sequence[str]:
        """Those that have a file, sorted."""
        return sorted(self._files())

    def sizes(self, hardware: str) -> tuple[str, ...]:
        """Those of a family; none for this machine and for a kind without a file."""
        node = self.node(hardware) if hardware in self._files() else {}
        return tuple(cast("Mapping[str, object]", node.get("sizes") or {}))

    def node(self, hardware: str) -> ConfigNode:
        """The file of a kind."""
        return _read(self._files()[hardware])

    def device(self, hardware: str) -> str:
        """Where models run on a kind: ``cpu`` or ``cuda``."""
        return resolve(self.node(hardware), Hardware, HARDWARE).device

    def open(self, name: str) -> Backend:
        """The machine and conversion of a name; ConfigError with the nearest known one."""
        machine, slash, conversion = name.partition(SLASH)
        hardware, size = split(machine)
        if hardware not in self._files() or size not in (None, *self.sizes(hardware)):
            raise ConfigError([self._no_such_machine(machine)])
        chain = self._conversion(hardware, conversion) if slash else None
        return Backend(hardware=hardware, size=size, conversion=chain)

    def every(self) -> Iterator[Backend]:
        """Each kind in its default size, with its own conversions and octoml-profile's."""
        for hardware in self.kinds:
            node = self.node(hardware)
            names = [
                *cast("Sequence[str]", node["conversions"]),
                *(
                    name
                    for name in self._other.listed[_LISTER]
                    if not (self._other.retirement(name) or self._misplaced(hardware, name))
                ),
            ]
            for chain in dict.fromkeys(JOINT.join(self._other.parts(name)) for name in names):
                size = cast("str | None", node.get("size"))
                yield Backend(hardware=hardware, size=size, conversion=chain)

    def _files(self) -> Mapping[str, Path]:
        return group_files(self.directories, HARDWARE)

    @property
    def _other(self) -> Names:
        return other_names(self.directories[-1])

    def _no_such_machine(self, machine: str) -> Problem:
        hardware, _ = split(machine)
        sizes = self.sizes(hardware)
        sized = [f"{kind}{_DOT}{size}" for kind in self.kinds for size in self.sizes(kind)]
        options = f"Sizes of {hardware}: {', '.join(sizes)}" if sizes else ""
        listed = f" {options or 'Options: ' + ', '.join(self.kinds)}."
        problem = f"{HARDWARE}: there is no {machine!r}."
        return misspelt(problem, machine, [*self.kinds, *sized], listed)

    def _conversion(self, hardware: str, name: str) -> str:
        """Our name of the conversion after the slash."""
        bracketed = _BRACKETS.match(name)
        name = f"{bracketed['step']}{JOINT}{bracketed['runtime']}" if bracketed else name
        retired = self._other.retirement(name)
        if retired:
            raise ConfigError(
                [f"{HARDWARE}: {name}: {retired.reason} Instead: {retired.successor}."]
            )
        parts = self._other.parts(name)
        known = group_files(self.directories, "conversion")
        missing = [part for part in parts or (name,) if part not in known]
        if missing:
            problem = f"{HARDWARE}: after the {SLASH} there is no conversion {missing[0]!r}."
            raise ConfigError([misspelt(problem, missing[0], [*self._other.chains, *known])])
        misplaced = self._misplaced(hardware, name)
        if misplaced:
            raise ConfigError([f"{HARDWARE}: {misplaced}"])
        return JOINT.join(parts)

    def _misplaced(self, hardware: str, name: str) -> str:
        """Why a name for one kind of device cannot mean this machine, or nothing."""
        device = self.device(hardware)
        for word in name.split(JOINT):
            required = self._other.devices.get(word, device)
            if required != device:
                return f"{word} is for {required}, but models on {hardware} run on {device}."
        return ""


def split(machine: str) -> tuple[str, str | None]:
    """``g5`` and ``xlarge`` of ``g5.xlarge``; None where there is no size."""
    hardware, dot, size = machine.partition(_DOT)
    return hardware, size if dot else None


def is_made(name: str) -> bool:
    """Whether a name is more than that of a file."""
    return _DOT in name or SLASH in name


def machine_of(name: str) -> str:
    """The part of a name before the slash."""
    return name.partition(SLASH)[0]


@cache
def _read(path: Path) -> ConfigNode:
    return cast(ConfigNode, read_yaml(path))
