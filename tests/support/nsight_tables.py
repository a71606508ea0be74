"""A small Nsight Systems export as tables of its documented schema: no real one was at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STRINGS = {
    1: "cudaLaunchKernel_v7000",
    2: "void gemm(int)",
    3: "pthread_cond_wait",
    4: "write",
    5: "worker",
    6: "cudaStreamWaitEvent_v3020",
    7: "step",
    8: "cudaEventRecord_v3020",
}
THREAD = (0xAB << 48) | (77 << 24) | 78
TIMES = {"start": 100, "end": 150}
ON_STREAM = {"deviceId": 0, "streamId": 7}
ON_NONE = {"deviceId": 0, "streamId": None}


def tables() -> dict[str, Sequence[Mapping[str, object]]]:
    return {
        "StringIds": [{"id": key, "value": text} for key, text in STRINGS.items()],
        "ENUM_CUDA_MEM_KIND": [{"id": 0, "label": "Pageable"}, {"id": 2, "label": "Device"}],
        "ThreadNames": [{"nameId": 5, "priority": 0, "globalTid": THREAD}],
        "TARGET_INFO_GPU": [{"name": "a GPU"}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {**TIMES, "globalTid": THREAD, "correlationId": 9, "nameId": 1},
            {"start": 152, "end": 153, "globalTid": THREAD, "correlationId": 11, "nameId": 8},
            {"start": 160, "end": 161, "globalTid": THREAD, "correlationId": 12, "nameId": 6},
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {
                **{"start": 200, "end": 900, "correlationId": 9, "graphNodeId": 4},
                **ON_STREAM,
                "demangledName": 2,
            }
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {
                **{"start": 900, "end": 950, "copyKind": 1, "srcKind": 0, "dstKind": 2},
                **ON_STREAM,
            }
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 960, "end": 955, **ON_STREAM}],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            {"correlationId": 10, "eventId": 3, "streamId": 20},
            {"correlationId": 11, "eventId": 3, "streamId": 21},
            {"correlationId": 13, "eventId": 3, "streamId": 23},
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {**TIMES, **ON_STREAM, "syncType": 2, "correlationId": 12, "eventId": 3},
            {**TIMES, **ON_NONE, "syncType": 4, "correlationId": 14, "eventId": None},
        ],
        "NVTX_EVENTS": [
            {"start": 90, "end": 300, "text": None, "textId": 7, "globalTid": THREAD},
            {"start": 95, "end": None, "text": "a mark", "textId": None, "globalTid": THREAD},
        ],
        "OSRT_API": [
            {"start": 400, "end": 500, "globalTid": THREAD, "nameId": 3},
            {"start": 500, "end": 510, "globalTid": THREAD, "nameId": 4},
        ],
    }
