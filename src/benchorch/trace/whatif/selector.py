"""Which work is a what-if about?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.dag import Class
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category
from benchorch.trace.shapes import recorded
from benchorch.trace.whatif.patterns import flags, matcher, suggest
from benchorch.trace.windows import windows

if TYPE_CHECKING:
    from numpy import bool_, int32, int64
    from numpy.typing import NDArray

    from benchorch.trace.whatif.basis import Basis

PHASES = ("forward", "backward", "optimizer")
WORK = (
    *(Class.GPU_COMPUTE, Class.GPU_MEMORY, Class.GPU_COPY, Class.GPU_COMM),
    *(Class.CPU_COMPUTE, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME, Class.CPU_PYTHON),
    Class.DATA_LOADING,
)
"""What is meant where no class is named: what is done, not what is waited for."""

_OPTIMIZER = "/^Optimizer\\.(step|zero_grad)/"


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
    """What the selector is about; empty where nothing fits."""
    import numpy as np

    chosen = _fitting(basis, selector)
    everything = np.ones(len(basis.events), dtype=np.bool_) if chosen is None else chosen
    own = np.where(everything, np.arange(len(basis.events), dtype=np.int64), NOTHING)
    root = own if chosen is None or selector.alone else basis.within(chosen)
    limits = list(_limits(basis, selector))
    for fitting in limits:
        root = np.where(fitting, root, NOTHING)
    edges = basis.labelled(*(selector.classes or WORK))
    if limits or chosen is not None:
        edges &= basis.owned_by(root != NOTHING)
    return Selection(chosen=everything, root=root, edges=edges)


def problems(basis: Basis, selector: Selector) -> list[str]:
    """Why the selector finds no work that the graph knows of; nothing where it does."""
    if _finds_own_time(basis, selector) or select(basis, selector).edges.any():
        return []
    events = basis.events
    found = []
    for what, wanted, known in (
        ("name", selector.name, events.names),
        ("op", selector.op, _operators(basis)),
        ("kernel", selector.kernel, _names_of(basis, *DEVICE_WORK)),
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


def _fitting(basis: Basis, selector: Selector) -> NDArray[bool_] | None:
    """The events that fit all conditions, (n,); None where there is none."""
    import numpy as np

    conditions = list(_conditions(basis, selector))
    chosen = np.logical_and.reduce(conditions) if conditions else None
    if selector.dtype or selector.shape:
        looked_at = np.ones(len(basis.events), dtype=np.bool_) if chosen is None else chosen
        chosen = looked_at & _of_tensors(basis, selector, looked_at)
    return chosen


def _finds_own_time(basis: Basis, selector: Selector) -> bool:
    """Whether what fits has time of its own, so that what it calls need not be looked for."""
    chosen = _fitting(basis, selector)
    if chosen is None or any(True for _ in _limits(basis, selector)):
        return False
    edges = basis.labelled(*(selector.classes or WORK)) & basis.owned_by(chosen)
    return bool(edges.any())


def _conditions(basis: Basis, selector: Selector) -> Iterator[NDArray[bool_]]:
    """Of each condition that is given the events that fit, (n,)."""
    import numpy as np

    events = basis.events
    if selector.name:
        yield flags(events.names, selector.name)[events.name]
    if selector.op:
        yield _of_operator(basis, selector.op)
    if selector.kernel:
        work = np.isin(events.category, DEVICE_WORK)
        yield work & flags(events.names, selector.kernel)[events.name]
    if selector.module:
        yield _in_module(basis, selector.module)
    if selector.graph_node:
        yield _of_node(basis, selector.graph_node)


def _limits(basis: Basis, selector: Selector) -> Iterator[NDArray[bool_]]:
    """Of each limit on time that is given the events whose own time is within it, (n,)."""
    if selector.lane:
        yield _on_lane(basis, selector.lane)[basis.events.lane]
    if selector.phase:
        yield _in_phase(basis, selector.phase)
    if selector.iteration is not None:
        yield _in_iteration(basis, selector.iteration)


def _operators(basis: Basis) -> Collection[str]:
    """Names of operators, and types of nodes."""
    types = _types(basis)
    return {types[code] for code in _codes_of(basis, Category.OPERATOR, Category.NODE)}


def _names_of(basis: Basis, *categories: Category) -> Collection[str]:
    return [basis.events.names[code] for code in _codes_of(basis, *categories)]


def _codes_of(basis: Basis, *categories: Category) -> NDArray[int32]:
    import numpy as np

    return np.unique(basis.events.name[np.isin(basis.events.category, categories)])


def _of_operator(basis: Basis, pattern: str) -> NDArray[bool_]:
    """Operators by their name; nodes of an ONNX graph by their name or their type."""
    events = basis.events
    named = flags(events.names, pattern)[events.name]
    typed = flags(_types(basis), pattern)[events.name]
    is_node = events.category == Category.NODE
    found: NDArray[bool_] = (events.category == Category.OPERATOR) & named
    found |= is_node & (named | typed)
    return found


def _types(basis: Basis) -> Sequence[str]:
    """Of each name the operator's type, as the first node of that name says it."""
    import numpy as np

    events = basis.events
    nodes = np.flatnonzero(events.category == Category.NODE)
    first = nodes[np.unique(events.name[nodes], return_index=True)[1]].tolist()
    said = events.details.read(first) if first else {}
    of_code = {
        int(events.name[event]): op_type(events.names[events.name[event]], arguments)
        for event, arguments in said.items()
    }
    return [of_code.get(code, name) for code, name in enumerate(events.names)]


def _in_module(basis: Basis, pattern: str) -> NDArray[bool_]:
    """Events of a module whose name fits, or of one inside it."""
    import numpy as np

    fits = matcher(pattern)

    def inside(name: str) -> bool:
        parts = name.split(".")
        return any(fits(".".join(parts[: count + 1])) for count in range(len(parts)))

    flagged = np.array([*(inside(name) for name in basis.modules), False], dtype=np.bool_)
    found: NDArray[bool_] = flagged[basis.module]
    return found


def _on_lane(basis: Basis, pattern: str) -> NDArray[bool_]:
    import numpy as np

    fits = matcher(pattern)
    return np.array(
        [
            fits(lane.label) or fits(lane.thread) or fits(f"{lane.device}:{lane.stream}")
            for lane in basis.events.lanes
        ]
        or [False]
    )


def _of_node(basis: Basis, pattern: str) -> NDArray[bool_]:
    """By the operator graph's node, or by the number of a kernel in a launched graph."""
    import numpy as np

    nodes = basis.nodes()
    fits = flags(nodes.names, pattern)
    parts = np.array([*(any(fits[row] for row in part) for part in nodes.shares), False])
    number = int(pattern) if pattern.isdigit() else NOTHING - 1
    found: NDArray[bool_] = parts[nodes.part] | (basis.events.graph_node == number)
    return found


def _in_phase(basis: Basis, phase: str) -> NDArray[bool_]:
    """Backward by autograd's nodes, the optimizer by its ranges; forward is what is neither."""
    optimizer = basis.within(flags(basis.events.names, _OPTIMIZER)[basis.events.name]) != NOTHING
    backward = basis.owned.backward & ~optimizer
    masks = {"forward": ~(backward | optimizer), "backward": backward, "optimizer": optimizer}
    chosen: NDArray[bool_] = masks[phase]
    return chosen


def _in_iteration(basis: Basis, iteration: int) -> NDArray[bool_]:
    """Host events that start in a window, and the device work that they launch."""
    import numpy as np

    every = windows(basis.events, None)
    if not 0 <= iteration < len(every):
        return np.zeros(len(basis.events), dtype=np.bool_)
    window, start_ns = every[iteration], basis.events.start_ns
    device = np.isin(basis.events.category, DEVICE_WORK)
    starts = ~device & (start_ns >= window.start_ns) & (start_ns < window.end_ns)
    found: NDArray[bool_] = starts | device & (basis.within(starts) != NOTHING)
    return found


def _of_tensors(basis: Basis, selector: Selector, chosen: NDArray[bool_]) -> NDArray[bool_]:
    """Events whose innermost operator was given such tensors; only the chosen are looked at."""
    import numpy as np

    operators = np.unique(basis.owned.operator[chosen])
    said = basis.events.details.read(operators[operators != NOTHING].tolist())
    right = np.zeros(len(chosen) + 1, dtype=np.bool_)
    of_type, of_shape = matcher(selector.dtype or "*"), matcher(selector.shape or "*")
    for event, arguments in said.items():
        call = recorded(arguments)
        right[event] = call is not None and of_type(call.dtype) and of_shape(call.shapes)
    found: NDArray[bool_] = right[basis.owned.operator]
    return found
