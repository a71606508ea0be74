"""No profile: trials are only measured."""

from dataclasses import dataclass
from typing import final

from benchorch.errors import MeasureError
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Profiler


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoProfiler(Profiler):
    """Saves the seconds that profiling costs each trial."""

    wanted = False

    def unavailable(self, device: str) -> str | None:
        """Always: nothing is to be recorded."""
        return "no profile was requested: profiler=auto"

    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """Raises: this profiler records nothing."""
        raise MeasureError("No profile was requested.", kind="no_profiler", remedy="profiler=auto")
