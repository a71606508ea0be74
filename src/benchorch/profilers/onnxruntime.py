"""ONNX Runtime's own profile: each node of the optimised graph in each call."""

from dataclasses import dataclass
from typing import final

from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest
from benchorch.profilers import own
from benchorch.profilers.schedule import Scheduled


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntimeProfiler(Scheduled):
    """The session's own recording, in a process without torch."""

    def unavailable(self, device: str) -> str | None:
        """Never: it is decided when the runtime is loaded."""
        return None

    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """The session's trace and the graph that it ran; MeasureError for other runtimes."""
        return own.capture(self, request, request.load(request.directory))
