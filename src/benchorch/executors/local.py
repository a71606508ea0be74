"""Trials on this machine, one process at a time, so that none disturbs the one measuring."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.host.machine_kind import LOCAL_KINDS
from benchorch.interfaces.executor import Emit, Executor, TrialRunner


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Local(Executor):
    """Runs trials on the machine of this program.

    Attributes:
        isolated: each stage in a fresh child process under limits; without it every stage runs
            in this process, where a debugger can stop, with no limits and no protection.
        kinds: the hardware kinds that this machine may run.
    """

    isolated: bool = True
    kinds: Sequence[str] = LOCAL_KINDS

    def __post_init__(self) -> None:
        if not self.kinds or not all(self.kinds):
            raise ValueError(f"kinds must name at least one hardware kind, got {self.kinds!r}")

    def unreachable(self, hardware_kind: str) -> str | None:
        """Why trials of this hardware cannot run through this executor, or None."""
        if hardware_kind in self.kinds:
            return None
        return (
            f"hardware={hardware_kind} needs an EC2 stack or a Ray cluster (executor=ray); this "
            f"machine is {' or '.join(f'`{kind}`' for kind in self.kinds)}."
        )

    def measures_in_rounds(self, hardware_kind: str) -> bool:
        """They are."""
        return self.unreachable(hardware_kind) is None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, measured in rounds of one process each."""
        yield from work.in_rounds(trials, isolated=self.isolated, emit=emit)
