"""Categories of events by the exporters' words for them."""

from __future__ import annotations

from benchorch.trace.events import DEVICE_WORK, Category

LEFT_OUT = -1
"""Of complete events that happen on no lane: they only span what others record."""

_WORDS = {
    Category.OPERATOR: "cpu_op operator hpu_op",
    Category.ANNOTATION: "user_annotation",
    Category.PYTHON: "python_function python",
    Category.RUNTIME: "runtime driver api",
    Category.KERNEL: "kernel concurrent_kernel mtia_ccp_events collective_comm",
    Category.COPY: "gpu_memcpy memcpy",
    Category.FILL: "gpu_memset memset",
    Category.OVERHEAD: "overhead",
    Category.NODE: "node",
    Category.SESSION: "session",
}
_ENDINGS = {  # whatever the maker of the device: cuda_runtime, hip_driver, xpu_sync
    "_runtime": Category.RUNTIME,
    "_driver": Category.RUNTIME,
    "_sync": Category.SYNC,
    "_event": Category.RECORD,
}
_CATEGORIES = {
    **{word: category for category, words in _WORDS.items() for word in words.split()},
    **dict.fromkeys(("trace", "gpu_user_annotation", "mtia_insight"), LEFT_OUT),
    "cpu_instant_event": Category.OTHER,
}


def category(word: str) -> int:
    """The `Category` that an exporter's word means, or LEFT_OUT."""
    spelled = word.strip().casefold().replace(" ", "_")
    if spelled in _CATEGORIES:
        return int(_CATEGORIES[spelled])
    ending = spelled[spelled.rfind("_") :] if "_" in spelled else ""
    return int(_ENDINGS.get(ending, Category.OTHER))


WORK = tuple(DEVICE_WORK)
"""Work of a device."""

ON_STREAMS = (*WORK, Category.SYNC, Category.RECORD)
"""What has the lane of a stream."""

CALLS = (*ON_STREAMS, Category.RUNTIME, Category.OTHER)
"""What may have a correlation."""

CALLED = (Category.OPERATOR, Category.ANNOTATION, Category.OTHER)
"""What may have a place in the forward or backward pass."""
