"""Hydra's way to what no file spells out: joined conversions, sized machines, others' names."""

from __future__ import annotations

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from benchorch.config.conversion_aliases import JOINT, RETIRED_TARGET, Names, other_names
from benchorch.config.hardware_aliases import (
    HARDWARE,
    STROKE,
    Backend,
    HardwareNames,
    is_made,
    machine_of,
    split,
)
from benchorch.config.overrides import CONVERSION
from benchorch.errors import ConfigError

SCHEME = "names"


class NameSource(ConfigSource):
    """Configs of the groups ``conversion`` and ``hardware`` whose content follows from their names.

    It stands last in the search path, so that a file of the same name comes first.
    """

    @staticmethod
    def scheme() -> str:
        """``names://`` and the directory of ``names.yaml``."""
        return SCHEME

    def available(self) -> bool:
        """Whether there is a directory to translate names by."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """It adds to groups and makes none."""
        return False

    def is_config(self, config_path: str) -> bool:
        """Whether the name is a joined conversion, a machine with more than its kind, or alien."""
        conversion = _within(CONVERSION, config_path)
        if conversion:
            translated = conversion in self._names.chains or self._gone(conversion)
            return JOINT in conversion or translated
        hardware = _within(HARDWARE, config_path)
        return bool(hardware) and self._backend(hardware) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Nothing: what can be joined is without end, and has commands that list it."""
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        """The files that a name is made of as a defaults list, and what it says besides."""
        conversion, hardware = _within(CONVERSION, config_path), _within(HARDWARE, config_path)
        backend = self._backend(hardware) if hardware else None
        if backend is not None:
            content = _machine(backend)
        elif conversion:
            content = self._chain(conversion)
        else:
            raise ConfigLoadError(f"there is no config {config_path}")
        return ConfigResult(
            config=OmegaConf.create(content),
            path=f"{SCHEME}://{config_path}",
            provider=self.provider,
            header={"package": None},
        )

    def _chain(self, name: str) -> dict[str, object]:
        """A conversion's parts, or the runtime that says why there is nothing to run."""
        gone = self._names.retirement(name)
        parts = [] if gone else list(self._names.parts(name))
        content: dict[str, object] = {"defaults": [*(parts or ["eager"]), "_self_"]}
        if gone:
            told = {"reason": gone.reason, "successor": gone.successor}
            content["runtime"] = {"_target_": RETIRED_TARGET, **told}
        if len(parts) > 1:
            content["description"] = f"{', then '.join(parts)}."
        return content

    def _backend(self, name: str) -> Backend | None:
        """What a machine's name stands for; a kind that only the user's files know is believed."""
        if not is_made(name):
            return None
        hardware, size = split(machine_of(name))
        known = HardwareNames(directories=(Path(self.path),))
        if hardware not in known.kinds:
            conversion = name.partition(STROKE)[2] or None
            return Backend(hardware=hardware, size=size, conversion=conversion)
        try:
            return known.open(name)
        except ConfigError:
            return None

    @property
    def _names(self) -> Names:
        return other_names(Path(self.path))

    def _gone(self, name: str) -> bool:
        return self._names.retirement(name) is not None


def _machine(backend: Backend) -> dict[str, object]:
    """A kind of machine in a size, with a conversion as the only one to try by default."""
    content: dict[str, object] = {"defaults": [f"/{HARDWARE}/{backend.hardware}@_here_", "_self_"]}
    if backend.size is not None:
        content["size"] = backend.size
    if backend.conversion is not None:
        content["conversions"] = [backend.conversion]
    return content


def _within(group: str, config_path: str) -> str:
    """The name of an option of a group, or nothing."""
    path = config_path.removesuffix(".yaml")
    return path.removeprefix(f"{group}/") if path.startswith(f"{group}/") else ""
