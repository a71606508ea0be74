"""Templates of measuring and building processes: one for each round, so that layouts are new.

Importing torch, a model's class and a compiler takes longer than measuring. A round's processes are
forked from a template that has imported them, and the next round has another template: no two
processes of one trial share a memory layout, which is part of what repeating a process randomises.
"""

import contextlib
import gc
import socket
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import to_json
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, ExecutorError, TrialError
from benchorch.frameworks.identity.links import link_code
from benchorch.host.environment import physical_cores
from benchorch.host.processes import child_channel, template
from benchorch.host.processes.run_child import child_variables
from benchorch.host.processes.spawn import started
from benchorch.interfaces.conversion import Step
from benchorch.models import trust
from benchorch.trial.live_module import keep

_ENTRY = "from benchorch.trial.templates import main; main()"
_READY_S = 120.0
MOST_AHEAD = 4
"""Templates of one kind at a time: each holds what it has imported in memory."""

_TORCH, _ONNX_RUNTIME = "torch", "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Imports:
    """Imports of a template: a package; with torch also those of models and runtimes.

    Attributes:
        loads: how many modules of each model are loaded, too.
        builds: whether steps are built in its processes.
    """

    package: str
    specs: tuple[ConfigNode, ...]
    loads: int = 0
    builds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningTemplate:
    """A template, and what ends it."""

    template: template.Template
    held: contextlib.ExitStack


@final
class Templates:
    """The templates of the round that goes on, each started with the first process that is forked.

    Those of rounds that are certain to come are started along with them, one a core: imports use a
    single one, and no template imports while a process measures.

    Args:
        specs: of the trials of all rounds.
    """

    def __init__(self, specs: Sequence[ConfigNode]) -> None:
        kinds = {(str(spec["model"]), str(spec.get("conversion"))): spec for spec in specs}
        self._specs = tuple(kinds.values())
        self._of_round: dict[str, _RunningTemplate | None] = {}
        self._ahead: dict[str, list[_RunningTemplate]] = {}
        self._processes, self._rounds, self._loads = len(specs), 1, 0
        self._builds = True  # in the first round alone

    def renew(self, processes: int = 0, rounds: int = 1, *, loads: int = 0) -> None:
        """End the round's templates: a round of so many processes begins.

        Args:
            rounds: how many are certain to come, this one included. A single round of a single
                process has no template.
            loads: how many modules of each model templates hold that are started from here on.
        """
        ended = list(self._of_round.values())
        if not processes:
            ended += [each for running in self._ahead.values() for each in running]
            self._ahead.clear()
        for each in filter(None, ended):
            each.held.close()
        self._of_round.clear()
        self._processes, self._rounds, self._loads = processes, rounds, loads
        self._builds = False

    def is_running(self, package: str, environment: Mapping[str, str]) -> bool:
        """Whether the round's template for such processes has been started."""
        found = self._of_round.get(_key(package, environment))
        return found is not None and found.template.is_usable

    def of(
        self, package: str, environment: Mapping[str, str], log: Path
    ) -> template.Template | None:
        """The round's template for processes of this environment; None where there cannot be one.

        Args:
            package: that it has imported, by `template_for`.
            log: where its output is appended.
        """
        key = _key(package, environment)
        if key not in self._of_round:
            self._of_round[key] = self._next(key, package, environment, log)
        found = self._of_round[key]
        return found.template if found and found.template.is_usable else None

    def _next(
        self, key: str, package: str, environment: Mapping[str, str], log: Path
    ) -> _RunningTemplate | None:
        ahead = self._ahead.setdefault(key, [])
        cores = physical_cores()
        if 1 < cores == self._rounds - 1:
            cores += 1  # the last would import alone, or be missing where its round has one process
        count = min(self._rounds, cores, MOST_AHEAD)
        if not ahead and (self._processes > 1 or count > 1):
            with contextlib.suppress(ExecutorError, OSError):
                ahead += self._started(package, environment, log, count)
        return ahead.pop() if ahead else None

    def _started(
        self, package: str, environment: Mapping[str, str], log: Path, count: int
    ) -> list[_RunningTemplate]:
        """So many templates that have imported everything."""
        imports = _Imports(
            package=package, specs=self._specs, loads=self._loads, builds=self._builds
        )
        request = to_json(imports)
        with contextlib.ExitStack() as failing:
            links = []
            for _ in range(count):
                held = failing.enter_context(contextlib.ExitStack())
                ours, theirs = socket.socketpair()
                held.enter_context(ours)
                with theirs:
                    argv = [sys.executable, "-P", "-c", _ENTRY, str(theirs.fileno())]
                    variables = child_variables(environment)
                    running = started(argv, request, log, variables, descriptors=(theirs.fileno(),))
                    held.enter_context(running)
                links.append((held, ours))
            ready = [(held, template.Template(ours, _READY_S)) for held, ours in links]
            failing.pop_all()
        return [_RunningTemplate(template=each, held=held) for held, each in ready]


def _key(package: str, environment: Mapping[str, str]) -> str:
    return f"{package} {environment}"


def template_for(setup: TrialSetup, requires: Collection[str]) -> str:
    """The package whose template a trial's process that imports these distributions is forked from.

    Empty where it is executed afresh: where a device's driver may have been initialised before, and
    for other runtimes. What is measured without torch has a template without torch.
    """
    if type(setup.hardware).device != "cpu" or not template.is_possible():
        return ""
    return next((package for package in (_TORCH, _ONNX_RUNTIME) if package in requires), "")


def main() -> None:
    """Entry of a template: import, then fork; the first argument is its socket's descriptor."""
    from benchorch.trial import worker

    child_channel.die_with_parent()
    child_channel.prefer_to_die()
    trust.obey()
    child_channel.Channel()  # whose descriptor nothing else inherits from here on
    imports = child_channel.read_request(_Imports)
    gc.disable()  # collections take a fourth of the time of imports
    _preload(imports)
    gc.enable()
    template.serve(int(sys.argv[1]), worker.main)


def _preload(imports: _Imports) -> None:
    """Import what trials need; no code of the user's, and nothing that starts threads.

    What is measured without torch has a template without it, so models are not preloaded there.
    """
    if imports.package != _TORCH:
        import numpy.random  # noqa: F401
        import onnxruntime  # noqa: F401

        for spec in imports.specs:
            with contextlib.suppress(ConfigError, TrialError):
                _opened(spec)  # whose classes a measuring process imports
        return
    import torch  # noqa: F401

    import benchorch.trial.build  # noqa: F401

    steps: list[Step] = []
    for spec in imports.specs:
        with contextlib.suppress(ConfigError, TrialError):  # which its own process reports
            setup = _opened(spec)
            setup.model.preload()
            setup.runtime.preload()
            steps += [step for _, step in setup.steps]
            if imports.loads:
                keep(setup, imports.loads)
    for step in _shared(steps) if imports.builds else ():
        step.preload()


def _opened(spec: ConfigNode) -> TrialSetup:
    """A trial, with the code of its steps as it is imported: forks build minutes later."""
    setup = open_trial(spec)
    for _, step in setup.steps:
        link_code(type(step))  # which remembers it
    return setup


def _shared(steps: Sequence[Step]) -> Iterator[Step]:
    """One step of each kind that several trials build: a single build imports for itself."""
    of_kind = {type(step): step for step in steps}
    count = Counter(map(type, steps))
    yield from (step for kind, step in of_kind.items() if count[kind] > 1)
