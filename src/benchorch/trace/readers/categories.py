"""Which words of the exporters mean which kind of event."""

from __future__ import annotations

import numpy as np

from benchorch.trace.events import DEVICE_WORK, Category

LEFT_OUT = -1
"""Of complete events that happen on no lane: they span what other events tell."""

WORK = np.isin(np.arange(len(Category)), DEVICE_WORK)
ON_STREAMS = WORK | np.isin(np.arange(len(Category)), (Category.SYNC, Category.RECORD))
"""Whether a category is work of a device; whether it has the lane of a stream. By category."""

_WORDS: dict[Category, str] = {
    Category.OPERATOR: "cpu_op operator hpu_op mtia_cpu_op",
    Category.ANNOTATION: "user_annotation",
    Category.PYTHON: "python_function python",
    Category.RUNTIME: (
        "cuda_runtime cuda_driver runtime driver hip_runtime hip_driver xpu_runtime xpu_driver "
        "mtia_runtime glow_runtime privateuse1_runtime privateuse1_driver musa_runtime api"
    ),
    Category.KERNEL: "kernel mtia_ccp_events collective_comm concurrent_kernel",
    Category.COPY: "gpu_memcpy memcpy",
    Category.FILL: "gpu_memset memset",
    Category.SYNC: "cuda_sync hip_sync xpu_sync musa_sync gpu_sync",
    Category.RECORD: "cuda_event hip_event xpu_event musa_event",
    Category.OVERHEAD: "overhead",
    Category.NODE: "node",
    Category.SESSION: "session",
}
_CATEGORIES = {word: int(category) for category, words in _WORDS.items() for word in words.split()}
_SPANS = dict.fromkeys(("trace", "gpu_user_annotation", "mtia_insight"), LEFT_OUT)


def category(word: str) -> int:
    """The `Category` that an exporter's word means, or LEFT_OUT."""
    known = {**_CATEGORIES, **_SPANS}
    return known.get(word.strip().casefold().replace(" ", "_"), int(Category.OTHER))
