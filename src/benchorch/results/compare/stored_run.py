"""A run without its raw series: enough to compare it with another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.domain.bounds import Items, Real
from benchorch.domain.codec import Json
from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.result import Outcome, TrialResult, beside_baselines
from benchorch.domain.trial import Plan, Skip, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """A run's results and what is derived from them, as tables need them.

    Attributes:
        results: each trial's last one, by its id; read beside its baseline's.
        running: whether the run goes on.
        unstable: ids of trials that were overloaded, whose processes are not available.
    """

    directory: Path
    plan: Plan
    results: Mapping[str, TrialResult]
    summaries: Mapping[str, Summary]
    running: bool = False
    unstable: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", beside_baselines(self.results))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessValues:
    """Values of single processes, one each; only processes that count.

    Attributes:
        values: of each metric that every process has by itself, one value a process.
        pairs_ns: the trial's own and its baseline's median, of each paired process.
        design: of the pairs: ``alternated``, ``adjacent``, or ``sequential`` without any.
        canaries_ns: times of the reference workload before and after each process, where it ran.
        memory_ns: likewise of the one that copies memory.
        facts: what really ran.
        device: settings of the accelerator that stay while it is measured on; empty without one.
        unsteady_ratio: share of the processes that reached no steady state; None where not noted.
        position: time of the side that comes first in a pair over the second's; None if unknown.
        unstable: whether the one rate that was offered overloaded it.
        items_per_call: mean of the processes; None where not noted.
    """

    values: Mapping[str, tuple[Real, ...]] = field(default_factory=dict)
    pairs_ns: tuple[tuple[Real, ...], ...] = ()
    design: str = "sequential"
    canaries_ns: tuple[tuple[Real, ...], ...] = ()
    memory_ns: tuple[tuple[Real, ...], ...] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    device: Mapping[str, Json] = field(default_factory=dict)
    unsteady_ratio: float | None = None
    position: Estimate | None = None
    unstable: bool = False
    items_per_call: Items | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """Stored trial of a run.

    Attributes:
        plan_id: of the run it was measured in.
        result: without its processes; None where the run ended before it.
        summary: what was derived from the raw series while they were there; None without result.
    """

    plan_id: str
    trial: Trial
    result: TrialResult | None = None
    summary: Summary | None = None
    evidence: ProcessValues = field(default_factory=ProcessValues)

    @property
    def metrics(self) -> Mapping[str, Estimate]:
        """Derived metrics; empty without a result."""
        return {} if self.summary is None else self.summary.metrics

    @property
    def speedup(self) -> Comparison | None:
        """The comparison with its baseline, where there is one."""
        return None if self.summary is None else self.summary.speedup

    @property
    def environment(self) -> Mapping[str, Json]:
        """Facts of the machine and the packages; empty without a result."""
        return {} if self.result is None else self.result.environment

    @property
    def failure(self) -> str:
        """Why there is no result that could be compared, in one phrase; empty where there is."""
        if self.result is None:
            return "never ran"
        if self.result.failure is not None:
            return f"{self.result.failure.kind}: {self.result.failure.message}"
        return "" if self.result.outcome is Outcome.OK else self.result.outcome.value

    @property
    def disagreement(self) -> str:
        """How the outputs differ from the reference's; empty where they agree."""
        parity = None if self.result is None else self.result.parity
        if parity is None or parity.passed:
            return ""
        return parity.explanation or "the outputs differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """All trials of one invocation.

    Attributes:
        reference: how the user called it; for messages.
        trials: in the order in which they were declared.
        running: whether another process still adds to it.
    """

    reference: str
    plan_id: str
    name: str
    trials: tuple[StoredTrial, ...]
    skips: tuple[Skip, ...] = ()
    running: bool = False

    def run_results(self, directory: Path | None = None) -> RunResults:
        """The values of its tables.

        Args:
            directory: of the run; None where an exported file was read.
        """
        return RunResults(
            directory=directory or Path(f"<directory of {self.plan_id}>"),
            plan=Plan(
                plan_id=self.plan_id,
                name=self.name,
                trials=tuple(stored.trial for stored in self.trials),
                skips=self.skips,
                session={},
            ),
            results={s.trial.trial_id: s.result for s in self.trials if s.result is not None},
            summaries={s.trial.trial_id: s.summary for s in self.trials if s.summary is not None},
            running=self.running,
            unstable=frozenset(s.trial.trial_id for s in self.trials if s.evidence.unstable),
        )
