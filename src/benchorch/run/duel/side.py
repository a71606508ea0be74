"""One side of a duel: a program that runs trials of its plan, process by process, as it is ordered.

``python -m benchorch.run.duel.side`` in the side's own folder and environment; it imports the code
of that side. It ends when its standard input does. What it measures is an ordinary run's directory.
"""

import importlib.util
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

from benchorch import __file__ as benchorch_file
from benchorch import __version__
from benchorch.domain.codec import from_json, to_json
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import Trial
from benchorch.host.environment import git_revision
from benchorch.journal import run_directory
from benchorch.journal.lock import acquire_lock
from benchorch.models.trust import grant, references_of, session_of
from benchorch.results.metrics.latency import FLOOR, LEAST_FOR_FLOOR, queries_ms
from benchorch.run.duel.messages import (
    VERSION,
    EndedTrial,
    Message,
    Opening,
    Order,
    Origin,
    ProcessLevel,
)
from benchorch.stats.between_processes import primary_ns
from benchorch.stats.quantiles import sample_quantile
from benchorch.trial.supervisor import TrialRun
from benchorch.units import NS_PER_MS

GONE = "the duel ended"


def main() -> None:
    """Answer one order after the other until there are no more."""
    line = _Channel(sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)  # whatever else is printed goes to the log
    opening = from_json(Opening, sys.stdin.buffer.readline())
    directory = Path(opening.directory)
    with acquire_lock(directory):
        plan = run_directory.read_plan(directory)
        trials = {trial.trial_id: trial for trial in plan.trials}
        grant(*references_of(plan))  # the duel has planned it
        session = session_of(plan, directory)
        line.report(Message(ready=_origin(opening.modules)))
        with _Runs(trials, session) as runs:
            while (order := line.order()) is not None:
                line.report(runs.answer(order))


class _Channel:
    """Messages to the duel and its orders."""

    def __init__(self, orders: IO[bytes], messages: IO[bytes]) -> None:
        self._orders = orders
        self._messages = messages

    def report(self, message: Message) -> None:
        """Send a message; one that nobody reads any more is lost."""
        try:
            self._messages.write(to_json(message) + b"\n")
        except BrokenPipeError:
            return

    def order(self) -> Order | None:
        """The next order; None where there are no more."""
        text = self._orders.readline()
        return from_json(Order, text) if text.endswith(b"\n") else None


class _Runs:
    """Trials that have begun and not ended; in the end all have."""

    def __init__(self, trials: Mapping[str, Trial], session: Session) -> None:
        self._trials = trials
        self._session = session
        self._runs: dict[str, TrialRun] = {}
        self._stores = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in tuple(self._runs):
            self._end(name, GONE)
        self._stores.close()

    def answer(self, order: Order) -> Message:
        """Do what is ordered of a trial: one process more, or its end."""
        run = self._runs.get(order.trial_id) or self._begin(order.trial_id)
        if not order.stop and run.failure is None:
            run.repeat(order.cpus)
        if order.stop or run.failure is not None:
            return Message(ended=self._end(order.trial_id, order.stop))
        return Message(process=level_of(run.repetitions.records[-1]))

    def _begin(self, name: str) -> TrialRun:
        run = TrialRun(self._trials[name], self._session, isolated=True, emit=_unheard)
        self._runs[name] = run
        self._stores.enter_context(run.using_store())
        run.start()
        return run

    def _end(self, name: str, reason: str) -> EndedTrial:
        run = self._runs.pop(name)
        run.stop_reason = reason
        run.end(profile=False)
        result = run.result()
        if result.processes or result.failure:
            run_directory.append_result(self._session.directory, result, {})
        return EndedTrial(trial_id=name, trouble=_trouble(result))


def level_of(process: ProcessRecord) -> ProcessLevel:
    """A process's median and, of queries that came one after the other, its floor."""
    observed = process.observations
    floor = None
    if not (observed.at_once or observed.scheduled_ns):
        queries = queries_ms(process)
        if queries.size >= LEAST_FOR_FLOOR:
            floor = sample_quantile(queries, FLOOR) * NS_PER_MS
    median = primary_ns(process)
    return ProcessLevel(
        median=0.0 if math.isnan(median) else median, floor=floor, cpus=process.conditions.cpus
    )


def _unheard(event: Event) -> None:
    """Progress within a process; the duel counts whole ones."""


def _trouble(result: TrialResult) -> str:
    """Why nothing of it can be compared; empty where it ran and was correct."""
    if result.failure is not None:
        return f"{result.failure.kind}: {result.failure.message}"
    if result.parity is not None and not result.parity.passed:
        return result.parity.explanation or "its outputs are not the reference's"
    return ""


def _origin(modules: Iterable[str]) -> Origin:
    return Origin(
        version=VERSION,
        benchorch=__version__,
        benchorch_file=str(Path(benchorch_file).resolve()),
        python=platform.python_version(),
        executable=sys.executable,
        commit=git_revision(Path.cwd()) or "",
        modules={name: file for name in modules if (file := _file_of(name))},
    )


def _file_of(module: str) -> str:
    """Where a module would be imported from; empty where it cannot be found."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return ""
    places = [found.origin, *(found.submodule_search_locations or ())] if found else []
    return next((str(Path(place).resolve()) for place in places if place), "")


if __name__ == "__main__":
    main()
