"""JSON text of values that share nodes, as the trials of a plan do."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, final

from benchorch.domain.codec import Json

_STEP = "  "


def indented(value: Json) -> Iterator[str]:
    """The text of ``json.dumps(value, indent=2)`` in pieces; what repeats is spelled once."""
    spelling = _Spelling(value)
    if not isinstance(value, dict):
        yield spelling.text(value, "\n")
        return
    before = "{\n"
    for key, item in value.items():
        yield f"{before}{_STEP}{_name(key)}: "
        yield from spelling.items(item, f"\n{_STEP}")
        before = ",\n"
    yield "\n}" if value else "{}"


@final
class _Spelling:
    """The text of each node that is in more than one place, by its identity and indentation."""

    def __init__(self, value: Json) -> None:
        self._places: Counter[int] = Counter()
        self._texts: dict[tuple[int, str], str] = {}
        self._count(value)

    def _count(self, value: Any) -> None:
        if isinstance(value, dict | list | tuple):
            self._places[id(value)] += 1
            if self._places[id(value)] == 1:
                for item in value.values() if isinstance(value, dict) else value:
                    self._count(item)

    def items(self, value: Any, newline: str) -> Iterator[str]:
        """The text of a list piece by piece, of anything else as a whole."""
        if not isinstance(value, list | tuple) or not value:
            yield self.text(value, newline)
            return
        before = "["
        for item in value:
            yield f"{before}{newline}{_STEP}{self.text(item, newline + _STEP)}"
            before = ","
        yield f"{newline}]"

    def text(self, value: Any, newline: str) -> str:
        """Its text.

        Args:
            newline: with the indentation of the line that the value begins in.
        """
        if not isinstance(value, dict | list | tuple) or not value:
            return json.dumps(value)
        if self._places[id(value)] == 1:
            return self._whole(value, newline)
        key = (id(value), newline)
        if key not in self._texts:
            self._texts[key] = self._whole(value, newline)
        return self._texts[key]

    def _whole(self, value: Any, newline: str) -> str:
        inner = newline + _STEP
        if isinstance(value, dict):
            parts = [f"{_name(key)}: {self.text(item, inner)}" for key, item in value.items()]
            return f"{{{inner}{f',{inner}'.join(parts)}{newline}}}"
        parts = [self.text(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(parts)}{newline}]"


def _name(key: object) -> str:
    """A key, in quotation marks whatever its kind."""
    text = json.dumps(key)
    return text if isinstance(key, str) else f'"{text}"'
