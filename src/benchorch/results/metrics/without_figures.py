"""Results from which no figures follow: what deriving them raises, and where."""

import traceback
from pathlib import Path

from benchorch.errors import summary_of
from benchorch.journal.chain import UNREADABLE

WITHOUT_FIGURES = (ArithmeticError, LookupError, *UNREADABLE)
"""Exceptions that `summarise` raises for results that nothing measured, as a file may hold them."""

_PACKAGE = str(Path(__file__).parents[2])


def reason(error: BaseException) -> str:
    """The error with its place in benchorch, as of a sound run it is a mistake of benchorch's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    place = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{summary_of(error)}{place}"
