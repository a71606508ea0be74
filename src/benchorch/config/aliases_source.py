"""Hydra's source of names without a file: joined conversions, sized machines, other tools'."""

import os
from collections.abc import Sequence
from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from benchorch.config.conversion_aliases import JOINT, RETIRED_TARGET, Names, other_names
from benchorch.config.conversion_chains import ConversionFiles, UnknownFile, joined
from benchorch.config.hardware_aliases import (
    HARDWARE,
    SLASH,
    Backend,
    HardwareNames,
    is_made,
    machine_of,
    split,
)
from benchorch.config.overrides import CONVERSION
from benchorch.errors import ConfigError


class ImpossibleChain(ConfigLoadError):
    """The parts of a joined name are known, and they exclude each other."""


class AliasSource(ConfigSource):
    """Configs of the groups ``conversion`` and ``hardware`` whose content follows from their names.

    It is last in the search path, so a file of the same name comes first.
    """

    @staticmethod
    def scheme() -> str:
        """``names://`` and directories as in PATH, the last of them with ``names.yaml``."""
        return "names"

    def available(self) -> bool:
        """Whether there is a directory with the names."""
        return self._directories[-1].is_dir()

    def is_group(self, config_path: str) -> bool:
        """It adds to groups and makes none."""
        return False

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Nothing: there are too many; `conversions` and `backends` list them."""
        return []

    def is_config(self, config_path: str) -> bool:
        """Whether the name is a joined conversion, a machine with more than its kind, or alien."""
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        if group == CONVERSION and name:
            return self._is_alias(name)
        return self._content(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """The files of a name as a defaults list, and the values that the name adds."""
        content = self._content(config_path)
        if content is None:
            raise ConfigLoadError(f"there is no config {config_path}")
        return ConfigResult(
            config=OmegaConf.create(content),
            path=f"{self.scheme()}://{config_path}",
            provider=self.provider,
            header={"package": None},
        )

    def _content(self, config_path: str) -> dict[str, object] | None:
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        if group == CONVERSION and name:
            return self._chain(name)
        return self._machine(name) if group == HARDWARE and is_made(name) else None

    @property
    def _directories(self) -> Sequence[Path]:
        return [Path(path) for path in self.path.split(os.pathsep)]

    @property
    def _names(self) -> Names:
        return other_names(self._directories[-1])

    def _is_alias(self, name: str) -> bool:
        known = JOINT in name or name in self._names.chains
        return known or self._names.retirement(name) is not None

    def _chain(self, name: str) -> dict[str, object] | None:
        """A conversion's parts, or the runtime that reports why there is nothing to run."""
        if not self._is_alias(name):
            return None
        retired = self._names.retirement(name)
        if retired:
            values = {"reason": retired.reason, "successor": retired.successor}
            runtime = {"_target_": RETIRED_TARGET, **values}
            return {"defaults": ["eager", "_self_"], "runtime": runtime}
        parts = self._names.parts(name) or ("eager",)
        return {"defaults": [*parts, "_self_"]} if len(parts) == 1 else self._joined(parts)

    def _joined(self, parts: Sequence[str]) -> dict[str, object]:
        """The chain of several files; Hydra reports those that are not there."""
        files = ConversionFiles(self._directories)
        try:
            nodes = [(part, files.node(part)) for part in parts]
        except UnknownFile:
            return {"defaults": [*parts, "_self_"]}
        try:
            return dict(joined(nodes))
        except ConfigError as error:
            raise ImpossibleChain(error.problems[0]) from error

    def _machine(self, name: str) -> dict[str, object] | None:
        """A kind of machine in a size, with a conversion as the only one to try by default."""
        backend = self._backend(name)
        if backend is None:
            return None
        base = f"/{HARDWARE}/{backend.hardware}@_here_"
        content: dict[str, object] = {"defaults": [base, "_self_"]}
        if backend.size is not None:
            content["size"] = backend.size
        if backend.conversion is not None:
            content["conversions"] = [backend.conversion]
        return content

    def _backend(self, name: str) -> Backend | None:
        """The machine of a name; one that only the user's files have is taken as it is."""
        hardware, size = split(machine_of(name))
        known = HardwareNames(directories=(self._directories[-1],))
        if hardware not in known.kinds:
            conversion = name.partition(SLASH)[2] or None
            return Backend(hardware=hardware, size=size, conversion=conversion)
        try:
            return known.open(name)
        except ConfigError:
            return None
