"""Former names of configuration keys, accepted for one release in overrides and in YAML files."""

import logging
import re
from functools import cache
from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from benchorch.config.yaml_limits import check_yaml
from benchorch.config.yaml_source import YamlDirectory
from benchorch.errors import Problem

RENAMED = {"tracking": "recorder"}
SCHEME = "directory"
LOG = logging.getLogger(__name__)
_FORMER = re.compile(rf"(override )?[+~/]*({'|'.join(RENAMED)})(?=[=.@/]|$)")


def current_name(text: str) -> str:
    """An override, a key or an entry of a defaults list, with the present name of its key."""
    former = _FORMER.match(text)
    if not former:
        return text
    _note(former[2])
    return f"{text[: former.start(2)]}{RENAMED[former[2]]}{text[former.end(2) :]}"


@cache
def _note(former: str) -> None:
    LOG.warning("%s is now %s", former, RENAMED[former])


class ConfigDirectory(YamlDirectory):
    """A user's or an extension's directory of YAML files, which may use former names."""

    @staticmethod
    def scheme() -> str:
        """``directory://`` and its path."""
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """A file's content, with present names in its defaults list and at the top level."""
        place = self._located(config_path)
        check_yaml(Path(self.path, self._normalize_file_name(place)))
        found = super().load_config(place)
        content = found.config
        if isinstance(content, DictConfig):
            _refuse_search_path(content)
            with open_dict(content):
                if "/" not in config_path or found.header.get("package") == "_global_":
                    _rename_keys(content)
                for entry in content.get("defaults") or ListConfig([]):
                    if isinstance(entry, DictConfig):
                        _rename_keys(entry)
        return found

    def _normalize_file_name(self, filename: str) -> str:  # type: ignore[override]
        """The file's name with its suffix, which may be ``.yml``."""
        if filename.endswith(".yml"):
            return filename
        name = super()._normalize_file_name(filename)
        other = name.removesuffix(".yaml") + ".yml"
        here = Path(self.path)
        return other if (here / other).is_file() and not (here / name).exists() else name

    def is_group(self, config_path: str) -> bool:
        """Whether there is such a folder."""
        return super().is_group(self._located(config_path))

    def is_config(self, config_path: str) -> bool:
        """Whether there is such a file."""
        return super().is_config(self._located(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The options of a group."""
        return super().list(self._located(config_path), results_filter)

    def _located(self, config_path: str) -> str:
        group, _, rest = config_path.partition("/")
        for former, name in RENAMED.items():
            if group == name and not Path(self.path, name).exists():
                return f"{former}/{rest}" if rest else former
        return config_path


def _refuse_search_path(content: DictConfig) -> None:
    """ValueError where Hydra would search other folders, and import packages, that a file names."""
    if OmegaConf.select(content, "hydra.searchpath", throw_on_resolution_failure=False) is not None:
        raise ValueError(Problem("hydra.searchpath: is not for recipes; use --config-dir instead."))


def _rename_keys(node: DictConfig) -> None:
    for key in [key for key in node if isinstance(key, str) and current_name(key) != key]:
        node[current_name(str(key))] = node.pop(key)
