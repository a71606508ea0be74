"""The handle of one side of a duel: its program, started in its folder and environment."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchorch.domain.codec import from_json, to_json
from benchorch.errors import ExecutorError
from benchorch.run.duel.messages import (
    VERSION,
    EndedTrial,
    Message,
    Opening,
    Order,
    Origin,
    ProcessLevel,
)

LOG = "side.log"
_END_S = 10.0
_LOG_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVersion:
    """A version of the code and the environment it runs in.

    Attributes:
        name: ``old`` or ``new``.
        what: for people, such as a revision.
        python: the interpreter.
        folder: the current folder of its program.
        search: folders that come first where modules are looked for.
        directory: of its run.
    """

    name: str
    what: str
    python: str
    folder: Path
    search: tuple[Path, ...]
    directory: Path


class Contender:
    """A side's program while it runs. Made by `started`."""

    def __init__(self, side: CodeVersion, process: subprocess.Popen[bytes], origin: Origin) -> None:
        self.side = side
        self.origin = origin
        self._process = process
        self._open: set[str] = set()

    def go_on(self, trial_id: str, cpus: tuple[int, ...] = ()) -> None:
        """Run one more process of a trial; before its first one it is built."""
        self._open.add(trial_id)
        self._send(Order(trial_id=trial_id, cpus=cpus))

    def stop(self, trial_id: str, reason: str) -> EndedTrial:
        """End a trial, once the process in flight is through; nothing where it never began."""
        if trial_id not in self._open:
            return EndedTrial(trial_id=trial_id)
        self._send(Order(trial_id=trial_id, stop=reason))
        while True:  # the process in flight, of this or of another trial, reports before
            answer = self.answer()
            if isinstance(answer, EndedTrial) and answer.trial_id == trial_id:
                return answer

    def answer(self) -> ProcessLevel | EndedTrial:
        """What it reports next: the process that has run, or the end of a trial.

        Raises ExecutorError where the program has ended.
        """
        while True:
            message = _read(self._process, self.side)
            if message.process is not None:
                return message.process
            if message.ended is not None:
                self._open.discard(message.ended.trial_id)
                return message.ended

    def _send(self, order: Order) -> None:
        try:
            _orders(self._process).write(to_json(order) + b"\n")
        except BrokenPipeError as error:
            raise _gone(self._process, self.side) from error


@contextlib.contextmanager
def started(side: CodeVersion, modules: tuple[str, ...]) -> Iterator[Contender]:
    """Start a side's program; nothing of it is left in the end.

    Raises ExecutorError where it cannot begin.

    Args:
        modules: names of the user's modules, to tell where they come from.
    """
    before = os.environ.get("PYTHONPATH", "")
    search = os.pathsep.join(filter(None, [*map(str, side.search), before]))
    # Without revisions the current folder is not named, and may be anyone's.
    options = () if modules else ("-P",)
    with (side.directory / LOG).open("wb") as log:
        try:
            process = subprocess.Popen(
                [side.python, *options, "-m", "benchorch.run.duel.side"],
                cwd=side.folder,
                env={**os.environ, "PYTHONPATH": search},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is the duel's, which then ends it in order
            )
        except OSError as error:
            raise ExecutorError(f"{side.name}: {side.python}: {error.strerror}.") from error
    try:
        opening = Opening(directory=str(side.directory.resolve()), modules=modules)
        with contextlib.suppress(BrokenPipeError):
            _orders(process).write(to_json(opening) + b"\n")
        origin = _read(process, side).ready
        if origin is None or origin.version != VERSION:
            raise ExecutorError(f"{side.name} ({side.what}) has a benchorch of another release.")
        yield Contender(side, process, origin)
    finally:
        _end(process)


def _read(process: subprocess.Popen[bytes], side: CodeVersion) -> Message:
    assert process.stdout is not None  # a pipe
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise _gone(process, side)
    return from_json(Message, line)


def _orders(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None  # a pipe
    return process.stdin


def _gone(process: subprocess.Popen[bytes], side: CodeVersion) -> ExecutorError:
    """What a program said before it ended by itself."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    log = side.directory / LOG
    lines = log.read_text(errors="replace", encoding="utf-8").strip().splitlines()[-_LOG_LINES:]
    reason = " ".join(line.strip() for line in lines) or f"exit code {process.returncode}"
    lacking = (
        " Its benchorch has no duel: name a later revision, or install the same release there."
        if "benchorch.run.duel" in reason or "No module named benchorch" in reason
        else ""
    )
    return ExecutorError(f"{side.name} ({side.what}) ended: {reason}.{lacking} See {log}.")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program, in order if it can and with all that it started if not."""
    with contextlib.suppress(OSError):
        _orders(process).close()
    try:
        process.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        assert process.stdout is not None  # a pipe
        process.stdout.close()
