"""Transfer breakdown: what a query spends outside the model, from passes of their own."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchorch.domain.measurement import TransferBreakdown
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.runtime import Executable
from benchorch.units import NS_PER_S

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

LEAST_PASSES = 2
# Slow models stop here: what they spend on copies is small beside their own time.
BUDGET_NS = NS_PER_S // 2
_ON_HOST = ("prepare", "compute", "post")
_ON_DEVICE = ("h2d", "compute", "d2h")
_HALVES = frozenset({"float16", "bfloat16"})


def transfer_breakdown(
    executable: Executable,
    batches: Sequence[Mapping[str, NDArray[generic]]],
    *,
    clock: Clock,
    device: str,
    passes: int,
) -> TransferBreakdown:
    """Time what surrounds a call, stage by stage and end to end, alternately on the same inputs.

    Binding arrays, calling and fetching outputs are drained apart in one pass and only at the end
    in the other, and the two alternate in being first. On the CPU nothing is copied between
    memories: binding is ``prepare`` and fetching is ``post``. Elsewhere they are ``h2d`` and
    ``d2h``, each with the host's own share of it: casts, and the copy into the framework's tensor.

    Args:
        batches: arrays on the host; getting hold of one is never timed.
        device: ``cpu`` or ``cuda``.
        passes: how many of each kind at most; fewer once half a second has gone by, never below 2.
    """
    names = _ON_HOST if device == "cpu" else _ON_DEVICE
    parts: list[tuple[int, int, int]] = []
    end_to_end: list[int] = []
    until_ns = clock.now_ns() + BUDGET_NS
    for index in range(passes):
        if index >= LEAST_PASSES and clock.now_ns() > until_ns:
            break
        batch = batches[index % len(batches)]
        if index % 2:
            end_to_end.append(_end_to_end_ns(executable, batch, clock))
        parts.append(_parts_ns(executable, batch, clock))
        if not index % 2:
            end_to_end.append(_end_to_end_ns(executable, batch, clock))
    stages = zip(names, zip(*parts, strict=True), strict=False)
    return TransferBreakdown(
        stages_ns=dict(stages),
        joined_ns=tuple(end_to_end),
        stage_bytes={} if device == "cpu" else _copied_bytes(executable, batches, len(parts)),
        host_memory="" if device == "cpu" else "pageable",
    )


def _parts_ns(
    executable: Executable, batch: Mapping[str, NDArray[generic]], clock: Clock
) -> tuple[int, int, int]:
    clock.drain()
    started_ns = clock.now_ns()
    call = executable.bind(batch)
    clock.drain()
    bound_ns = clock.now_ns()
    raw = call()
    clock.drain()
    called_ns = clock.now_ns()
    executable.outputs(raw)
    clock.drain()
    return bound_ns - started_ns, called_ns - bound_ns, clock.now_ns() - called_ns


def _end_to_end_ns(
    executable: Executable, batch: Mapping[str, NDArray[generic]], clock: Clock
) -> int:
    clock.drain()
    started_ns = clock.now_ns()
    executable.outputs(executable.bind(batch)())
    clock.drain()
    return clock.now_ns() - started_ns


def _copied_bytes(
    executable: Executable, batches: Sequence[Mapping[str, NDArray[generic]]], passes: int
) -> dict[str, int]:
    """Bytes copied to the device and back by the median pass: floats in the executable's dtype."""
    dtype = str(executable.settings().get("dtype", ""))
    sent, returned = [], []
    for batch in islice(batches, passes):
        sent.append(_bytes_as(batch, dtype))
        returned.append(_bytes_as(executable.outputs(executable.bind(batch)()), dtype))
    return {"h2d": _over_passes(sent, passes), "d2h": _over_passes(returned, passes)}


def _over_passes(sizes: Sequence[int], passes: int) -> int:
    """The median, over passes that rotate through batches of these sizes."""
    return round(statistics.median(islice(cycle(sizes), passes)))


def _bytes_as(arrays: Mapping[str, NDArray[generic]], dtype: str) -> int:
    """The arrays' size on the way: halves are cast before they go and widened after they came."""
    halved = dtype in _HALVES
    sizes = [
        each.size * 2 if halved and each.dtype.kind == "f" else each.nbytes
        for each in arrays.values()
    ]
    return sum(sizes)
