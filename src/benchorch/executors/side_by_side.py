"""Two streams of results at the same time, each in a thread of its own."""

import ctypes
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.interfaces.executor import Emit

Start: TypeAlias = Callable[[Emit], Iterator[TrialResult]]
"""Starts a stream, which reports its events to what it is given."""

JOIN_S = 60.0
"""How long a stream may take to end what it has started."""


class _Interrupted(SystemExit):
    """Raised within a stream's thread to end it, as Ctrl-C does in the main one."""


@final
@dataclass(frozen=True, slots=True)
class _Ended:
    """A stream is over, by an error or None."""

    error: BaseException | None


_Message: TypeAlias = TrialResult | Event | _Ended


def side_by_side(*starts: Start, emit: Emit) -> Iterator[TrialResult]:
    """The results of all streams as they come; events are passed on by the caller's thread.

    The first error of a stream ends the others and is raised. Closing the iterator ends all.
    """
    messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()
    streams = [_Stream(start=start, messages=messages) for start in starts]
    try:
        for stream in streams:
            stream.thread.start()
        running = len(streams)
        while running:
            message = messages.get()
            if isinstance(message, Event):
                emit(message)
            elif isinstance(message, TrialResult):
                yield message
            elif message.error is not None:
                raise message.error
            else:
                running -= 1
    finally:
        for stream in streams:
            stream.interrupt()
        for stream in streams:
            stream.join()


@final
@dataclass(slots=True, kw_only=True)
class _Stream:
    """Stream with its thread."""

    start: Start
    messages: queue.SimpleQueue[_Message]
    thread: threading.Thread = field(init=False)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._work, daemon=True)

    def interrupt(self) -> None:
        """End it at its next step of Python, so that it cleans up after itself."""
        if self.thread.is_alive() and not self.is_over:
            thread = ctypes.c_ulong(self.thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Interrupted))

    def join(self) -> None:
        """Wait until it has ended."""
        if self.thread.ident is not None:
            self.thread.join(JOIN_S)

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            results = self.start(self.messages.put)
            try:
                for result in results:
                    self.messages.put(result)
            finally:
                if isinstance(results, Generator):
                    results.close()
        except _Interrupted:
            pass
        except BaseException as failed:
            error = failed
        self.is_over = True
        self.messages.put(_Ended(error))
