"""Which work is a what-if about?"""

from __future__ import annotations

import numpy as np

from benchorch.trace.events import NOTHING
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.conditions import device_names, fitting_all, operator_names, time_limits
from benchorch.trace.whatif.patterns import matcher, suggest
from benchorch.trace.whatif.selector_values import WORK, Selection, Selector


def select(basis: Basis, selector: Selector) -> Selection:
    """What the selector is about; empty where nothing fits. The last one asked for is kept."""
    last: tuple[Selector, Selection] | None = basis.known.get("selected")
    if last is None or last[0] != selector:
        last = basis.known["selected"] = selector, _selected(basis, selector)
    return last[1]


def _selected(basis: Basis, selector: Selector) -> Selection:
    chosen = fitting_all(basis, selector)
    everything = np.ones(len(basis.events), dtype=np.bool_) if chosen is None else chosen
    own = np.where(everything, np.arange(len(basis.events), dtype=np.int64), NOTHING)
    root = own if chosen is None or selector.alone else basis.within(chosen)
    limited = list(time_limits(basis, selector))
    for within in limited:
        root = np.where(within, root, NOTHING)
    edges = basis.labelled(*(selector.classes or WORK))
    if limited or chosen is not None:
        edges &= basis.owned_by(root != NOTHING)
    return Selection(chosen=everything, root=root, edges=edges)


def problems(basis: Basis, selector: Selector) -> list[str]:
    """Why the selector finds no work that the graph knows of; nothing where it does."""
    if select(basis, selector).edges.any():
        return []
    events = basis.events
    found = []
    for what, wanted, known in (
        ("name", selector.name, events.names),
        ("op", selector.op, operator_names(basis)),
        ("kernel", selector.kernel, device_names(basis)),
        ("module", selector.module, basis.modules),
        ("lane", selector.lane, [lane.label or lane.thread for lane in events.lanes]),
    ):
        if wanted and not any(map(matcher(wanted), known)):
            listed = "" if known else " This trace has none at all."
            found.append(f"{what} {wanted!r} fits nothing.{suggest(wanted, known)}{listed}")
    window = basis.dag.window
    if selector.iteration not in (None, window.iteration) and window.name != "trace":
        found.append(
            f"iteration {selector.iteration} was not analysed, but {window.iteration} of "
            f"{window.name!r}."
        )
    return found or ["nothing in the analysed window fits all of it; leave out a condition."]
