"""What ``--cfg`` prints, by Hydra's own printer from a single composition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from benchorch.cli.foreign_code import refuse_foreign
from benchorch.config.composer import Composer
from benchorch.domain.trial import ConfigNode

if TYPE_CHECKING:
    from omegaconf import DictConfig

_FLAGS = {"cfg", "package", "resolve", "overrides"}
_JOB = "hydra_app"  # what Hydra calls the job of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The part of the configuration to print.

    Attributes:
        part: ``job``, ``hydra`` or ``all``.
        package: the dotted path of a node in it.
        resolve: whether interpolations are written out.
        words: the overrides.
    """

    part: str
    package: str | None
    resolve: bool
    words: Sequence[str]

    def compose(self, composer: Composer) -> DictConfig:
        """The whole configuration, as a run has it; ConfigError with its problems."""
        from hydra import version
        from hydra.core.utils import JobRuntime
        from omegaconf import OmegaConf

        version.setbase("1.3")
        JobRuntime().set("name", _JOB)
        config = composer.composed(self.words)
        refuse_foreign(cast(ConfigNode, OmegaConf.to_container(config.hydra, resolve=False)))
        return config

    def print(self, config: DictConfig, config_name: str) -> None:
        """Print the part; any of `composition_errors`, or SystemExit for an unknown package."""
        from hydra._internal.hydra import Hydra

        loader: Any = _ComposedLoader(config)
        hydra = Hydra(task_name=_JOB, config_loader=loader)
        hydra.show_cfg(config_name, [*self.words], self.part, self.package, self.resolve)


@dataclass(frozen=True, slots=True)
class _ComposedLoader:
    """A loader of what is composed already."""

    config: DictConfig

    def load_configuration(self, **_: object) -> DictConfig:
        """The configuration."""
        return self.config


def requested(arguments: Sequence[str]) -> Shown | None:
    """What ``--cfg`` requests; None where Hydra itself has to answer or to refuse the flags."""
    from hydra._internal.utils import get_args_parser

    given = vars(get_args_parser().parse_args(arguments))
    if not given["cfg"] or any(value for name, value in given.items() if name not in _FLAGS):
        return None
    return Shown(
        part=given["cfg"],
        package=given["package"],
        resolve=given["resolve"],
        words=given["overrides"],
    )
