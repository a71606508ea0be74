"""Modules and operators around each event, from the outside in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.attribution.owners import MODULE, Owners, inherited
from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.dag import CriticalPath
from benchorch.trace.distinct import distinct
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events
from benchorch.trace.report.call_chains import Chain, call_chains

NO_OWNER = "between events"
"""The name of time that belongs to no event."""

Stack = tuple[str, ...]
StackTime = tuple[Stack, int, int]
"""Names from the outside in, the nanoseconds, and the number of the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """The n events of a trace with their modules and operators.

    Attributes:
        events, owned: of the trace.
        types: by a name's number, the operator type that ONNX Runtime records of its node.
        module: (n,) number of the name of the innermost module's range, or NOTHING.
        chain: (n,) of the operators and device work above and of each, within that module.
        chains: all chains.
        extra: (n,) an event's own name where its chain does not end with it and it is no module.
    """

    events: Events
    owned: Owners
    types: Mapping[int, str]
    module: NDArray[int64]
    chain: NDArray[int64]
    chains: Sequence[Chain]
    extra: NDArray[int64]

    def stack_times(self, path: CriticalPath) -> Iterator[StackTime]:
        """The time on a path by stack and class, in the order of first occurrence."""
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
        """The innermost module's qualified name; empty where no range has one."""
        return self.module_name(int(self.module[event]))

    def outermost_operators(self) -> NDArray[int64]:
        """The farthest operator above each event that is still in the same module, (n,)."""
        module, parent, operator = self.owned.module, self.owned.parent, self.owned.operator
        own = np.arange(len(self.events), dtype=np.int64)
        # A parent without one has index -1: the last event's values are read and not used.
        within = (parent != NOTHING) & (operator[parent] != NOTHING) & (module[parent] == module)
        return inherited(parent, np.where((operator == own) & ~within, own, NOTHING))

    def _stack(self, module: int, chain: int, extra: int) -> Stack:
        """Parts of the module's name, operators, and the event's own name."""
        names = [self.events.names[extra]] if extra != NOTHING else []
        while chain:
            chain, code = self.chains[chain]
            names.append(self.events.names[code])
            names += [self.types[code]] if code in self.types else []
        qualified = self.module_name(module)
        return (*(qualified.split(".") if qualified else ()), *reversed(names)) or (NO_OWNER,)


def ancestry(events: Events, owned: Owners) -> Ancestry:
    """The ancestry of a trace; node types are read again from its file, once for each name."""
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
    named = np.array([name.startswith(MODULE) for name in events.names] or [False])
    found: NDArray[bool_] = named[events.name]
    return found


def _types(events: Events) -> dict[int, str]:
    nodes = np.flatnonzero(events.category == Category.NODE)
    codes, first = np.unique(events.name[nodes], return_index=True)
    details = events.details.read(nodes[first].tolist())
    kinds = (op_type("", details[int(event)]) for event in nodes[first])
    return {int(code): kind for code, kind in zip(codes, kinds, strict=True) if kind}
