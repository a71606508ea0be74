"""Hydra's side of benchorch: all jobs of one command become one plan.

Hydra calls `Application` for a single run and `PlanLauncher` for a sweep; both hand their jobs
to the same `Invocation`, so sweeper plugins work on top and still share one parent run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin

from benchorch.config import Composer
from benchorch.errors import BenchorchError
from benchorch.pipeline import Invocation
from benchorch.stages.report import Report

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


@dataclass(slots=True)
class Application:
    """What one command line runs; keeps its invocation until the command ends."""

    config_name: str
    invocation: Invocation | None = None
    error: BenchorchError | None = None

    def __call__(self, config: DictConfig) -> float:
        """Hydra's single run; returns the objective."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.hydra_config import HydraConfig

        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        settings = HydraConfig.get()
        directory = Path(settings.runtime.output_dir)
        jobs = [list(settings.overrides.task)]
        try:
            return self.run(hydra.config_loader, directory, jobs)[0]
        except BenchorchError as error:  # Hydra would announce it in its own words first
            self.error = error
            return math.inf

    def run(
        self, loader: ConfigLoader, directory: Path, jobs: Sequence[Sequence[str]]
    ) -> list[float]:
        """Run a batch of jobs under this command's plan."""
        if self.invocation is None:
            composer = Composer(loader, self.config_name)
            self.invocation = Invocation(composer=composer, directory=directory, report=Report())
            self.invocation.open()
        return self.invocation.run(jobs)


class PlanLauncher(Launcher):
    """Hands a batch of jobs over as one plan instead of running one after the other."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Take what Hydra gives every launcher."""
        self._loader = hydra_context.config_loader
        self._application: Any = task_function
        self._config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run the batch; each job returns its objective, which a sweeper may minimise."""
        directory = Path(str(self._config.hydra.sweep.dir))
        values = self._application.run(self._loader, directory, job_overrides)
        return [
            JobReturn(
                overrides=overrides,
                working_dir=str(directory),
                task_name="benchorch",
                status=JobStatus.COMPLETED,
                _return_value=value,
            )
            for overrides, value in zip(job_overrides, values, strict=True)
        ]


class MatrixSweeper(BasicSweeper):
    """Hydra's own sweeper, less its composing of every job just to see whether it can be.

    The planner composes each distinct node once and reports all problems of all jobs together.
    """

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Leave it to the planner."""


def install_plugins(directories: Sequence[Path]) -> None:
    """Register launcher and sweeper, and put the user's directories before the built-in ones."""

    class UserDirectories(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for directory in reversed(directories):
                search_path.prepend("user", f"file://{directory.resolve()}")

    for plugin in (PlanLauncher, MatrixSweeper, UserDirectories):
        Plugins.instance().register(plugin)
