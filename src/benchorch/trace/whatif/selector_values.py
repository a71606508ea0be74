"""Values of a what-if's selection: its conditions and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Class

PHASES = ("forward", "backward", "optimizer")


WORK = (
    *(Class.GPU_COMPUTE, Class.GPU_COPY, Class.GPU_COMM, Class.HOST_FUNCTION),
    *(Class.CPU_COMPUTE, Class.CPU_COMM, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME),
    *(Class.CPU_PYTHON, Class.CPU_GAP, Class.DATA_LOADING, Class.INPUT_OUTPUT),
    *(Class.SLEEP, Class.LOCK, Class.OUTSIDE),
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
        rank: only time on lanes of one rank, from 0.
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
    rank: int | None = None
    classes: tuple[Class, ...] = ()
    alone: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The result of a selector.

    Attributes:
        chosen: (n,) the events that fit.
        root: (n,) the outermost of them that each event is part of, NOTHING for none.
        edges: (E,) the edges whose weight is meant.
    """

    chosen: NDArray[np.bool_]
    root: NDArray[np.int64]
    edges: NDArray[np.bool_]
