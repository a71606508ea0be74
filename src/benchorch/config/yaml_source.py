"""Hydra's YAML files, each parsed once in a process and by libyaml.

OmegaConf parses in Python, which takes a third of a composition.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache
from importlib.resources.abc import Traversable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.importlib_resources_config_source import (
    ImportlibResourcesConfigSource,
)
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from benchorch.files import open_regular

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader

_HEADER = 512  # characters in which Hydra looks for `@package`


class YamlDirectory(FileConfigSource):
    """A directory of YAML files."""

    def load_config(self, config_path: str) -> ConfigResult:
        """A file's content and header; ConfigLoadError where there is no such file."""
        name = self._normalize_file_name(config_path)
        path = Path(os.path.realpath(Path(self.path, name)))
        if not path.exists():
            raise ConfigLoadError(f"Config not found : {path}")
        return _result(self, path)


class YamlPackage(ImportlibResourcesConfigSource):
    """A Python package with YAML files, such as Hydra's own."""

    def _read_config(self, res: Traversable) -> ConfigResult:
        return _result(self, res) if isinstance(res, Path) else super()._read_config(res)


FASTER: dict[str, type[ConfigSource]] = {
    each.scheme(): each for each in (YamlDirectory, YamlPackage)
}
"""By scheme, which Hydra's own sources of the same files have."""


def read_faster(loader: ConfigLoader) -> None:
    """Replace the sources of a loader by those of the same files here."""
    repository = loader.repository  # type: ignore[attr-defined]
    repository.sources = [
        FASTER[source.scheme()](source.provider, source.full_path())
        if source.scheme() in FASTER
        else source
        for source in repository.sources
    ]


def _result(source: ConfigSource, path: Path) -> ConfigResult:
    status = path.stat()
    text, values = _parsed(path, status.st_size, status.st_mtime_ns)
    return ConfigResult(
        provider=source.provider,
        path=source.full_path(),
        config=OmegaConf.create() if values is None else OmegaConf.create(values),
        header=ConfigSource._get_header_dict(text),
    )


@lru_cache(maxsize=1024)
def _parsed(path: Path, size: int, _: int) -> tuple[str, Any]:
    """The first characters of a file, and its values as plain Python."""
    with open_regular(path) as opened, TextIOWrapper(opened, encoding="utf-8") as file:
        text = file.read(_HEADER)
        file.seek(0)
        loader = _loader()(file)
        try:
            values = loader.get_single_data()
        finally:
            loader.dispose()
    if values is not None and not isinstance(values, dict | list | str):
        raise OSError(f"Invalid loaded object type: {type(values).__name__}")
    return text, values


@cache
def _loader() -> type[Any]:
    """OmegaConf's loader, a safe one, with libyaml's parser where PyYAML has that."""
    from omegaconf._utils import get_yaml_loader
    from yaml.constructor import SafeConstructor
    from yaml.resolver import Resolver

    loader: type[Any] = get_yaml_loader()
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]
    except ImportError:
        return loader

    def start(self: Any, stream: Any) -> None:  # as yaml.CSafeLoader
        CParser.__init__(self, stream)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)

    return type("_Loader", (CParser, loader), {"__init__": start})
