"""benchorch's launcher and sweeper for Hydra.

Hydra takes plugins only from this namespace. The leading underscore keeps it from importing this
file for every other Hydra application in the same environment: benchorch registers it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


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
