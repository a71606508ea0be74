"""Graph breaks of a function and their reasons, from Dynamo's log."""

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACE = re.compile(
    r"in user code at (?P<file>.+):(?P<line>\d+)\nGraph Break Reason:(?P<why>[^$]*)"
)
_SKIPPED = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+)')
_LIMIT = re.compile(
    r"hit config\.\w+ \((?P<most>\d+)\)\s+function: .* \((?P<file>.+):(?P<line>\d+)\)"
)
_LOGGERS = ("symbolic_convert", "convert_frame")
_PREFACES = ("Encountered graph break", "Failed to handle graph break")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """Place where a function could not be captured in one piece.

    Attributes:
        file, line: of the user's code; empty and 0 where Dynamo does not say.
        reason: its first line.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.file else self.reason


class _BreakHandler(logging.Handler):
    """Handler of Dynamo's own log of graph breaks; not every one of them ends a graph."""

    def __init__(self, breaks: dict[GraphBreak, None]) -> None:
        super().__init__(logging.DEBUG)
        self._breaks = breaks

    def emit(self, record: logging.LogRecord) -> None:
        """Record a message about a break; ignore any other."""
        text = record.getMessage()
        match = _PLACE.search(text)
        limit = _LIMIT.search(text)
        if match:
            self._add(match["file"], int(match["line"]), match["why"])
        elif limit:
            why = f"compiled for {limit['most']} shapes, torch's limit; others run in Python: try"
            self._add(limit["file"], int(limit["line"]), f"{why} dynamic=True")
        elif record.exc_info and record.exc_info[1] is not None:
            places = list(_SKIPPED.finditer(text))
            file, line = (places[-1]["file"], int(places[-1]["line"])) if places else ("", 0)
            self._add(file, line, str(record.exc_info[1]))

    def _add(self, file: str, line: int, text: str) -> None:
        self._breaks[GraphBreak(file=file, line=line, reason=_reason(text))] = None


def _reason(text: str) -> str:
    """The first line with a reason, after Dynamo's preface."""
    lines = (line.strip() for line in text.splitlines())
    reasons = (line for line in lines if line and not line.startswith(_PREFACES))
    return next(reasons, "Dynamo gives no reason")


@contextlib.contextmanager
def recorded_breaks(breaks: dict[GraphBreak, None]) -> Iterator[None]:
    """Record every graph break meanwhile, with its place in the user's code."""
    listener = _BreakHandler(breaks)
    loggers = [logging.getLogger(f"torch._dynamo.{name}.__graph_breaks") for name in _LOGGERS]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        # Who has asked Dynamo for this log goes on reading it; nobody else does now.
        logger.propagate = logger.propagate and logger.isEnabledFor(logging.DEBUG)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(listener)
    warner = logging.getLogger("torch._dynamo.convert_frame")
    warner.addHandler(listener)
    try:
        yield
    finally:
        warner.removeHandler(listener)
        for logger, level, propagate in before:
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate
