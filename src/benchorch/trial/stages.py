"""The stages of a trial: what each requests of a process, and what that process replies.

Every measuring process imports this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from benchorch.domain.artifact import Format
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import BuildRecord, EnergyRecord, Failure, ModelCounts
from benchorch.domain.session import Session
from benchorch.domain.tensors import TensorSpec
from benchorch.domain.trial import ConfigNode
from benchorch.domain.verdict import Verdict

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Reporter(Protocol):
    """Reporter of a stage's progress."""

    def send_message(self, message: str) -> None:
        """A short phrase for people."""
        ...

    def send_partial(self, reply: object) -> None:
        """The reply so far, which counts if the process ends before it has replied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[Request, Reply]):
    """Stage, by its displayed name."""

    name: str
    request: type[Request]
    reply: type[Reply]


class StageFailed(Exception):
    """A stage without a reply.

    Attributes:
        failure: why.
        partial: what the process had reported before it failed, or None.
    """

    def __init__(self, failure: Failure, partial: object = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.partial = partial


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStageRequest:
    """Make a trial's artifact and reference outputs.

    Attributes:
        spec: the trial's.
        name: of the artifact, for people and for ``rebuild=never``.
        threads: threads per call, which some compilers fix in what they build.
        build_steps: build only so many steps; None for all of them.
        only_find: reply with `Found`, and make nothing.
    """

    spec: ConfigNode
    name: str
    session: Session
    threads: int
    build_steps: int | None = None
    only_find: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """Locations of a built trial, for its measuring processes.

    Attributes:
        source: directory of the chain's last artifact, or None where it leaves no files.
        sources: the directory of each format's last artifact.
        states: the directory of each state step's artifact, by the step's name.
        reference: directory of the reference outputs, ``0.npz``, ``1.npz``, ...
        scratch: the compiler's own cache for this artifact.
        counts: of the model as it was loaded, before any step changed it.
        refused: numbers of the input sets that eager does not take, which nobody is called with.
        cache: the tensors of a decoder's cache; empty for other models.
    """

    record: BuildRecord
    source: Path | None
    sources: Mapping[Format, Path]
    states: Mapping[str, Path]
    reference: Path
    scratch: Path
    counts: ModelCounts
    refused: tuple[int, ...] = ()
    cache: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the store has of a trial: all of it, or None."""

    built: Built | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTrial:
    """A trial that processes can load.

    Attributes:
        threads: threads per call.
        pin: whether the process is pinned to as many physical cores.
    """

    spec: ConfigNode
    built: Built
    threads: int
    pin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The trial that another one is paired with."""

    trial_id: str
    trial: BuiltTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """Measure a trial in one process.

    Attributes:
        verify: whether its outputs are compared with the reference's.
        split: whether the copying stages are timed apart afterwards.
        count: whether the operators that run are counted, too: the same in every process.
        baseline: what it is interleaved with afterwards, or None.
        candidate_first: whether it is then loaded and run alone before the baseline.
        seed: of the order in which the two are interleaved.
        cpus: the processors of the process that it is compared with; empty to choose.
        template: the package whose template its process is forked from; empty for none.
    """

    trial: BuiltTrial
    verify: bool = False
    split: bool = False
    count: bool = False
    baseline: Baseline | None = None
    candidate_first: bool = True
    seed: int = 0
    cpus: tuple[int, ...] = ()
    template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReply:
    """Measurements of one process; partial until it was interleaved with the baseline."""

    process: ProcessRecord
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """Run a few calls under a profiler, whose files go into the directory."""

    trial: BuiltTrial
    profiler: ConfigNode
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """Find the critical path of a profile's trace.

    Attributes:
        folder: the trial's own.
    """

    folder: Path
    profile: ProfileRecord


BUILD = Stage(name="build", request=BuildStageRequest, reply=Built)
FIND = Stage(name="build", request=BuildStageRequest, reply=Found)
MEASURE = Stage(name="measure", request=MeasureRequest, reply=MeasureReply)
ENERGY = Stage(name="energy", request=BuiltTrial, reply=EnergyRecord)
PROFILE = Stage(name="profile", request=ProfileRequest, reply=ProfileRecord)
# Its partial reply is a whole one: drawing pages may end the process.
EXPLAIN = Stage(name="explain", request=ExplainRequest, reply=BottleneckVerdict)
