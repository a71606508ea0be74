"""Which work is a what-if about?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.trace.dag import Class
from benchorch.trace.events import NOTHING
from benchorch.trace.whatif.conditions import device_names, fitting_all, operator_names, time_limits
from benchorch.trace.whatif.patterns import matcher, suggest

if TYPE_CHECKING:
    from numpy import bool_, int64
    from numpy.typing import NDArray

    from benchorch.trace.whatif.basis import Basis

PHASES = ("forward", "backward", "optimizer")
WORK = (
    *(Class.GPU_COMPUTE, Class.GPU_MEMORY, Class.GPU_COPY, Class.GPU_COMM),
    *(Class.CPU_COMPUTE, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME, Class.CPU_PYTHON),
    Class.DATA_LOADING,
)
"""What is meant where no class is named: what is done, not what is waited for."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Events that fit everything that is given, with all that they call and launch.

    Attributes:
        name: of any event; here and below exact, with wildcards, or ``/a regular expression/``.
        op: name of an operator, or type of an ONNX node.
        kernel: name of device work.
        module: qualified name of a module; those inside it are included.
        graph_node: node of an operator graph, or the number of one in a launched graph.
        dtype, shape: of an operator's inputs, ``float32`` and ``64x128, 128x32``.
        lane: only time on a thread or stream, by its label or number.
        phase: only time in one of `PHASES`.
        iteration: only time in one of the window's ranges, from 0.
        classes: only time that is spent on these; by default on any `WORK`.
        alone: only an event's own time, not that of what it calls and launches.
    """

    name: str = ""
    op: str = ""
    kernel: str = ""
    module: str = ""
    lane: str = ""
    graph_node: str = ""
    dtype: str = ""
    shape: str = ""
    phase: str = ""
    iteration: int | None = None
    classes: tuple[Class, ...] = ()
    alone: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a selector found.

    Attributes:
        chosen: (n,) the events that fit.
        root: (n,) the outermost of them that each event is part of, NOTHING for none.
        edges: (E,) the edges whose weight is meant.
    """

    chosen: NDArray[bool_]
    root: NDArray[int64]
    edges: NDArray[bool_]


def select(basis: Basis, selector: Selector) -> Selection:
    """What the selector is about; empty where nothing fits. The last one asked for is kept."""
    last: tuple[Selector, Selection] | None = basis.known.get("selected")
    if last is None or last[0] != selector:
        last = basis.known["selected"] = selector, _selected(basis, selector)
    return last[1]


def _selected(basis: Basis, selector: Selector) -> Selection:
    import numpy as np

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
