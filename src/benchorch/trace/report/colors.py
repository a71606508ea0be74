"""The meaning of colors, the same in every chart, page and viewer."""

from __future__ import annotations

from itertools import pairwise

from benchorch.trace.dag import Class, Tier

PATH = "#8b0000"
"""Dark red: on the critical path."""

WHITE, INK = "#ffffff", "#000000"
RAMP = ((0.0, "#ffffff"), (0.5, "#8fcf9a"), (1.0, "#2e7d32"))
"""The greener, the larger the gain."""

OF_CLASS = {
    Class.GPU_COMPUTE: "#2e7d32",
    Class.GPU_MEMORY: "#66a61e",
    Class.GPU_COPY: "#a6d854",
    Class.GPU_COMM: "#1b9e77",
    Class.STREAM_GAP: "#c7d6c0",
    Class.LAUNCH_LATENCY: "#e6ab02",
    Class.SYNC_EXIT: "#d8b365",
    Class.CPU_COMPUTE: "#2166ac",
    Class.CPU_FRAMEWORK: "#67a9cf",
    Class.CPU_RUNTIME: "#7570b3",
    Class.CPU_PYTHON: "#b2abd2",
    Class.DATA_LOADING: "#80cdc1",
    Class.BACKPRESSURE: "#bf812d",
    Class.LOCK: "#a6761d",
    Class.PROFILER: "#969696",
    Class.CARRY_IN: "#bdbdbd",
    Class.UNEXPLAINED: "#e7298a",
}
OF_TIER = {
    Tier.RECORDED: "#2166ac",
    Tier.SEMANTIC: "#67a9cf",
    Tier.INFERRED: "#fdae61",
    Tier.UNEXPLAINED: "#e7298a",
}
PERFETTO = {
    "gpu": "thread_state_running",
    "cpu": "thread_state_runnable",
    "unexplained": "terrible",
    "profiler": "grey",
}
"""Names of the trace viewers' own palette, by how a class begins."""


def heat(share: float) -> str:
    """The ramp's color at a share between 0 and 1; others are clamped."""
    at = min(max(share, 0.0), 1.0)
    for (low, below), (high, above) in pairwise(RAMP):
        if at <= high:
            return _mix(below, above, (at - low) / (high - low))
    return RAMP[-1][1]


def text_on(color: str) -> str:
    """Black or white, whichever has more contrast."""
    return max((INK, WHITE), key=lambda ink: contrast(ink, color))


def contrast(one: str, other: str) -> float:
    """From 1, the same, to 21, black on white; text wants 4.5.

    Source
    ------
    W3C, *Web Content Accessibility Guidelines 2.1*, contrast ratio.
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = (_linear(part) for part in _parts(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def perfetto_name(label: str) -> str:
    """The name that trace viewers have for the color nearest to a class's."""
    return next(
        (name for start, name in PERFETTO.items() if label.startswith(start)), "thread_state_iowait"
    )


def _mix(below: str, above: str, share: float) -> str:
    parts = zip(_parts(below), _parts(above), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * share):02x}" for low, high in parts)


def _parts(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _linear(part: int) -> float:
    value = part / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
