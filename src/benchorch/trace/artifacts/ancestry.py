"""Under what did an event happen: its modules, and its operators from the outside in?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.trace.attribution.owners import MODULE, Owners, inherited
from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

DEEPEST = 400
"""Levels that are looked at; a launch that seems to lie in what it launched has no end."""

_SHOWN = (Category.OPERATOR, Category.NODE, *DEVICE_WORK)
"""What is a level of its own below the modules; of the rest only the event itself is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """The events of a trace and what each belongs to.

    Attributes:
        events, owned: n of them.
        types: by a name's number, the operator that ONNX Runtime says its node is of.
    """

    events: Events
    owned: Owners
    types: Mapping[int, str]

    def above(self, event: int) -> Iterator[int]:
        """The event, then its ancestors from the inside out."""
        for _ in range(DEEPEST):
            if event == NOTHING:
                return
            yield event
            event = int(self.owned.parent[event])

    def name(self, event: int) -> str:
        """Of an event."""
        return self.events.names[int(self.events.name[event])]

    def module(self, event: int) -> str:
        """The innermost module's qualified name; empty where no range says."""
        marked = int(self.owned.module[event])
        return "" if marked == NOTHING else self.name(marked).removeprefix(MODULE)

    def stack(self, event: int) -> tuple[str, ...]:
        """From the outermost: parts of the module's name, operators, and the event itself."""
        found = []
        for above in self.above(event):
            if self.name(above).startswith(MODULE):
                break
            if above == event or self.events.category[above] in _SHOWN:
                found.append(self.name(above))
                if kind := self.types.get(int(self.events.name[above])):
                    found.append(kind)
        module = self.module(event)
        return (*(module.split(".") if module else ()), *reversed(found))

    def outermost_operators(self) -> NDArray[int64]:
        """The farthest operator above each event that is still in the same module, (n,)."""
        import numpy as np

        module, parent, operator = self.owned.module, self.owned.parent, self.owned.operator
        own = np.arange(len(self.events), dtype=np.int64)
        # A parent without one has index -1: the last event's values are looked at and not used.
        within = (parent != NOTHING) & (operator[parent] != NOTHING) & (module[parent] == module)
        return inherited(parent, np.where((operator == own) & ~within, own, NOTHING))


def ancestry(events: Events, owned: Owners) -> Ancestry:
    """Of a trace; what its nodes are of is read again from its file, once for each name."""
    import numpy as np

    nodes = np.flatnonzero(events.category == Category.NODE)
    codes, first = np.unique(events.name[nodes], return_index=True)
    said = events.details.read(nodes[first].tolist())
    kinds = (op_type("", said[int(event)]) for event in nodes[first])
    types = {int(code): kind for code, kind in zip(codes, kinds, strict=True) if kind}
    return Ancestry(events=events, owned=owned, types=types)
