"""Hydra's side of benchorch: all jobs of one command become one plan.

Hydra calls `Application` for a single run, and its launcher does for a sweep; both hand their jobs
to the same `Invocation`, so sweeper plugins work on top and still share one parent run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.config.composer import Composer, add_directories
from benchorch.config.overrides import spelled
from benchorch.errors import BenchorchError, ConfigError, Correction, Problem
from benchorch.formatting import shell_word
from benchorch.journal import run_directory
from benchorch.recorders.location import strike_out
from benchorch.results.report.console import ConsoleReport
from benchorch.run.invocation import Invocation, RunTerms

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.config_search_path import ConfigSearchPath
    from omegaconf import DictConfig


@dataclass(slots=True)
class Application:
    """What one command line runs; keeps its invocation until the command ends.

    Attributes:
        place: the key of a new run's directory; empty where a run that is there is extended.
    """

    config_name: str
    report: ConsoleReport
    place: str = ""
    terms: RunTerms = field(default_factory=RunTerms)
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
            if self.place:
                refuse_taken(directory, self.place)
            composer = Composer(loader, self.config_name)
            self.invocation = Invocation(
                composer=composer, directory=directory, report=self.report, terms=self.terms
            )
            self.invocation.open()
        return self.invocation.run(jobs)


def refuse_taken(directory: Path, key: str) -> None:
    """ConfigError where a directory holds a run, whose results would pass for a new one's.

    Args:
        key: that names the directory.
    """
    if not (directory / run_directory.PLAN).exists():
        return
    others = (directory.with_name(f"{directory.name}-{n}") for n in itertools.count(2))
    free = next(path for path in others if not path.exists())
    problem = (
        f"{key}: {directory} holds a run already, which benchorch resume {shell_word(directory)} "
        "continues. A new run has another directory."
    )
    raise ConfigError([Problem(problem, Correction(settings=[f"{key}={spelled(str(free))}"]))])


def _strike_out_passwords(directory: Path) -> None:
    """From what Hydra has noted of the command; a plan holds none either."""
    for path in (*directory.glob("*.yaml"), *directory.glob(".hydra/*.yaml")):
        text = path.read_text(encoding="utf-8")
        clean = strike_out(text)
        if clean != text:
            path.write_text(clean, encoding="utf-8")


@contextmanager
def installed_plugins(directories: Sequence[Path]) -> Iterator[None]:
    """Launcher, sweeper, and the user's directories before the built-in ones, for one command."""
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    # Its first use executes Hydra's own plugin modules anew, so ours must be imported after it.
    plugins = Plugins.instance()
    from benchorch.config.yaml_source import FASTER
    from hydra_plugins._benchorch import MatrixSweeper, PlanLauncher

    class UserDirectories(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            add_directories(search_path, directories)

    SourcesRegistry.instance().types.update(FASTER)
    for plugin in (PlanLauncher, MatrixSweeper, UserDirectories):
        plugins.register(plugin)
    try:
        yield
    finally:  # the next command of this process has directories of its own
        for kinds in plugins.plugin_type_to_subclass_list.values():
            if UserDirectories in kinds:
                kinds.remove(UserDirectories)
