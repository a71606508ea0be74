"""Roles of lanes: streams, the main thread, and threads that do no work."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import Category, Events, among

HOST = (
    Category.OPERATOR,
    Category.ANNOTATION,
    Category.PYTHON,
    Category.RUNTIME,
    Category.NODE,
    Category.SESSION,
    Category.OTHER,
)
_WORK = (Category.OPERATOR, Category.ANNOTATION, Category.NODE, Category.SESSION)
_STEP = re.compile(r"ProfilerStep#|benchorch:call|model_run$")


def daemons(
    events: Events, streams: NDArray[np.bool_], launching: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Of every lane whether it is a thread that does no work: no operators, ranges or launches.

    Where no thread does any, as in a trace of Python frames alone, none is a daemon.
    """
    working = np.zeros(len(events.lanes), dtype=np.bool_)
    working[events.lane[among(events.category, _WORK)]] = True
    working[events.lane[launching]] = True
    hosts = np.zeros(len(events.lanes), dtype=np.bool_)
    hosts[events.lane[among(events.category, HOST)]] = True
    hosts &= ~streams
    return hosts & ~working if (working & hosts).any() else np.zeros_like(hosts)


def main_lane(events: Events, hosts: NDArray[np.bool_]) -> int:
    """The thread that marks its steps or runs Python, else the one with most operators; or -1."""
    if not hosts.any():
        return -1
    steps = np.array([bool(_STEP.match(name)) for name in events.names] or [False])
    marks = steps[events.name] & among(events.category, (Category.ANNOTATION, Category.SESSION))
    for these in (
        marks,
        events.category == Category.PYTHON,
        among(events.category, _WORK),
        among(events.category, HOST),
    ):
        counts = np.bincount(events.lane[these], minlength=len(events.lanes)) * hosts
        if counts.any():
            return int(counts.argmax())
    return int(hosts.argmax())
