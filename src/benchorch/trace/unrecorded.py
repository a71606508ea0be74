"""Work of devices that a recording lacks, without which waiting for it counts as the host's."""

import re

import numpy as np

from benchorch.trace.attribution.entities import first_nodes
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.lookup import launches
from benchorch.trace.steps import Steps

_LAUNCHES = re.compile(r"(cuda|cu|hip)\w*(Launch(Cooperative)?Kernel|ModuleLaunch|GraphLaunch)")
_LOST_RATIO = 0.05  # share of the launches; a recording may end before the last of their work does
_QUEUED = re.compile(r"(CUDA|Tensorrt|TensorRTRTX|ROCM|MIGraphX|Dml|WebGpu|Js|CANN)Exec")
"""Execution providers of ONNX Runtime whose nodes only put work into a device's queue."""


def unrecorded(events: Events, steps: Steps) -> str:
    """A sentence on the work of devices that the steps lack; empty where they lack none."""
    called = (events.category == Category.RUNTIME) & events.called(_LAUNCHES.match)
    called &= events.correlation != NOTHING
    called &= events.start_ns >= steps.start_ns[steps.first]
    calls = np.flatnonzero(called & (events.start_ns <= steps.end_ns[steps.end - 1]))
    lost = len(calls) - int(np.isin(calls, launches(events)).sum())
    if lost > _LOST_RATIO * len(calls):
        return (
            f"{lost} of {len(calls)} launches have no device work in the trace, so waiting for it "
            "counts as the host's."
        )
    if events.works.any():
        return ""
    providers = {str(said.get("provider")) for said in first_nodes(events).values()}
    queued = " and ".join(sorted(filter(_QUEUED.search, providers)))
    if not queued:
        return ""
    return f"The profile has no device work of {queued}, so waiting for it counts as the host's."
