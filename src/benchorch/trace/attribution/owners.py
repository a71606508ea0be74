"""Attribution of events: the host call that started each, its operator and its module."""

from typing import NamedTuple

import numpy as np

from benchorch.trace.arrays import Bools, Int64s
from benchorch.trace.events import NOTHING, Category, Events, once
from benchorch.trace.lookup import joined_by, launches
from benchorch.trace.nesting import inherited, nest

MODULE = "mod:"  # how the name of a range around a module's forward pass begins
FRAME = "nn.Module: "  # how the name of a Python frame of a module's forward pass begins
ENGINE = "autograd::engine"  # how names of ranges of PyTorch's backward pass begin
ROOT = "(model)"  # the name of the module without one: the model that was profiled


class EventOwners(NamedTuple):
    """What each of n events belongs to, as indices of events; NOTHING where there is none."""

    # (n,) what encloses it on its thread; of device work, the host call it came from
    parent: Int64s
    operator: Int64s  # (n,) the innermost operator or graph node that it is, or is part of
    # (n,) the range of the innermost module; a backward operator's is that of the forward operator
    # it belongs to
    module: Int64s
    backward: Bools  # (n,) whether it is part of a backward pass


@once
def owners(events: Events) -> EventOwners:
    """The chain kernel, host call, operator, module of every event, once for each trace."""
    parent = parents(events)
    own = np.arange(len(events), dtype=np.int64)
    is_operator = np.isin(events.category, (Category.OPERATOR, Category.NODE))
    ranges = (Category.ANNOTATION, Category.OPERATOR, Category.PYTHON)
    is_module = np.isin(events.category, ranges)
    is_module &= events.called(lambda name: name.startswith((MODULE, FRAME)))
    module = inherited(parent, np.where(is_module, own, NOTHING))
    forward = _forward_operators(events)
    engine = events.called(lambda name: name.startswith(ENGINE))  # gradients have no forward part
    recalled = inherited(parent, np.where(forward >= 0, module[forward], NOTHING))
    return EventOwners(
        parent=parent,
        operator=inherited(parent, np.where(is_operator, own, NOTHING)),
        module=np.where(module == NOTHING, recalled, module),
        backward=inherited(parent, np.where((forward >= 0) | engine, own, NOTHING)) != NOTHING,
    )


def parents(events: Events) -> Int64s:
    """Parent of each event, (n,): the range around it; of device work, its launch or operator."""
    parent = np.array(nest(events).parent, dtype=np.int64)
    device = np.flatnonzero(events.works)
    calls = np.flatnonzero(events.category == Category.RUNTIME)
    operators = np.flatnonzero(events.category == Category.OPERATOR)
    launch = launches(events)[device]
    named = joined_by(events.external_id, operators, events.external_id[device])
    parent[device] = np.where(launch == NOTHING, named, launch)
    lost = calls[parent[calls] == NOTHING]
    parent[lost] = joined_by(events.external_id, operators, events.external_id[lost])
    return parent


def _forward_operators(events: Events) -> Int64s:
    """Last forward operator with the sequence number of each backward operator.

    Backward are autograd's nodes, and all else of which the trace names a forward thread.
    """
    found = np.full(len(events), NOTHING, dtype=np.int64)
    known = (events.category == Category.OPERATOR) & (events.sequence >= 0)
    named = events.called(lambda name: name.startswith(ENGINE) or "Backward" in name)
    backward = known & (named | (events.forward_lane != NOTHING))
    forward = np.flatnonzero(known & ~backward)
    later = np.flatnonzero(backward)
    if not len(forward) or not len(later):
        return found
    lane = np.where(events.forward_lane == NOTHING, events.lane, events.forward_lane)
    key = events.sequence * (len(events.lanes) + 1)
    match = joined_by(key + events.lane, forward, key[later] + lane[later])
    other = joined_by(events.sequence, forward, events.sequence[later])
    found[later] = np.where(match == NOTHING, other, match)
    return found


def module_name(range_name: str) -> str:
    """The module that a range or a frame is of."""
    return range_name.removeprefix(MODULE).removeprefix(FRAME) or ROOT
