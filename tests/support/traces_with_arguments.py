"""Traces by hand whose events have arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.trace.events import Events


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments of some events by index."""

    arguments: Mapping[int, Mapping[str, object]]

    def __call__(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        """As a reader of files would give them."""
        return {index: self.arguments.get(index, {}) for index in indices}


def told(events: Events, arguments: Mapping[int, Mapping[str, object]]) -> Events:
    """The same events with arguments."""
    return replace(events, details=Arguments(arguments=arguments))


def operands(*shapes: Sequence[int], dtype: str = "float") -> dict[str, object]:
    """An operator's arguments, as PyTorch's profiler records them."""
    return {"Input Dims": [list(one) for one in shapes], "Input type": [dtype] * len(shapes)}
