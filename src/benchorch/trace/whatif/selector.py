"""Selection of the work that a what-if is about."""

import difflib
import fnmatch
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import numpy as np

from benchorch.errors import TraceError
from benchorch.formatting import whole_number
from benchorch.trace.arrays import Bools
from benchorch.trace.attribution.entities import operator_types
from benchorch.trace.attribution.owners import module_name
from benchorch.trace.events import NOTHING, Category, Lane
from benchorch.trace.operators.shapes import recorded
from benchorch.trace.whatif.basis import Basis, Selection, Selector

_MOST_S = 5.0
_OPTIMIZER = "/^Optimizer\\.(step|zero_grad)/"


def matcher(pattern: str) -> Callable[[str], bool]:
    """The predicate of a pattern; a name fits itself, whatever characters it has.

    ``/gemm|conv/`` is a regular expression that is searched for; ``*`` and ``?`` stand for any
    characters and for one.
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            searched = re.compile(pattern[1:-1])
        except re.error as error:
            raise TraceError(f"{pattern!r} is no regular expression: {error}.") from error
        return _bounded(pattern, searched)
    whole = re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
    return lambda name: name == pattern or whole.match(name) is not None


def _bounded(pattern: str, searched: re.Pattern[str]) -> Callable[[str], bool]:
    """The predicate, or a TraceError once it has taken `_MOST_S` in all: some never end."""
    left_s = _MOST_S

    def end(*_: object) -> NoReturn:
        raise TraceError(f"{pattern!r} takes more than {_MOST_S:g} s to search for: simplify it.")

    def fits(name: str) -> bool:
        nonlocal left_s
        if threading.current_thread() is not threading.main_thread():  # has no signals
            return searched.search(name) is not None
        before = signal.signal(signal.SIGVTALRM, end)
        signal.setitimer(signal.ITIMER_VIRTUAL, left_s)
        try:
            return searched.search(name) is not None
        finally:
            left_s = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0] or left_s
            signal.signal(signal.SIGVTALRM, before)

    return fits


def suggest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string."""
    close = difflib.get_close_matches(word, list(map(str, known)), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def select(basis: Basis, selector: Selector) -> Selection:
    """The selected work, empty where nothing fits; the basis keeps the last selection."""
    if selector not in basis.selected:
        basis.selected.clear()
        basis.selected[selector] = _selected(basis, selector)
    return basis.selected[selector]


def problems(basis: Basis, selector: Selector) -> list[str]:
    """Why the selector finds no work in the graph; nothing where it does."""
    if select(basis, selector).edges.any():
        return []
    events, types = basis.events, operator_types(basis.events)
    operators = np.isin(events.category, (Category.OPERATOR, Category.NODE))
    device = events.works
    ranges = basis.owned.module[basis.owned.module != NOTHING]
    modules = [module_name(events.names[code]) for code in np.unique(events.name[ranges])]
    found = []
    for key, pattern, names in (
        ("name", selector.name, events.names),
        ("op", selector.op, {types[code] for code in np.unique(events.name[operators])}),
        ("kernel", selector.kernel, [events.names[i] for i in np.unique(events.name[device])]),
        ("module", selector.module, modules),
        ("lane", selector.lane, [name for lane in events.lanes for name in _lane_names(lane)]),
    ):
        if pattern and not any(map(matcher(pattern), names)):
            none = "" if names else " This trace has none at all."
            found.append(f"{key} {pattern!r} fits nothing.{suggest(pattern, names)}{none}")
    steps = basis.analysis.steps
    if selector.iteration is not None and not 0 <= selector.iteration < len(steps.start_ns):
        found.append(
            f"iteration {selector.iteration} is none of the {len(steps.start_ns)} of "
            f"{steps.name!r}, which count from 0."
        )
    return found or ["nothing in the analysed window fits all of it; leave out a condition."]


def _selected(basis: Basis, selector: Selector) -> Selection:
    conditions = list(_conditions(basis, selector))
    fitting = np.logical_and.reduce(conditions) if conditions else None
    chosen = np.ones(len(basis.events), dtype=np.bool_) if fitting is None else fitting
    if selector.dtype or selector.shape:
        fitting = chosen = chosen & _of_tensors(basis, selector, chosen)
    root = np.where(chosen, np.arange(len(basis.events), dtype=np.int64), NOTHING)
    if fitting is not None and not selector.alone:
        root = basis.within(chosen)
    limits = list(_time_limits(basis, selector))
    for within in limits:
        root = np.where(within, root, NOTHING)
    edges = basis.labelled(*selector.classes) if selector.classes else basis.work.copy()
    if limits or fitting is not None:
        edges &= basis.owned_by(root != NOTHING)
    return Selection(chosen=chosen, root=root, edges=edges)


def _conditions(basis: Basis, selector: Selector) -> Iterator[Bools]:
    events = basis.events
    if selector.name:
        yield events.called(matcher(selector.name))
    if selector.op:
        fits = matcher(selector.op)
        named, types = events.called(fits), operator_types(events)
        typed = np.array([fits(one) for one in types] or [False])[events.name]
        operator, node = (events.category == one for one in (Category.OPERATOR, Category.NODE))
        yield (operator & named) | (node & (named | typed))
    if selector.kernel:
        work = events.works
        yield work & events.called(matcher(selector.kernel))
    if selector.module:
        yield _in_module(basis, selector.module)
    if selector.graph_node:
        yield _of_node(basis, selector.graph_node)


def _time_limits(basis: Basis, selector: Selector) -> Iterator[Bools]:
    """The events whose own time is within each given limit, (n,)."""
    if selector.lane:
        fits = matcher(selector.lane)
        on_lane = [any(map(fits, _lane_names(lane))) for lane in basis.events.lanes]
        yield np.array(on_lane or [False])[basis.events.lane]
    if selector.rank is not None:
        yield (basis.events.ranks == selector.rank)[basis.events.lane]
    if selector.phase:
        yield _in_phase(basis, selector.phase)
    if selector.iteration is not None:
        yield _in_iteration(basis, selector.iteration)


def _lane_names(lane: Lane) -> tuple[str, ...]:
    stream = (f"{lane.number}:{lane.stream}",) if lane.on_device else ()
    return lane.label, lane.thread, *stream


def _in_module(basis: Basis, pattern: str) -> Bools:
    """Events of a module whose name fits, or of one inside it."""
    fits = matcher(pattern)

    def inside(name: str) -> bool:
        parts = name.split(".")
        return any(fits(".".join(parts[: count + 1])) for count in range(len(parts)))

    events, module = basis.events, basis.owned.module
    fits_name = events.called(lambda name: inside(module_name(name)))
    return np.where(module != NOTHING, fits_name[module], np.False_)


def _of_node(basis: Basis, pattern: str) -> Bools:
    """Selection by node of the operator graph, or by kernel number in a launched graph."""
    fits = [*map(matcher(pattern), basis.nodes.names)]
    parts = np.array([*(any(fits[row] for row in part) for part in basis.nodes.shares), False])
    number = whole_number(pattern)
    launched = basis.events.graph_node == (NOTHING - 1 if number is None else number)
    found: Bools = parts[basis.nodes.part] | launched
    return found


def _in_phase(basis: Basis, phase: str) -> Bools:
    """Backward by autograd's nodes, the optimizer by its ranges; forward is what is neither."""
    optimizer = basis.within(basis.events.called(matcher(_OPTIMIZER))) != NOTHING
    backward = basis.owned.backward & ~optimizer
    masks = {"forward": ~(backward | optimizer), "backward": backward, "optimizer": optimizer}
    chosen: Bools = masks[phase]
    return chosen


def _in_iteration(basis: Basis, iteration: int) -> Bools:
    """Host events that start in a step, and the device work that they launch."""
    steps, start_ns = basis.analysis.steps, basis.events.start_ns
    if not 0 <= iteration < len(steps.start_ns):
        return np.zeros(len(basis.events), dtype=np.bool_)
    device = basis.events.works
    starts = ~device & (start_ns >= steps.start_ns[iteration])
    starts &= start_ns < steps.end_ns[iteration]
    found: Bools = starts | device & (basis.within(starts) != NOTHING)
    return found


def _of_tensors(basis: Basis, selector: Selector, chosen: Bools) -> Bools:
    """Events whose innermost operator was given such tensors; only of the chosen."""
    operators = np.unique(basis.owned.operator[chosen])
    arguments = basis.events.details(operators[operators != NOTHING].tolist())
    right = np.zeros(len(chosen) + 1, dtype=np.bool_)
    of_type, of_shape = matcher(selector.dtype or "*"), matcher(selector.shape or "*")
    for event, given in arguments.items():
        call = recorded(given)
        right[event] = call is not None and of_type(call.dtype) and of_shape(call.shapes)
    return right[basis.owned.operator]
