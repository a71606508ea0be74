"""Reply of a subcommand, before anything is printed."""

from dataclasses import dataclass

from benchorch.domain.codec import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer for people and the same answer for programs.

    Where one of the two takes long to make, a command makes only the one that was asked for.

    Attributes:
        text: for a terminal.
        data: for ``--json``.
        exit_code: 0 all well, 1 something failed, 2 the request is wrong.
        is_coloured: whether the text has colours of benchorch's own; else it has none.
        verbatim: whether no line of the text may be folded for a terminal.
    """

    text: str
    data: Json
    exit_code: int = 0
    is_coloured: bool = False
    verbatim: bool = False
