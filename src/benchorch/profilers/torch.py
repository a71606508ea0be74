"""PyTorch's profiler, for whatever runs through torch."""

from dataclasses import dataclass
from typing import final

from benchorch.host.environment import is_installed
from benchorch.host.packages import install_command
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest
from benchorch.profilers import kineto
from benchorch.profilers.schedule import Scheduled


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchProfiler(Scheduled):
    """Operators with their shapes and memory, modules, waits, kernels.

    Args:
        stacks: a second trace with Python's stack of each operator; finding them disturbs.
    """

    stacks: bool = False

    def unavailable(self, device: str) -> str | None:
        """Unavailable without torch."""
        if is_installed("torch"):
            return None
        return f"torch is not installed: {install_command(['torch'])}"

    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """A chrome trace and PyTorch's tables; MeasureError where torch is not what runs."""
        return kineto.capture(self, request, request.load(request.directory), stacks=self.stacks)
