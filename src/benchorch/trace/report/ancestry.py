"""Under what did an event happen: its modules, and its operators from the outside in?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.trace.attribution.owners import MODULE, Owners, inherited
from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.dag import CriticalPath
from benchorch.trace.distinct import distinct
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events
from benchorch.trace.report.call_chains import Chain, call_chains

if TYPE_CHECKING:
    from numpy import bool_, int64
    from numpy.typing import NDArray

NO_OWNER = "between events"
"""What time is called that belongs to no event."""

Stack = tuple[str, ...]
Piece = tuple[Stack, int, int]
"""Names from the outside in, the nanoseconds, and the number of the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """The n events of a trace and what each belongs to.

    Attributes:
        events, owned: of the trace.
        types: by a name's number, the operator that ONNX Runtime says its node is of.
        module: (n,) number of the name of the innermost module's range, or NOTHING.
        chain: (n,) of the operators and device work above and of each, within that module.
        chains: all that there are.
        extra: (n,) an event's own name where its chain does not end with it and it is no module.
    """

    events: Events
    owned: Owners
    types: Mapping[int, str]
    module: NDArray[int64]
    chain: NDArray[int64]
    chains: Sequence[Chain]
    extra: NDArray[int64]

    def pieces(self, path: CriticalPath) -> Iterator[Piece]:
        """The time on a path by stack and class, in the order of first occurrence."""
        import numpy as np

        columns = [
            np.append(column, end)[path.owner]
            for column, end in ((self.module, -1), (self.chain, 0), (self.extra, -1))
        ]
        code = path.label.astype(np.int64)
        for column in columns:
            code = code * (int(column.max(initial=0)) + 2) + column + 1
        found = distinct(code)
        spent_ns = np.bincount(found.place, path.duration_ns, len(found.first))
        for piece in np.argsort(found.first, kind="stable").tolist():
            at = found.first[piece]
            stack = self._stack(*(int(column[at]) for column in columns))
            yield stack, int(spent_ns[piece]), int(path.label[at])

    def module_name(self, code: int) -> str:
        """The qualified name of the module whose range has the name of that number."""
        return self.events.names[code].removeprefix(MODULE) if code != NOTHING else ""

    def module_of(self, event: int) -> str:
        """The innermost module's qualified name; empty where no range says."""
        return self.module_name(int(self.module[event]))

    def outermost_operators(self) -> NDArray[int64]:
        """The farthest operator above each event that is still in the same module, (n,)."""
        import numpy as np

        module, parent, operator = self.owned.module, self.owned.parent, self.owned.operator
        own = np.arange(len(self.events), dtype=np.int64)
        # A parent without one has index -1: the last event's values are looked at and not used.
        within = (parent != NOTHING) & (operator[parent] != NOTHING) & (module[parent] == module)
        return inherited(parent, np.where((operator == own) & ~within, own, NOTHING))

    def _stack(self, module: int, chain: int, extra: int) -> Stack:
        """Parts of the module's name, operators, and what the event itself is called."""
        names = [self.events.names[extra]] if extra != NOTHING else []
        while chain:
            chain, code = self.chains[chain]
            names.append(self.events.names[code])
            names += [self.types[code]] if code in self.types else []
        qualified = self.module_name(module)
        return (*(qualified.split(".") if qualified else ()), *reversed(names)) or (NO_OWNER,)


def ancestry(events: Events, owned: Owners) -> Ancestry:
    """Of a trace; what its nodes are of is read again from its file, once for each name."""
    import numpy as np

    name = events.name.astype(np.int64)
    shown = np.isin(events.category, (Category.OPERATOR, Category.NODE, *DEVICE_WORK))
    is_module = _is_module(events)
    own = np.where(shown & ~is_module, name, NOTHING)
    chain, chains = call_chains(owned.parent, own, is_module)
    return Ancestry(
        events=events,
        owned=owned,
        types=_types(events),
        module=np.append(name, NOTHING)[owned.module],
        chain=chain,
        chains=chains,
        extra=np.where(shown | is_module, NOTHING, name),
    )


def _is_module(events: Events) -> NDArray[bool_]:
    import numpy as np

    named = np.array([name.startswith(MODULE) for name in events.names] or [False])
    found: NDArray[bool_] = named[events.name]
    return found


def _types(events: Events) -> dict[int, str]:
    import numpy as np

    nodes = np.flatnonzero(events.category == Category.NODE)
    codes, first = np.unique(events.name[nodes], return_index=True)
    said = events.details.read(nodes[first].tolist())
    kinds = (op_type("", said[int(event)]) for event in nodes[first])
    return {int(code): kind for code, kind in zip(codes, kinds, strict=True) if kind}
