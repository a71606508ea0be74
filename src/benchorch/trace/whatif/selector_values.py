"""Values of a what-if's selection: patterns of names, its conditions and its result."""

import difflib
import fnmatch
import re
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np

from benchorch.errors import TraceError
from benchorch.trace.arrays import Bools, Int64s
from benchorch.trace.dag import Class

_MOST_S = 5.0


def matcher(pattern: str) -> Callable[[str], bool]:
    """The predicate of a pattern.

    ``/gemm|conv/`` is searched for as a regular expression; ``*`` and ``?`` in anything else stand
    for any characters and for one; the rest has to be the same. A name fits itself, whatever
    characters it has.
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            searched = re.compile(pattern[1:-1])
        except re.error as error:
            raise TraceError(f"{pattern!r} is no regular expression: {error}.") from error
        return _bounded(pattern, searched)
    whole = re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
    return lambda name: name == pattern or whole.match(name) is not None


def _bounded(pattern: str, searched: re.Pattern[str]) -> Callable[[str], bool]:
    """The predicate, or a TraceError once it has taken `_MOST_S` in all: some never end."""
    left_s = _MOST_S

    def end(*_: object) -> NoReturn:
        raise TraceError(f"{pattern!r} takes more than {_MOST_S:g} s to search for: simplify it.")

    def fits(name: str) -> bool:
        nonlocal left_s
        if threading.current_thread() is not threading.main_thread():  # has no signals
            return searched.search(name) is not None
        before = signal.signal(signal.SIGVTALRM, end)
        signal.setitimer(signal.ITIMER_VIRTUAL, left_s)
        try:
            return searched.search(name) is not None
        finally:
            left_s = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0] or left_s
            signal.signal(signal.SIGVTALRM, before)

    return fits


def flags(names: Iterable[str], pattern: str) -> Bools:
    """Mask of the matching names, with one more entry, False, for index -1."""
    fits = matcher(pattern)
    return np.array([*(fits(name) for name in names), False], dtype=np.bool_)


def suggest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string."""
    close = difflib.get_close_matches(word, list(map(str, known)), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


PHASES = ("forward", "backward", "optimizer")


WORK = (
    *(Class.GPU_COMPUTE, Class.GPU_COPY, Class.GPU_COMM, Class.HOST_FUNCTION),
    *(Class.CPU_COMPUTE, Class.CPU_COMM, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME),
    *(Class.CPU_PYTHON, Class.CPU_GAP, Class.DATA_LOADING, Class.INPUT_OUTPUT),
    *(Class.SLEEP, Class.LOCK, Class.NATIVE, Class.OUTSIDE),
)
"""Classes selected by default: work, not waiting."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Events that fit everything that is given, with all that they call and launch."""

    # of any event; here and below exact, with wildcards, or ``/a regular expression/``
    name: str = ""
    op: str = ""  # name of an operator, or type of an ONNX node
    kernel: str = ""  # name of device work
    module: str = ""  # qualified name of a module; those inside it are included
    lane: str = ""  # only time on a thread or stream, by its label or number
    graph_node: str = ""  # node of an operator graph, or the number of one in a launched graph
    dtype: str = ""  # and shape: of an operator's inputs, ``float32`` and ``64x128, 128x32``
    shape: str = ""
    phase: str = ""  # only time in one of `PHASES`
    iteration: int | None = None  # only time in one of the window's ranges, from 0
    rank: int | None = None  # only time on lanes of one rank, from 0
    classes: tuple[Class, ...] = ()  # only time that is spent on these; by default on any `WORK`
    alone: bool = False  # only an event's own time, not that of what it calls and launches


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The result of a selector."""

    chosen: Bools  # (n,) the events that fit
    root: Int64s  # (n,) the outermost of them that each event is part of, NOTHING for none
    edges: Bools  # (E,) the edges whose weight is meant
