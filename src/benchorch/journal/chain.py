"""Digests of a journal's lines: each covers its own line and names the one before.

::

    {..., "before": "<of the whole line before>", "digest": "<of this line up to here>"}

A SHA-256 finds damage, edits and lost lines. It is no signature: whoever rewrites the file can
compute another.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from benchorch.domain.codec import Json

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
"""Exceptions that reading data of an unexpected shape may raise."""

_BEFORE, _DIGEST = "before", "digest"
_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Line of a journal.

    Attributes:
        number: from 1.
        raw: its bytes without the newline.
        content: empty where it is damaged.
        problem: how it is damaged; empty where it is sound.
        is_sealed: whether it carries a digest; lines of earlier versions do not.
        follows: whether the line before is the one that it was written after.
    """

    number: int
    raw: bytes
    content: Mapping[str, Json]
    problem: str = ""
    is_sealed: bool = False
    follows: bool = True


def seal(value: Mapping[str, Json], before: bytes) -> bytes:
    """A line with its digest, without a newline.

    Args:
        before: the line before without its newline; empty for the first.
    """
    linked = {**value, _BEFORE: digest_of_bytes(before) if before else ""}
    body = json.dumps(linked, separators=(",", ":")).encode()[:-1]
    return body + f',"{_DIGEST}":"{digest_of_bytes(body)}"}}'.encode()


def seal_all(values: Iterable[Mapping[str, Json]], before: bytes) -> list[bytes]:
    """Lines that follow each other, as `seal` makes them."""
    lines = []
    for value in values:
        before = seal(value, before)
        lines.append(before)
    return lines


@dataclass(slots=True)
class Checker:
    """Checks lines as they come; a line without a digest may only come before all that have one."""

    number: int = 0
    before: bytes = b""
    sealed: bool = False

    def line(self, raw: bytes) -> Line:
        """The next line, with what is wrong with it."""
        self.number += 1
        line = _checked(self.number, raw, self.before, sealed=self.sealed)
        self.sealed = self.sealed or line.is_sealed
        self.before = raw
        return line


def checked(lines: Iterable[bytes]) -> Iterator[Line]:
    """Each line with what is wrong with it."""
    return map(Checker().line, lines)


def mapping_of(raw: bytes) -> Mapping[str, Json]:
    """The JSON object of a line; ValueError for anything else."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(value, Mapping):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 of the file, not of a caller
    return value


def digest_of_bytes(content: bytes) -> str:
    """The digest of a line or a file."""
    return sha256(content).hexdigest()


def _checked(number: int, raw: bytes, before: bytes, *, sealed: bool) -> Line:
    found = _SEAL.search(raw, max(0, len(raw) - 80))
    is_sealed = found is not None and found.end() == len(raw)
    try:
        if found is not None and is_sealed:
            _demand(
                found[1].decode() == digest_of_bytes(raw[: found.start()]), "its digest differs"
            )
        content = mapping_of(raw)
        _demand(is_sealed or not {_BEFORE, _DIGEST} & set(content), "its digest is damaged")
        _demand(is_sealed or not sealed, "it has no digest, which lines before it have")
    except ValueError as error:
        return Line(number=number, raw=raw, content={}, problem=str(error), is_sealed=is_sealed)
    link = digest_of_bytes(before) if before else ""
    follows = not is_sealed or content.get(_BEFORE) == link
    return Line(number=number, raw=raw, content=content, is_sealed=is_sealed, follows=follows)


def _demand(kept: bool, problem: str) -> None:
    if not kept:
        raise ValueError(problem)
