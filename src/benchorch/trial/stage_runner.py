"""Stages of one trial in order, each in a child process or in this one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from benchorch.domain.result import Failure
from benchorch.domain.session import Session
from benchorch.domain.spending import BUDGET_REACHED
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ExecutorError
from benchorch.host.processes.run_child import ChildLimits, ChildReply, run_child
from benchorch.host.processes.template import Template
from benchorch.journal.run_directory import trial_directory
from benchorch.models import trust
from benchorch.trial.stages import MEASURE, Stage, StageFailed
from benchorch.trial.templates import Templates

LOG = "log.txt"
LEAST_S = 1.0
_GIB = 1024**3

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class StageRunner:
    """Runs the stages of one trial.

    Args:
        isolated: whether each stage has a fresh child process.
        on_message: called with a stage's name and what it reports.
        templates: fork processes where that is allowed; None executes each afresh.

    Attributes:
        threads: per call; set before the first stage runs.
        stage: the one that ran last.
        elapsed_s: wall seconds of the last child; 0 where there is none.
        forked: whether that one was forked.
        stages_s: wall seconds spent in each stage so far.
        schedules_s: of the scenario; a measuring process may take so much beside its limit.
        deadline_s: on the monotonic clock: what runs longer is ended; None for no limit but the
            stage's own.
    """

    def __init__(
        self,
        trial: Trial,
        session: Session,
        *,
        isolated: bool,
        on_message: Callable[[str, str], None],
        templates: Templates | None = None,
    ) -> None:
        self.threads = 1
        self.stage = "build"
        self.elapsed_s = 0.0
        self.forked = False
        self.stages_s: dict[str, float] = {}
        self.schedules_s = 0.0
        self.deadline_s: float | None = None
        self._trial = trial
        self._session = session
        self._isolated = isolated
        self._on_message = on_message
        self._templates = templates

    def run(
        self,
        stage: Stage[Request, Reply],
        request: Request,
        under: tuple[str, ...] = (),
        exit_s: float = 5.0,
        *,
        template: str = "",
    ) -> Reply:
        """The stage's reply; raises StageFailed.

        Args:
            template: the package whose template its process is forked from; empty for none.
        """
        self.stage = stage.name
        if not self._isolated:
            return self._run_here(stage, request)
        child = self._forked(stage, request, template) if template else None
        self.forked = child is not None
        child = child or self._child(stage, request, under=under, exit_s=exit_s)
        self.elapsed_s = child.elapsed_s
        if child.failure is not None:
            late = child.failure.kind == "timeout" and self._is_out_of_time
            failure = self._with_the_limits_key(child.failure)
            failure = out_of_budget(stage.name, "during this stage") if late else failure
            raise StageFailed(failure, child.partial)
        return cast(Reply, child.reply)  # without a failure there is one

    def has_template(self, package: str) -> bool:
        """Whether a template runs that processes of this trial are forked from."""
        environment = _child_environment(self._session, self.threads)
        return self._templates is not None and self._templates.is_running(package, environment)

    def _forked(
        self, stage: Stage[Request, Reply], request: Request, package: str
    ) -> ChildReply[Reply] | None:
        """Reply of a forked process; None if a freshly executed one has to replace it.

        What forks badly, or loses its template, must not cost the trial.
        """
        environment = _child_environment(self._session, self.threads)
        template = self._templates and self._templates.of(package, environment, self._log)
        if template is None:
            return None
        try:
            child = self._child(stage, request, template=template)
        except ExecutorError:
            return None
        failed = child.failure
        if failed and (not template.is_usable or failed.kind.startswith("crash")):
            return None
        return child

    def _child(
        self,
        stage: Stage[Request, Reply],
        request: Request,
        *,
        under: tuple[str, ...] = (),
        exit_s: float = 5.0,
        template: Template | None = None,
    ) -> ChildReply[Reply]:
        child = run_child(
            stage.name,
            request,
            stage.reply,
            log=self._log,
            limits=self._limits(stage.name, exit_s),
            environment=_child_environment(self._session, self.threads),
            on_message=lambda message: self._on_message(stage.name, message),
            under=under,
            template=template,
        )
        self.add_time(stage.name, child.elapsed_s)
        return child

    def _with_the_limits_key(self, failure: Failure) -> Failure:
        """The failure; its remedy names the key of the limit that the process reached, if any."""
        if failure.kind == "timeout":
            key = f"limits.{_kind_of(failure.stage)}_timeout_s"
            return replace(failure, remedy=f"A larger {key}; the log shows where it was.")
        limits = cast(ConfigNode, self._trial.spec.get("limits") or {})
        if failure.kind == "oom" and limits.get("memory_gib") is not None:
            return replace(
                failure, remedy="A larger limits.memory_gib, or a smaller batch or model."
            )
        return failure

    @property
    def _log(self) -> Path:
        return trial_directory(self._session.directory, self._trial.trial_id) / LOG

    @property
    def _is_out_of_time(self) -> bool:
        return self.deadline_s is not None and time.monotonic() >= self.deadline_s

    def _limits(self, stage: str, exit_s: float) -> ChildLimits:
        """Limits of a stage's child, which ends with the budget."""
        limits = _limits(self._trial.spec, stage, exit_s)
        if stage == MEASURE.name:
            limits = replace(limits, timeout_s=limits.timeout_s + self.schedules_s)
        if self.deadline_s is None:
            return limits
        left_s = self.deadline_s - time.monotonic()
        return replace(limits, timeout_s=min(limits.timeout_s, max(LEAST_S, left_s)))

    def add_time(self, stage: str, seconds: float) -> None:
        """Account for time spent in a stage."""
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds

    def _run_here(self, stage: Stage[Request, Reply], request: Request) -> Reply:
        from benchorch.trial.worker import attempt

        report = _Report(on_message=lambda message: self._on_message(stage.name, message))
        trust.look_in(self._session.search_path if self._session.trusted else ())
        started_s = time.monotonic()
        found = attempt(stage.name, lambda: request, report)
        self.add_time(stage.name, time.monotonic() - started_s)
        if isinstance(found, Failure):
            self._write_log(found.detail)
            raise StageFailed(found, report.partial)
        return cast(Reply, found)  # as the worker's table has it

    def _write_log(self, text: str) -> None:
        """Add to the log what a child would have printed there; nothing where the disk is full."""
        with contextlib.suppress(OSError):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as log:
                log.write(text)


def out_of_budget(stage: str, when: str) -> Failure:
    """The failure of a trial that the time of the run ends."""
    return Failure(
        stage=stage,
        kind=BUDGET_REACHED,
        message=f"budget.minutes ended {when}",
        remedy="a larger budget.minutes with resume= (finished results are kept)",
    )


@dataclass(slots=True, kw_only=True)
class _Report:
    """Reporter of a stage in this process."""

    on_message: Callable[[str], None]
    partial: object = None

    def send_message(self, message: str) -> None:
        self.on_message(message)

    def send_partial(self, reply: object) -> None:
        self.partial = reply


def _limits(spec: ConfigNode, stage: str, exit_s: float) -> ChildLimits:
    """Limits of a stage's child; stages after measuring have the same."""
    limits = cast(ConfigNode, spec["limits"])
    memory_gib = cast("float | None", limits.get("memory_gib"))
    return ChildLimits(
        timeout_s=cast(float, limits[f"{_kind_of(stage)}_timeout_s"]),
        memory_bytes=None if memory_gib is None else round(memory_gib * _GIB),
        exit_s=exit_s,
    )


def _kind_of(stage: str) -> str:
    """What a stage's limit is called after."""
    return "build" if stage == "build" else "measure"


def _child_environment(session: Session, threads: int) -> dict[str, str]:
    """Environment with one number of threads for every library, and without telemetry."""
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        **dict.fromkeys(counts, str(threads)),
        **trust.variables(session),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
