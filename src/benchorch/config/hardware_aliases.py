"""Which machine, and which conversion on it, does a hardware's name stand for?

``g5`` is a file of ``conf/hardware``, ``g5.12xlarge`` that family in another size than its usual
one, and ``g5.xlarge/onnxrt-cuda`` the machine with the one conversion to try on it, in our words
or in another tool's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from benchorch.config.components import resolve, suggest
from benchorch.config.conversion_aliases import JOINT, Names, other_names, read_yaml
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError
from benchorch.interfaces.hardware import Hardware

HARDWARE = "hardware"
STROKE = "/"
_DOT = "."
_LISTER = "octoml-profile"
# It writes what is done to the model before in brackets: onnxrt-cuda[fp16].
_BRACKETS = re.compile(r"^(?P<runtime>[^\[]*)\[(?P<step>[^\]]*)\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A machine and what runs a model on it.

    Attributes:
        hardware: a file of ``conf/hardware``.
        size: of a family, e.g. ``xlarge``; None where the name tells none.
        conversion: ours, after ``conversion=``; None where the name tells none.
    """

    hardware: str
    size: str | None = None
    conversion: str | None = None

    @property
    def machine(self) -> str:
        """What stands after ``hardware=`` for the machine alone."""
        return self.hardware if self.size is None else f"{self.hardware}{_DOT}{self.size}"

    @property
    def name(self) -> str:
        """What stands after ``hardware=`` for both."""
        told = "" if self.conversion is None else f"{STROKE}{self.conversion}"
        return f"{self.machine}{told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareNames:
    """What configuration directories know of machines; of two files of a name the first counts.

    Attributes:
        directories: each may have a folder ``hardware``; the last one has ``names.yaml``.
    """

    directories: tuple[Path, ...]

    @property
    def kinds(self) -> Sequence[str]:
        """Those that a file spells out, sorted."""
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
        """What a name stands for; ConfigError with the name that was meant."""
        machine, stroke, told = name.partition(STROKE)
        hardware, size = split(machine)
        if hardware not in self._files() or size not in (None, *self.sizes(hardware)):
            raise ConfigError([self._no_such_machine(machine)])
        conversion = self._conversion(hardware, told) if stroke else None
        return Backend(hardware=hardware, size=size, conversion=conversion)

    def every(self) -> Iterator[Backend]:
        """Each kind in its usual size, with its own conversions and with what other tools list."""
        for hardware in self.kinds:
            node = self.node(hardware)
            size = cast("str | None", node.get("size"))
            own = cast("Sequence[str]", node["conversions"])
            names = [*own, *self._octomls(hardware)]
            for chain in dict.fromkeys(JOINT.join(self._other.parts(name)) for name in names):
                yield Backend(hardware=hardware, size=size, conversion=chain)

    def _octomls(self, hardware: str) -> Iterator[str]:
        for name in self._other.listed[_LISTER]:
            if not (self._other.retirement(name) or self._misplaced(hardware, name)):
                yield name

    def _files(self) -> Mapping[str, Path]:
        folders = [directory / HARDWARE for directory in reversed(self.directories)]
        paths = [path for folder in folders for path in sorted(folder.glob("*.yaml"))]
        return {path.stem: path for path in paths}

    @property
    def _other(self) -> Names:
        return other_names(self.directories[-1])

    def _no_such_machine(self, machine: str) -> str:
        hardware, _ = split(machine)
        sizes = self.sizes(hardware)
        sized = [f"{kind}{_DOT}{size}" for kind in self.kinds for size in self.sizes(kind)]
        there = f"Sizes of {hardware}: {', '.join(sizes)}" if sizes else ""
        return (
            f"{HARDWARE}: there is no {machine!r}.{suggest(machine, [*self.kinds, *sized])} "
            f"{there or 'Options: ' + ', '.join(self.kinds)}."
        )

    def _conversion(self, hardware: str, told: str) -> str:
        """Ours, for what stands behind the stroke."""
        bracketed = _BRACKETS.match(told)
        told = f"{bracketed['step']}{JOINT}{bracketed['runtime']}" if bracketed else told
        gone = self._other.retirement(told)
        if gone:
            raise ConfigError([f"{HARDWARE}: {told}: {gone.reason} Instead: {gone.successor}."])
        parts = self._other.parts(told)
        known = self._conversions()
        missing = [part for part in parts or (told,) if part not in known]
        if missing:
            meant = suggest(missing[0], [*self._other.chains, *known])
            raise ConfigError(
                [f"{HARDWARE}: after the {STROKE} there is no conversion {missing[0]!r}.{meant}"]
            )
        misplaced = self._misplaced(hardware, told)
        if misplaced:
            raise ConfigError([f"{HARDWARE}: {misplaced}"])
        return JOINT.join(parts)

    def _conversions(self) -> Sequence[str]:
        folders = [directory / "conversion" for directory in self.directories]
        return [path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))]

    def _misplaced(self, hardware: str, told: str) -> str:
        """Why a name that runs models in one place only cannot mean this machine, or nothing."""
        device = self.device(hardware)
        for word in told.split(JOINT):
            wanted = self._other.devices.get(word, device)
            if wanted != device:
                return f"{word} is for {wanted}, but models on {hardware} run on {device}."
        return ""


def split(machine: str) -> tuple[str, str | None]:
    """``g5`` and ``xlarge`` of ``g5.xlarge``; None where there is no size."""
    hardware, dot, size = machine.partition(_DOT)
    return hardware, size if dot else None


def is_made(name: str) -> bool:
    """Whether a name is more than that of a file."""
    return _DOT in name or STROKE in name


def machine_of(name: str) -> str:
    """The part of a name that says which machine."""
    return name.partition(STROKE)[0]


@cache
def _read(path: Path) -> ConfigNode:
    return cast(ConfigNode, read_yaml(path))
