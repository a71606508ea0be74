"""Hydra's way to conversions that no file spells out: joined names, and other tools' names."""

from __future__ import annotations

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from benchorch.conversion_names import JOINT, RETIRED_TARGET, Names, other_names

SCHEME = "conversions"
_GROUP = "conversion/"


class ConversionSource(ConfigSource):
    """Configs of the group ``conversion`` whose content follows from their names.

    It stands last in the search path, so that a file of the same name comes first.
    """

    @staticmethod
    def scheme() -> str:
        """``conversions://`` and the directory of ``names.yaml``."""
        return SCHEME

    def available(self) -> bool:
        """Whether there is a directory to translate names by."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """It adds to a group and makes none."""
        return False

    def is_config(self, config_path: str) -> bool:
        """Whether the name is joined or another tool's."""
        name = self._name(config_path)
        return bool(name) and (JOINT in name or name in self._names.chains or self._gone(name))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Nothing: what can be joined is without end, and has a command that lists it."""
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        """The parts as a defaults list, or the runtime that says why there is nothing to run."""
        name = self._name(config_path)
        if not name:
            raise ConfigLoadError(f"there is no config {config_path}")
        gone = self._names.retirement(name)
        parts = [] if gone else list(self._names.parts(name))
        content: dict[str, object] = {"defaults": [*(parts or ["eager"]), "_self_"]}
        if gone:
            told = {"reason": gone.reason, "successor": gone.successor}
            content["runtime"] = {"_target_": RETIRED_TARGET, **told}
        if len(parts) > 1:
            content["description"] = f"{', then '.join(parts)}."
        return ConfigResult(
            config=OmegaConf.create(content),
            path=f"{SCHEME}://{config_path}",
            provider=self.provider,
            header={"package": None},
        )

    @property
    def _names(self) -> Names:
        return other_names(Path(self.path))

    def _gone(self, name: str) -> bool:
        return self._names.retirement(name) is not None

    @staticmethod
    def _name(config_path: str) -> str:
        path = config_path.removesuffix(".yaml")
        return path.removeprefix(_GROUP) if path.startswith(_GROUP) else ""
