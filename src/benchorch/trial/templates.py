"""Templates of measuring and building processes: one for each round, so that layouts are new.

Importing torch and a model's class takes longer than measuring. A round's processes are forked
from a template that has imported both, and the next round has another template: no two processes
of one trial share a memory layout, which is part of what repeating a process randomises.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import to_json
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, ExecutorError
from benchorch.host.processes import child_channel, template
from benchorch.host.processes.run_child import child_variables
from benchorch.host.processes.spawn import started
from benchorch.models import trust

_ENTRY = "from benchorch.trial.templates import main; main()"
_READY_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Imports:
    """The trials whose modules a template imports."""

    specs: tuple[ConfigNode, ...]


@final
class Templates:
    """The template of the round that goes on, started with the first process that is forked.

    Args:
        specs: of the trials of all rounds.
    """

    def __init__(self, specs: Sequence[ConfigNode]) -> None:
        self._request = to_json(_Imports(specs=tuple({str(s["model"]): s for s in specs}.values())))
        self._opened = contextlib.ExitStack()
        self._ready: dict[str, template.Template | None] = {}
        self._processes = len(specs)

    def renew(self, processes: int = 0) -> None:
        """End the template: a round of so many processes begins. For a single one none is made."""
        self._opened.close()
        self._ready.clear()
        self._processes = processes

    def of(self, environment: Mapping[str, str], log: Path) -> template.Template | None:
        """The round's template for processes of this environment; None where there cannot be one.

        Args:
            log: where its output is appended.
        """
        key = str(environment)
        if key not in self._ready and self._processes > 1:
            with contextlib.suppress(ExecutorError, OSError):
                self._ready[key] = self._start(environment, log)
        found = self._ready.setdefault(key, None)
        return found if found and found.is_usable else None

    def _start(self, environment: Mapping[str, str], log: Path) -> template.Template:
        ours, theirs = socket.socketpair()
        self._opened.enter_context(ours)
        with theirs:
            argv = [sys.executable, "-P", "-c", _ENTRY, str(theirs.fileno())]
            variables = child_variables(environment)
            running = started(argv, self._request, log, variables, descriptors=(theirs.fileno(),))
            self._opened.enter_context(running)
        return template.Template(ours, _READY_S)


def may_fork(setup: TrialSetup, requires: Collection[str]) -> bool:
    """Whether a trial's process that imports these distributions may be forked from a template.

    Not where a device's driver may have been initialised before, nor without torch, which the
    template has imported.
    """
    is_cpu = type(setup.hardware).device == "cpu"
    return is_cpu and "torch" in requires and template.is_possible()


def main() -> None:
    """Entry of a template: import, then fork; the first argument is its socket's descriptor."""
    from benchorch.trial import worker

    child_channel.die_with_parent()
    child_channel.prefer_to_die()
    trust.obey()
    child_channel.Channel()  # whose descriptor nothing else inherits from here on
    _preload(child_channel.read_request(_Imports).specs)
    template.serve(int(sys.argv[1]), worker.main)


def _preload(specs: Sequence[ConfigNode]) -> None:
    """Import what trials need; no code of the user's, and nothing that starts threads."""
    import torch  # noqa: F401

    import benchorch.trial.build  # noqa: F401

    for spec in specs:
        with contextlib.suppress(ConfigError):  # which its own process reports
            open_trial(spec).model.preload()
