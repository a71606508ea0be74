"""Hydra's source of names without a file: joined conversions, sized machines, other tools'."""

from __future__ import annotations

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from benchorch.config.conversion_aliases import JOINT, RETIRED_TARGET, Names, other_names
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


class AliasSource(ConfigSource):
    """Configs of the groups ``conversion`` and ``hardware`` whose content follows from their names.

    It is last in the search path, so a file of the same name comes first.
    """

    @staticmethod
    def scheme() -> str:
        """``names://`` and the directory of ``names.yaml``."""
        return "names"

    def available(self) -> bool:
        """Whether there is a directory with the names."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """It adds to groups and makes none."""
        return False

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Nothing: there are too many; `conversions` and `backends` list them."""
        return []

    def is_config(self, config_path: str) -> bool:
        """Whether the name is a joined conversion, a machine with more than its kind, or alien."""
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
    def _names(self) -> Names:
        return other_names(Path(self.path))

    def _chain(self, name: str) -> dict[str, object] | None:
        """A conversion's parts, or the runtime that reports why there is nothing to run."""
        retired = self._names.retirement(name)
        if not (retired or JOINT in name or name in self._names.chains):
            return None
        parts = [] if retired else list(self._names.parts(name))
        content: dict[str, object] = {"defaults": [*(parts or ["eager"]), "_self_"]}
        if retired:
            values = {"reason": retired.reason, "successor": retired.successor}
            content["runtime"] = {"_target_": RETIRED_TARGET, **values}
        if len(parts) > 1:
            content["description"] = f"{', then '.join(parts)}."
        return content

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
        known = HardwareNames(directories=(Path(self.path),))
        if hardware not in known.kinds:
            conversion = name.partition(SLASH)[2] or None
            return Backend(hardware=hardware, size=size, conversion=conversion)
        try:
            return known.open(name)
        except ConfigError:
            return None
