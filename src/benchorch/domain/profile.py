"""Profile of a trial, and the bottleneck that its trace shows."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.domain.bounds import Count, Finite, Moment, Positive

OPERATORS_FILE = "operators.json"
"""Beside a trace, the graph of the operators that ran."""

DILATION_LIMIT_RATIO = 1.15
"""Beyond it the profiler itself is a good part of what it shows."""


VOID_DILATION_RATIO = 3.0
"""Beyond it a profile is not of the program: it is made again, and has no verdict."""

VOID = "void"
"""The limit that such a profile names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckVerdict:
    """Bottleneck of a conversion, from the critical path of one call.

    Attributes:
        limit: ``device compute``, ``host framework``, ..., ``inconclusive``, ``void``.
        sentence: the same for a person, with its numbers.
        advice: what to try next; empty where nothing would help.
        largest: what alone would gain most if it took no time.
        largest_gain_ratio: by what share the call would then be shorter.
        critical_path_ns: length of the path, which is that of the profiled call.
        classes_ns: time on the path by what it was spent on; sums to the path.
    """

    limit: str
    sentence: str
    critical_path_ns: Count
    classes_ns: Mapping[str, Moment]
    advice: str = ""
    largest: str = ""
    largest_gain_ratio: Finite = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """Calls under a profiler, in a process of their own after everything was measured.

    Attributes:
        profiler: what recorded them: ``torch``, ``onnxruntime``, ``nsys``.
        trace: the file, relative to the trial's folder.
        unprofiled_ns, profiled_ns: duration of each call without and under the profiler, in the
            same process.
        bottleneck: what the trace shows; None where it could not be analysed.
        notes: what the trace lacks, one sentence each.
        unavailable: why there is no trace, or no analysis of it; empty where there are both.
    """

    profiler: str = ""
    trace: str = ""
    unprofiled_ns: tuple[Positive, ...] = ()
    profiled_ns: tuple[Count, ...] = ()
    bottleneck: BottleneckVerdict | None = None
    notes: tuple[str, ...] = field(default=())
    unavailable: str = ""

    @property
    def dilation_ratio(self) -> float | None:
        """Median of profiled over that of unprofiled calls; None where either is missing."""
        if not self.unprofiled_ns or not self.profiled_ns:
            return None
        return statistics.median(self.profiled_ns) / statistics.median(self.unprofiled_ns)
