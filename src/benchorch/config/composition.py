"""What Hydra composes of YAML files, as plain data, and what it raises where they are mistaken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from benchorch.config.interpolation_limits import bounded_references, check_interpolations
from benchorch.domain.codec import Json
from benchorch.errors import ConfigError, Problem, causes

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.object_type import ObjectType
    from omegaconf import DictConfig

_BY_A_RESOLVER = re.compile(r"^\w+ raised while resolving interpolation: ")
_LONGEST_NAME, _LONGEST_LINE = 80, 400
_UNEXPECTED = (AssertionError, AttributeError, LookupError, TypeError)


def group_names(loader: ConfigLoader) -> frozenset[str]:
    """The configuration groups a user can choose from."""
    from hydra.core.object_type import ObjectType

    return frozenset(name for name in _listed(loader, "", ObjectType.GROUP) if name != "hydra")


def group_options(loader: ConfigLoader, group: str) -> list[str]:
    """The names one can choose in a group."""
    from hydra.core.object_type import ObjectType

    return _listed(loader, group, ObjectType.CONFIG)


def _listed(loader: ConfigLoader, group: str, kind: ObjectType) -> list[str]:
    # Straight from the repository: the loader would copy all of it to answer.
    repository = loader.repository  # type: ignore[attr-defined]
    names: list[str] = repository.get_group_options(group, kind)
    return [name for name in names if not name.startswith("_")]


def load(
    loader: ConfigLoader, config_name: str, overrides: Sequence[str], *, sweep: bool = False
) -> DictConfig:
    """What Hydra composes, its own settings included; any of `composition_errors`."""
    from hydra.types import RunMode

    return loader.load_configuration(
        config_name,
        list(overrides),
        run_mode=RunMode.MULTIRUN if sweep else RunMode.RUN,
        from_shell=False,
    )


def plain_node(config: DictConfig, *, resolve: bool = False) -> dict[str, Json]:
    """A composed configuration without Hydra's own settings."""
    from omegaconf import OmegaConf, open_dict

    plain = cast("dict[str, Json]", OmegaConf.to_container(config, resolve=False))
    plain.pop("hydra", None)
    check_interpolations(plain)
    if resolve:
        with open_dict(config):
            config.pop("hydra", None)
        with bounded_references():
            plain = cast("dict[str, Json]", OmegaConf.to_container(config, resolve=True))
    _check_plain(plain)
    return plain


def _check_plain(node: object, path: str = "") -> None:
    """ConfigError for what YAML can say and a configuration cannot: bytes, names beside numbers."""
    if isinstance(node, dict):
        numbered = not any(isinstance(key, str) for key in node)
        for key, value in node.items():
            place = f"{path}.{key}" if path else str(key)
            if isinstance(key, bytes) or not (isinstance(key, str) or numbered):
                raise ConfigError([f"{place}: a key is text, not {key!r}; quote it in YAML."])
            _check_plain(value, place)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            _check_plain(value, f"{path}[{number}]")
    elif isinstance(node, bytes):
        raise ConfigError([f"{path}: expected text or a number, got binary data (!!binary)."])


def composition_errors() -> tuple[type[Exception], ...]:
    """Everything that composing a user's YAML may raise."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    of_files = (YAMLError, RecursionError, ValueError, OSError)
    # What Hydra and OmegaConf raise themselves where a value is of a kind that they do not expect.
    return (HydraException, OmegaConfBaseException, *of_files, *_UNEXPECTED)


def _own_problem(error: BaseException | None) -> Problem | None:
    """The problem for which one of our resolvers stopped what has raised an error."""
    found = (cause.args[0] for cause in causes(error, implied=True) if cause.args)
    return next((each for each in found if isinstance(each, Problem)), None)


def first_line(error: BaseException) -> str:
    """An exception in one line, with the place if it names one."""
    if own := _own_problem(error):
        return own
    if isinstance(error, RecursionError):
        return (
            "A configuration leads back to itself: look at its defaults list, and for a file "
            "that has the name of a built-in one, such as config.yaml."
        )
    if isinstance(error, _UNEXPECTED):
        return (
            "Hydra cannot compose this: a value is of a kind that it does not expect there "
            f"({type(error).__name__}: {str(error)[:_LONGEST_NAME]})."
        )
    text = _BY_A_RESOLVER.sub("", str(error))
    lines = [line.strip()[:_LONGEST_LINE] for line in text.splitlines() if line.strip()]
    if not lines and (cause := error.__cause__ or error.__context__):
        return first_line(cause)
    place = next((line for line in lines if line.startswith("in ")), "")
    if place and not isinstance(error, ValueError):  # YAML says where on a line of its own
        return f"{lines[0]} {place}"
    return lines[0] if lines else type(error).__name__
