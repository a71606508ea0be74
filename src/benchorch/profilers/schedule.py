"""Numbers of profiled calls, and of unprofiled ones for comparison."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle, islice

from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.profiler import Profiler
from benchorch.units import s_to_ns


def _unmarked(number: int) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled(Profiler):
    """A profiler with PyTorch's phases.

    Args:
        wait: calls that nothing records; the profiled ones are compared with them.
        warmup: calls under the profiler that are thrown away.
        active: calls that are kept.
        budget_s: seconds after which no phase starts, once it has made a call.
    """

    wait: int = 20
    warmup: int = 3
    active: int = 10
    budget_s: float = 5.0

    def __post_init__(self) -> None:
        for name, least in (("wait", 1), ("warmup", 0), ("active", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name}: got {value}, it must be at least {least}")
        if not self.budget_s > 0:
            raise ValueError(f"budget_s: got {self.budget_s:g}, it must be above 0")

    def make(
        self,
        count: int,
        calls: Sequence[Callable[[], object]],
        clock: Clock,
        mark: Callable[[int], AbstractContextManager[object]] = _unmarked,
    ) -> tuple[int, ...]:
        """Make `count` calls within the budget; return each one's nanoseconds.

        A call has ended when the device is idle again, and `mark` is entered around just that.
        """
        taken: list[int] = []
        clock.drain()
        until_ns = clock.now_ns() + s_to_ns(self.budget_s)
        for number, call in enumerate(islice(cycle(calls), count)):
            started_ns = clock.now_ns()
            with mark(number):
                call()
                clock.drain()
            taken.append(clock.now_ns() - started_ns)
            if clock.now_ns() >= until_ns:
                break
        return tuple(taken)
