"""Choice of the profiler by what a conversion runs on: torch's, or the runtime's own."""

from dataclasses import dataclass
from typing import final

from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest
from benchorch.profilers import kineto, own
from benchorch.profilers.schedule import Scheduled


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Scheduled):
    """Torch's profiler for what runs through torch, the runtime's own for everything else."""

    def unavailable(self, device: str) -> str | None:
        """Never: it is decided when the runtime is loaded."""
        return None

    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """A trace; MeasureError for a runtime that neither runs through torch nor records."""
        loaded = request.load(request.directory)
        if kineto.sees(loaded.executable):
            return kineto.capture(self, request, loaded)
        return own.capture(self, request, loaded)
