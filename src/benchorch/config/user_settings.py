"""The user's own settings file, which nothing else can widen: whom and what to trust.

``settings.yaml`` in the configuration directory, ``$XDG_CONFIG_HOME/benchorch`` or
``~/.config/benchorch``::

    trust: [~/models, my_package.models:make]   # as --trust on every command line
    keys: ["ed25519:..."]                       # of machines whose compiled artifacts may be loaded
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchorch.config.yaml_limits import check_yaml
from benchorch.errors import ConfigError
from benchorch.files import home, user_directory

PUBLIC_KEY = re.compile(r"ed25519:[0-9a-f]{64}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HEADS = ("trust", "keys")
_VARIABLE = "XDG_CONFIG_HOME"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """What the user trusts on every command line.

    Attributes:
        trust: files, folders and references, as ``--trust`` takes them.
        keys: public keys by which entries of a store may be signed, besides this machine's own.
    """

    trust: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def config_directory() -> Path:
    """Directory of the user's own settings and of this machine's key."""
    return user_directory(os.environ.get(_VARIABLE) or "~/.config", _VARIABLE)


def settings_path() -> Path:
    """The user's own settings file, whether or not there is one."""
    return config_directory() / "settings.yaml"


def user_settings() -> UserSettings:
    """The settings, empty where there is no file; ConfigError for one that cannot be trusted."""
    if home() is None and not os.environ.get(_VARIABLE):
        return UserSettings()  # --version, for one, needs no home
    path = settings_path()
    try:
        status = path.stat()
    except FileNotFoundError:
        return UserSettings()
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}."]) from error
    for place in _chain(path):
        found = place.stat()
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & _OTHERS_WRITE:
            raise ConfigError(
                [f"{place} can be written by others, so it is not read: chmod go-w {place}"]
            )
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError([f"{path} is no file, so it is not read; remove it."])
    return _settings(path)


def _chain(path: Path) -> Iterator[Path]:
    """A file and its folder; of a link, also those of each file to which it leads in turn."""
    while True:
        yield from (path, path.parent)
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _settings(path: Path) -> UserSettings:
    import yaml

    check_yaml(path)
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError([f"{path} cannot be read: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"{path}: expected {' and '.join(_HEADS)}, got {found!r:.80}."])
    lists = {name: found.get(name) or [] for name in _HEADS}
    problems = [f"{path}: {name!r} is not one of {', '.join(_HEADS)}." for name in found]
    problems = [text for name, text in zip(found, problems, strict=True) if name not in _HEADS]
    for name, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            problems.append(f"{path}: {name} must be a list of texts, got {value!r:.80}.")
        elif name == "keys":
            problems += [
                f"{path}: {text!r:.80} is no key; expected ed25519: and 64 hexadecimal digits, as "
                "`benchorch cache key` prints."
                for text in value
                if not PUBLIC_KEY.fullmatch(text)
            ]
    if problems:
        raise ConfigError(problems)
    return UserSettings(**{name: tuple(value) for name, value in lists.items()})
