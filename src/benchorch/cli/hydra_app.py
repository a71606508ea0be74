"""Hydra's side of benchorch: all jobs of one command become one plan.

Hydra calls `Application` for a single run, and its launcher does for a sweep; both hand their jobs
to the same `Invocation`, so sweeper plugins work on top and still share one parent run.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.config.components import TARGET
from benchorch.config.composer import Composer, add_directories
from benchorch.config.diagnostics import composition_errors
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import BenchorchError, ConfigError
from benchorch.recorders.location import strike_out
from benchorch.results.report.console import ConsoleReport
from benchorch.run.invocation import Invocation, Terms

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.config_search_path import ConfigSearchPath
    from omegaconf import DictConfig

# A class of a launcher, a sweeper or what a sweeper is made of; no function, nothing by an alias.
_PLUGIN = re.compile(
    r"(hydra_plugins|hydra\._internal\.core_plugins|optuna\.(samplers|pruners))(\._?[a-z]\w*)*"
    r"\.[A-Z]\w*"
)
_MADE_BY_LOGGING = ("handlers", "formatters", "filters")


@dataclass(slots=True)
class Application:
    """What one command line runs; keeps its invocation until the command ends."""

    config_name: str
    report: ConsoleReport
    terms: Terms = field(default_factory=Terms)
    invocation: Invocation | None = None
    error: BenchorchError | None = None

    def __call__(self, config: DictConfig) -> float:
        """Hydra's single run; returns the objective."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.hydra_config import HydraConfig
        from omegaconf import OmegaConf

        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        settings = HydraConfig.get()
        directory = Path(settings.runtime.output_dir)
        # Unresolved: a value may refer to a key that an axis has yet to set.
        task = OmegaConf.to_container(settings.overrides.task, resolve=False)
        jobs = [[str(override) for override in cast(list[str], task)]]
        try:
            return self.run(hydra.config_loader, directory, jobs)[0]
        except BenchorchError as error:  # Hydra would announce it in its own words first
            self.error = error
            return math.inf

    def run(
        self, loader: ConfigLoader, directory: Path, jobs: Sequence[Sequence[str]]
    ) -> list[float]:
        """Run a batch of jobs under this command's plan."""
        _strike_out_passwords(directory)
        if self.invocation is None:
            composer = Composer(loader, self.config_name)
            self.invocation = Invocation(
                composer=composer,
                directory=directory,
                report=self.report,
                terms=self.terms,
            )
            self.invocation.open()
        return self.invocation.run(jobs)


def _strike_out_passwords(directory: Path) -> None:
    """From what Hydra has noted of the command; a plan holds none either."""
    for path in (*directory.glob("*.yaml"), *directory.glob(".hydra/*.yaml")):
        text = path.read_text()
        clean = strike_out(text)
        if clean != text:
            path.write_text(clean)


def refuse_foreign_code(composer: Composer, overrides: Sequence[str]) -> None:
    """ConfigError where a recipe would have Hydra itself call something that is not its own.

    Hydra makes callbacks, and Python's logging its handlers, of whatever a file names, before
    there is a plan. What cannot be composed is left to whoever explains that.
    """
    problems: list[str] = []
    with contextlib.suppress(*composition_errors()):
        problems += _foreign(composer.hydra_settings(overrides))
    if problems:
        raise ConfigError(problems)


def _foreign(settings: ConfigNode) -> Iterator[str]:
    if settings["callbacks"]:
        yield "hydra.callbacks: is not for recipes, because Hydra calls whatever it names."
    if node_of(settings, "job").get("env_set"):
        yield "hydra.job.env_set: is not for recipes; set variables before the command."
    for name in ("hydra_logging", "job_logging"):
        made = settings[name] or {}
        if not isinstance(made, dict) or any(made.get(part) for part in _MADE_BY_LOGGING):
            yield f"hydra.{name}: is not for recipes, because logging calls whatever it names."
    for place, target in _targets(settings, "hydra"):
        if not _PLUGIN.fullmatch(str(target)):
            yield f"{place}.{TARGET}: {target!r} is no plugin of Hydra's, so it is not loaded."


def _targets(node: Json, place: str) -> Iterator[tuple[str, Json]]:
    """Every class that is named at or below a node, with its place."""
    if isinstance(node, dict):
        if TARGET in node:
            yield place, node[TARGET]
        for key, value in node.items():
            yield from _targets(value, f"{place}.{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _targets(value, f"{place}[{number}]")


def install_plugins(directories: Sequence[Path]) -> None:
    """Register launcher and sweeper, and put the user's directories before the built-in ones."""
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    # Its first use executes Hydra's own plugin modules anew, so ours must be imported after it.
    plugins = Plugins.instance()
    from hydra_plugins._benchorch import MatrixSweeper, PlanLauncher

    class UserDirectories(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            add_directories(search_path, directories)

    for plugin in (PlanLauncher, MatrixSweeper, UserDirectories):
        plugins.register(plugin)
