"""Result of a trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from benchorch.domain.bounds import Amount, Count, Finite, Items
from benchorch.domain.codec import Json
from benchorch.domain.execution import Execution
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.price import Price
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.spending import BUDGET_REACHED
from benchorch.domain.verdict import Kind, Verdict

SCHEMA_VERSION = 2
"""Version of a line of ``results.jsonl``; see `TrialResult`."""

RUN_BUDGET, FUTILE = "run_budget_exhausted", "run_budget_cannot_decide"
"""Reasons to stop: `budget.minutes` are over; what is left of them would not decide anything."""

NO_PAIR_IN_TIME = "budget.minutes ended before the first pair"
"""Why a trial has no pair of its design, and has them once it goes on."""

_NOT_THE_TRIALS_FAULT = frozenset(
    {
        *("node_lost", "agent_failed", "no_node", "no_capacity", "wrong_node", "disk_full"),
        BUDGET_REACHED,
    }
)


class Outcome(StrEnum):
    """How a trial ended."""

    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a trial has no result.

    Attributes:
        stage: where it happened: build, verify, measure, schedule.
        kind: its class: ``build_refused``, ``oom``, ``crash:SIGSEGV``, ``timeout``,
            ``missing_package``, ``user_code``, ``disk_full``, ``node_lost`` ...
        message: one sentence with the value observed.
        remedy: the next thing to try, or an empty string.
        detail: traceback or last log lines, for the artifact rather than the table.
    """

    stage: str
    kind: str
    message: str
    remedy: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """Time and origin of a prepared artifact.

    Attributes:
        key: digest of the BuildKey; empty where nothing is kept.
        cache: ``hit``, ``miss``, ``stale`` (rebuild=never) or ``none`` (nothing to keep).
        build_s: seconds of wall time that *this* trial spent building; 0 on a hit.
        original_build_s: seconds the build took when it was made.
        artifact_bytes: size of the artifact.
        model_digest: SHA-256 over names, dtypes, shapes and bytes of the model's state.
        steps: each step's name with its cache state.
        reference: digest of the model and of its reference outputs; empty where another invocation
            cannot compute it again, and in records of earlier versions.
    """

    key: str
    cache: str
    build_s: Amount
    original_build_s: Amount
    artifact_bytes: Count
    model_digest: str
    steps: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""

    def is_same(self, other: Self) -> bool:
        """Whether both are the same artifact of the same model, so far as both identify it."""
        files = (self.key, self.model_digest) == (other.key, other.model_digest)
        return files and not self.is_of_another_model(other)

    def is_of_another_model(self, other: Self) -> bool:
        """Whether both identify their model and its reference outputs, and differ in them."""
        return "" not in (self.reference, other.reference) and self.reference != other.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCounts:
    """How much a model is, whatever it is converted to; None where it could not be counted.

    Attributes:
        parameters: elements of all parameters, shared ones once.
        parameter_bytes: what they occupy.
        macs: multiply-accumulates of one call, all its items together; where inputs have several
            sizes, on average over those that are timed.
        flops: floating-point operations of one call.
        uncounted: operators that the count knows no rule for, each with how often it ran.
        unavailable: why `macs` and `flops` are None; empty where they are known.
    """

    parameters: Count
    parameter_bytes: Count
    macs: Count | None
    flops: Count | None
    uncounted: Mapping[str, Count] = field(default_factory=dict)
    unavailable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """A stretch of uninterrupted calls under an energy counter.

    Attributes:
        joules: what the counter rose by.
        seconds: how long it was.
        calls: how many were completed.
        updates: how often the counter changed.
        busy_ratio: the device's utilisation meanwhile, or None.
    """

    joules: Finite
    seconds: Amount
    calls: Count
    updates: Count
    busy_ratio: Finite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyRecord:
    """Energy of a trial's calls, or the reason that it is unknown.

    Attributes:
        source: the counter, e.g. ``rapl package`` or ``nvml total``.
        idle_w: power of the idle machine before, in watts.
        items_per_call: elements of the batch in one call.
        unavailable: why there are no windows; empty where there are.
    """

    source: str = ""
    idle_w: Finite | None = None
    windows: tuple[EnergyWindow, ...] = ()
    items_per_call: Items = 1
    unavailable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file of a trial that the node where it ran has put into the run's bucket.

    Attributes:
        name: relative to the trial's folder.
        key: of the object, relative to the run's place in the bucket; of this attempt alone.
        sha256: of its bytes, in hexadecimal.
    """

    name: str
    key: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One line of ``results.jsonl``: the observations, before anything is derived.

    Attributes:
        processes: every process, those that do not count included; `valid` has those that do.
        stop_looks: counts of pairs at which its comparison was judged meanwhile; empty for none.
        delta_ratio: differences up to this share are of no practical importance.
        grade: noise level of the node: ``A``, ``B``, ``C`` or empty where it was not measured.
        pairing: how it was compared, or why it was not, in one phrase; empty for a baseline.
        profile: what a profiler recorded afterwards; None where none was requested.
        prices: of an hour of its machine, one a market; empty where nothing is paid for.
        execution: in which precision and where the operators ran; None where nothing was measured.
        started_at, ended_at: ISO 8601 in UTC; a trial that was lost before it ran has no start.
        uploads: its large files, where its node has no disk in common with the run's directory.
        unfinished: whether the trial was still being measured: its run was interrupted, or goes on.
        all_count: whether each process counts, however slow the machine was around it: none was to
            be repeated, or more were slowed than `protocol.repeats`.

    Schema history: 1, first; 2, with pairs, conditions, memory, counts and energy. What can
    be missing, such as the profile, comes without another.
    """

    trial_id: str
    labels: Mapping[str, str]
    outcome: Outcome
    failure: Failure | None = None
    build: BuildRecord | None = None
    parity: Verdict | None = None
    processes: tuple[ProcessRecord, ...] = ()
    stop_reason: str = ""
    environment: Mapping[str, Json] = field(default_factory=dict)
    stages_s: Mapping[str, Amount] = field(default_factory=dict)
    attempt: Count = 1
    baseline_id: str | None = None
    started_at: str = ""
    ended_at: str = ""
    stop_looks: tuple[Count, ...] = ()
    delta_ratio: Amount = 0.01
    grade: str = ""
    pairing: str = ""
    counts: ModelCounts | None = None
    energy: EnergyRecord | None = None
    profile: ProfileRecord | None = None
    prices: tuple[Price, ...] = ()
    execution: Execution | None = None
    uploads: tuple[UploadedFile, ...] = ()
    unfinished: bool = False
    all_count: bool = False
    schema_version: int = SCHEMA_VERSION

    @property
    def is_control(self) -> bool:
        """Whether the trial is an A/A control: its processes ran a second copy of the baseline."""
        paired = (process.paired for process in self.processes)
        return any(pair is not None and pair.baseline_id == self.trial_id for pair in paired)

    @property
    def dated_at(self) -> str:
        """Start; of a trial that never started on a node, the end."""
        return self.started_at or self.ended_at

    @property
    def disagrees(self) -> bool:
        """Whether its outputs were compared with the reference's and differ."""
        return self.parity is not None and not self.parity.passed

    @property
    def changes_its_answers(self) -> bool:
        """Whether it ran and is not deterministic."""
        kind = self.parity.kind if self.parity else None
        return self.failure is None and kind is Kind.NOT_DETERMINISTIC

    def beside(self, baseline: "TrialResult | None") -> "TrialResult":
        """The result; nothing agrees with a baseline that is not deterministic.

        The baseline's own process may find what no other does: there it makes more calls than
        anywhere.
        """
        if baseline is None or baseline.parity is None or not baseline.changes_its_answers:
            return self
        if self.parity is None or not self.parity.passed:
            return self
        reason = f"the baseline's own trial: {baseline.parity.explanation}"
        return replace(self, parity=self.parity.not_deterministic(reason))

    @property
    def is_sound(self) -> bool:
        """Whether it ran and is still the same model, so far as that was compared."""
        return self.outcome is Outcome.OK and not self.disagrees

    @property
    def is_final(self) -> bool:
        """Whether it needs no other run: it was measured to its end or failed by its own fault."""
        kind = self.failure.kind if self.failure else None
        return not self.unfinished and kind not in _NOT_THE_TRIALS_FAULT

    @property
    def valid(self) -> tuple[ProcessRecord, ...]:
        """The processes that count: they observed something, and nothing disturbed them."""
        measured = (p for p in self.processes if p.observations.durations_ns)
        return tuple(process for process in measured if not process.disturbance)


def beside_baselines(results: Mapping[str, TrialResult]) -> dict[str, TrialResult]:
    """Results by trial id, each read beside its baseline's; what is stored stays as it was."""
    return {name: one.beside(results.get(one.baseline_id or "")) for name, one in results.items()}
