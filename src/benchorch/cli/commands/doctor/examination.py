"""Examination of the machine, and of benchorch on it by experiments with a known outcome.

Each part is independent: where one fails, the others are made and the reason is reported.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchorch.cli.commands.doctor.overhead import Overhead, overhead, overrides
from benchorch.cli.commands.doctor.self_comparison import Controls, controls
from benchorch.cli.commands.doctor.timer_accuracy import Agreement, agreement
from benchorch.config.composer import Composer, config_loader
from benchorch.domain.codec import Json
from benchorch.domain.trial import Plan
from benchorch.errors import BenchorchError
from benchorch.hardware.cpu import CpuClock
from benchorch.hardware.cuda import CudaHardware
from benchorch.host.advice import BAD, GOOD, NOTE, HostFinding, HostReadings, findings
from benchorch.host.environment import describe_host, physical_cores
from benchorch.host.interference import Interference
from benchorch.host.noise_grade import Grade, grade
from benchorch.host.pinning import placement
from benchorch.run.planner import new_plan_id, plan_jobs

Say = Callable[[str], None]
T = TypeVar("T")

_COMPILERS = ("g++", "clang++", "c++")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How often each experiment is repeated.

    Attributes:
        pairs: slices that benchorch and the bare loop each get.
        controls: processes in which identical work is compared with itself.
        processes: of the trial whose overhead is measured.
    """

    pairs: int
    controls: int
    processes: int


FULL = Repeats(pairs=60, controls=12, processes=5)
QUICK = Repeats(pairs=20, controls=5, processes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All findings; a part that could not be made is None, with the reason in `missing`.

    Attributes:
        host: the machine as `environment.describe_host` gives it.
        findings: what about it affects measurements.
        bare_loop: benchorch's timing against a bare loop.
        controls: comparisons whose outcome is known.
        overhead: of benchorch itself.
        missing: why a part is None, by its name in ``--json``.
        elapsed_s: duration of the examination.
    """

    host: Mapping[str, Json]
    grade: Grade
    findings: Sequence[HostFinding]
    bare_loop: Agreement | None
    controls: Controls | None
    overhead: Overhead | None
    missing: Mapping[str, str]
    elapsed_s: float

    @property
    def reasons(self) -> list[str]:
        """Reasons not to trust a measurement on this machine."""
        found = [f"{f.subject}: {f.seen}" for f in self.findings if f.weight == BAD]
        return found + [why for why in (self._timing(), self._pairing()) if why]

    @property
    def advice(self) -> list[str]:
        """What to change: first what is wrong, then what could be improved."""
        return [
            f"{finding.subject}: {finding.advice}"
            for weight in (BAD, NOTE)
            for finding in self.findings
            if finding.weight == weight and finding.advice
        ]

    @property
    def next_command(self) -> str:
        """The next command."""
        if self.grade.letter == "C":
            return "python -m benchorch model=mlp conversion=[eager,onnxruntime]"
        return "python -m benchorch model=bert"

    def _timing(self) -> str:
        if self.bare_loop is None or self.bare_loop.agrees:
            return ""
        off = self.bare_loop.ratio.value - 1
        return f"timing: a call measures {off:+.1%} against a bare loop"

    def _pairing(self) -> str:
        if self.controls is None or self.controls.told_apart:
            return ""
        same, slower = self.controls.same.verdict, self.controls.slower.verdict
        return (
            f"comparisons: identical work was judged {same}, and 10 % more work {slower}; "
            "by chance one of twenty examinations judges identical work different"
        )


def examine(say: Say, extent: Repeats = FULL) -> Examination:
    """Examine the machine and benchorch on it; nothing is changed."""
    began_s = time.monotonic()
    interference = Interference()
    parts = _Parts(say)
    say("machine: a second of equal pieces of work")
    graded = grade()
    with tempfile.TemporaryDirectory(prefix="benchorch-doctor-") as scratch:
        plan = parts.attempt(
            "conversions", "conversions: which can run here", lambda: _plan(scratch, extent)
        )
        agreed = parts.attempt(
            "bare_loop_ratio",
            "timing: interleaved with a bare loop",
            lambda: agreement(pairs=extent.pairs),
        )
        compared = parts.attempt(
            "a_a",
            f"comparisons: identical work, and 10 % more, in {extent.controls} processes",
            lambda: controls(Path(scratch, "controls.txt"), processes=extent.controls),
        )
        own = parts.attempt(
            "self_overhead",
            f"overhead: {extent.processes} processes of a trial, and as many bare ones",
            lambda: _overhead(plan, Path(scratch)),
        )
    looks = _looks(graded, interference)
    return Examination(
        host=looks.host,
        grade=graded,
        findings=[*findings(looks), *_software(plan)],
        bare_loop=agreed,
        controls=compared,
        overhead=own,
        missing=parts.missing,
        elapsed_s=time.monotonic() - began_s,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """Makes the parts in order and notes why one could not be made."""

    say: Say
    missing: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, doing: str, work: Callable[[], T]) -> T | None:
        self.say(doing)
        try:
            return work()
        except (BenchorchError, OSError) as error:
            self.missing[name] = str(error)
            return None


def _plan(scratch: str, extent: Repeats) -> Plan:
    """A small trial of every conversion; those that cannot run here are its skips."""
    composer = Composer(config_loader())
    every = ",".join(composer.options("conversion"))
    words = [*overrides(extent.processes), f"conversion=[{every}]", f"store.root={scratch}/store"]
    return plan_jobs(composer, composer.jobs(words), new_plan_id()).plan


def _overhead(plan: Plan | None, directory: Path) -> Overhead:
    trials = [] if plan is None else [t for t in plan.trials if t.labels["conversion"] == "eager"]
    if plan is None or not trials:
        raise BenchorchError("the eager MLP cannot run here, so there is no trial to examine")
    return overhead(plan, trials[0], directory)


def _looks(graded: Grade, interference: Interference) -> HostReadings:
    cores = physical_cores()
    return HostReadings(
        host=describe_host(),
        threads=cores,  # the default of a trial
        cores=cores,
        placement=placement(cores),
        conditions=interference.conditions(None, None, (), {}),
        grade=graded,
        calibration=CpuClock().calibrate(),
        device=_device_state(),
    )


def _device_state() -> Mapping[str, Json]:
    hardware = CudaHardware(kind="gpu", conversions=("eager",))
    return {} if hardware.mismatch() else hardware.meter().device_state()


def _software(plan: Plan | None) -> Iterator[HostFinding]:
    """Conversions that cannot run here, and the compiler that some of them need."""
    if plan is not None:
        count = len(plan.trials) + len(plan.skips)
        yield HostFinding(
            subject="conversions",
            seen=f"{len(plan.trials)} of {count} can run here",
            weight=NOTE if plan.skips else GOOD,
            advice="python -m benchorch conversions: what each of the others needs"
            if plan.skips
            else "",
        )
    compiler = next((name for name in _COMPILERS if shutil.which(name)), None)
    if compiler:
        yield HostFinding(subject="compiler", seen=compiler)
    else:
        advice = "a C++ compiler, e.g. apt-get install g++: inductor and AOTInductor call one"
        yield HostFinding(subject="compiler", seen="none", weight=NOTE, advice=advice)
