"""Properties of this machine that disturb a measurement, and how to change them.

Each finding rests on values that were read; where the platform does not tell, it says so. Nothing
is changed here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration, Conditions
from benchorch.host.noise_grade import A_RATIO, A_STEAL_RATIO, Grade
from benchorch.host.pinning import PinnedCpus
from benchorch.units import format_bytes

GOOD, NOTE, BAD = "good", "note", "bad"

# Read by the processor itself; all others ask a slow device or the hypervisor.
_FAST_CLOCKS = ("tsc", "arch_sys_counter")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FOREIGN_RATIO = 0.05
_READ_NS = 200.0
_A_GOAL = f"goal: A, at most {A_RATIO:g} times and below {A_STEAL_RATIO:.1%} stolen"
_NO_GOVERNOR = "not visible from here: the host decides on clocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinding:
    """One property of the machine.

    Attributes:
        subject: which, in a word or two.
        seen: its value, for people.
        weight: ``good``; ``note``, of which results only have to tell; ``bad``, worth changing.
        advice: what to change and how; empty where there is nothing to change.
    """

    subject: str
    seen: str
    weight: str = GOOD
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReadings:
    """Readings of a machine.

    Attributes:
        host: as `environment.describe_host` gives it.
        threads: that a call will use.
        cores: physical ones that may be used.
        placement: where such a process would run.
        conditions: during the examination.
        device: the accelerator's own report; empty without one.
    """

    host: Mapping[str, Json]
    threads: int
    cores: int
    placement: PinnedCpus
    conditions: Conditions
    grade: Grade
    calibration: Calibration
    device: Mapping[str, Json]


def findings(readings: HostReadings) -> list[HostFinding]:
    """Every finding, in the order of a checklist."""
    return [finding for check in _CHECKS for finding in check(readings)]


def _grade(readings: HostReadings) -> Iterator[HostFinding]:
    grade = readings.grade
    even = f"1 ms of work takes {grade.p99_over_p50:.2f} times its median in one of a hundred cases"
    seen = f"{grade.letter}: {'; '.join(grade.reasons) or even}, {_A_GOAL}"
    if grade.letter != "C":
        yield HostFinding(subject="grade", seen=seen, weight=GOOD if grade.letter == "A" else NOTE)
        return
    how = "interleaved comparisons hold here, absolute times do not"
    if readings.host.get("virtual_machine"):
        how += "; a dedicated host or a bare-metal instance has no unseen neighbours"
    yield HostFinding(subject="grade", seen=seen, weight=BAD, advice=how)


def _others(readings: HostReadings) -> Iterator[HostFinding]:
    foreign = readings.conditions.foreign_ratio
    load = cast("list[float]", readings.host["load_average"])[0]
    if foreign is None:
        yield HostFinding(
            subject="other work", seen=f"unknown; load average {load:.1f}", weight=NOTE
        )
        return
    goal = f"goal: at most {_FOREIGN_RATIO:.0%}"
    seen = f"{foreign:.1%} of the processors' time, {goal}; load average {load:.1f}"
    if foreign <= _FOREIGN_RATIO:
        yield HostFinding(subject="other work", seen=seen)
        return
    advice = "end other programs, or wait for them: `top` names them"
    yield HostFinding(subject="other work", seen=seen, weight=BAD, advice=advice)


def _stolen(readings: HostReadings) -> Iterator[HostFinding]:
    stolen = readings.conditions.steal_ratio
    if stolen is None:
        yield HostFinding(subject="stolen time", seen="not told by this platform", weight=NOTE)
        return
    seen = f"{stolen:.2%}, goal: below {A_STEAL_RATIO:.1%}"
    if stolen < A_STEAL_RATIO:
        yield HostFinding(subject="stolen time", seen=seen)
    else:
        advice = "the host is overcommitted: another instance, or a dedicated one"
        yield HostFinding(subject="stolen time", seen=seen, weight=BAD, advice=advice)


def _quota(readings: HostReadings) -> Iterator[HostFinding]:
    quota = cast("float | None", readings.host["cpu_quota_cores"])
    throttled = readings.conditions.throttled_periods
    if throttled:
        seen = f"{quota or 0:g} cores, held back in {throttled} periods"
        advice = "raise the control group's cpu.max, or remove it: it stops whole calls"
        yield HostFinding(subject="quota", seen=seen, weight=BAD, advice=advice)
    elif quota is not None:
        yield HostFinding(subject="quota", seen=f"{quota:g} cores, never held back", weight=NOTE)
    else:
        yield HostFinding(subject="quota", seen="none")


def _governor(readings: HostReadings) -> Iterator[HostFinding]:
    governor = readings.host["cpu_governor"]
    if governor is None:
        yield HostFinding(subject="governor", seen=_NO_GOVERNOR, weight=NOTE)
    elif governor == "performance":
        yield HostFinding(subject="governor", seen="performance")
    else:
        advice = "sudo cpupower frequency-set --governor performance"
        yield HostFinding(subject="governor", seen=str(governor), weight=BAD, advice=advice)


def _boost(readings: HostReadings) -> Iterator[HostFinding]:
    boost = readings.host["cpu_boost"]
    if boost is None:
        yield HostFinding(subject="boost", seen="not visible from here", weight=NOTE)
    elif not boost:
        yield HostFinding(subject="boost", seen="off")
    else:
        advice = (
            "for absolute times that repeat: echo 0 | sudo tee "
            "/sys/devices/system/cpu/cpufreq/boost (intel_pstate: 1 into no_turbo)"
        )
        yield HostFinding(
            subject="boost", seen="on: clocks follow heat", weight=NOTE, advice=advice
        )


def _hyperthreads(readings: HostReadings) -> Iterator[HostFinding]:
    active = readings.host["cpu_hyperthreads"]
    if active is None:
        yield HostFinding(subject="hyperthreads", seen="not visible from here", weight=NOTE)
    elif not active:
        unseen = "; the host's are not visible" if readings.host.get("virtual_machine") else ""
        yield HostFinding(subject="hyperthreads", seen=f"off{unseen}")
    else:
        advice = (
            "if others share this machine: echo off | sudo tee /sys/devices/system/cpu/smt/control"
        )
        seen = "on; ours stay idle, others may use them"
        yield HostFinding(subject="hyperthreads", seen=seen, weight=NOTE, advice=advice)


def _pinning(readings: HostReadings) -> Iterator[HostFinding]:
    placement = readings.placement
    if not placement.cpus:
        yield HostFinding(subject="pinning", seen=placement.reason, weight=NOTE)
        return
    seen = f"{readings.threads} threads on processors {', '.join(map(str, placement.cpus))}"
    if readings.threads < readings.cores or readings.cores == 1:
        yield HostFinding(subject="pinning", seen=seen)
        return
    advice = f"hardware.threads={readings.cores - 1} leaves a core to everything else"
    yield HostFinding(subject="pinning", seen=f"{seen}: all there are", weight=NOTE, advice=advice)


def _threads(readings: HostReadings) -> Iterator[HostFinding]:
    variables = cast("Mapping[str, str]", readings.host["variables"])
    settings = {name: variables[name] for name in _THREAD_VARIABLES if name in variables}
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    seen = f"{readings.threads} for {readings.cores} cores, goal: at most one for each"
    if readings.threads > readings.cores:
        advice = f"hardware.threads={readings.cores}: more than cores wait for each other"
        yield HostFinding(subject="threads", seen=seen, weight=BAD, advice=advice)
    else:
        aside = f"; {shown} here do not reach measuring processes" if shown else ""
        yield HostFinding(subject="threads", seen=seen + aside)


def _layout(readings: HostReadings) -> Iterator[HostFinding]:
    level = readings.host["address_randomisation"]
    if level is None:
        seen = "address randomisation: not told by this platform"
        yield HostFinding(subject="layout", seen=seen, weight=NOTE)
    elif level:
        yield HostFinding(subject="layout", seen="drawn for each process")
    else:
        advice = (
            "sudo sysctl kernel.randomize_va_space=2, or every process repeats one layout's luck"
        )
        seen = "the same in every process"
        yield HostFinding(subject="layout", seen=seen, weight=BAD, advice=advice)


def _pages(readings: HostReadings) -> Iterator[HostFinding]:
    pages = readings.host["transparent_huge_pages"]
    seen = f"huge pages: {pages or 'not told by this platform'}"
    used = cast("int | None", readings.host["swap_used_bytes"])
    yield HostFinding(subject="memory", seen=seen, weight=GOOD if pages else NOTE)
    if used:
        advice = "sudo swapoff --all, or free memory: a page from disk costs milliseconds"
        seen = f"{format_bytes(used)} in use"
        yield HostFinding(subject="swap", seen=seen, weight=BAD, advice=advice)


def _clock(readings: HostReadings) -> Iterator[HostFinding]:
    source = cast("str | None", readings.host["clock_source"])
    calibration = readings.calibration
    seen = (
        f"{source or 'unknown source'}: {calibration.pair_cost_ns:.0f} ns for two reads, "
        f"goal: at most {_READ_NS:.0f}; steps of {calibration.step_ns:.0f} ns"
    )
    slow = calibration.pair_cost_ns > _READ_NS
    if slow and source not in _FAST_CLOCKS:
        advice = "a faster clock source, e.g. tsc: blocks must be longer where a read is slow"
        yield HostFinding(subject="clock", seen=seen, weight=BAD, advice=advice)
    else:
        yield HostFinding(subject="clock", seen=seen, weight=NOTE if slow else GOOD)


def _device(readings: HostReadings) -> Iterator[HostFinding]:
    state = readings.device
    if not state:
        return
    if "unavailable" in state:
        yield HostFinding(subject="GPU", seen=str(state["unavailable"]), weight=NOTE)
        return
    others = cast("int | None", state.get("other_processes"))
    seen = f"{'an unknown number of' if others is None else others} other processes use it"
    advice = "end them: `nvidia-smi` names them" if others else ""
    yield HostFinding(subject="GPU", seen=seen, weight=BAD if others else GOOD, advice=advice)
    if state.get("persistence") is False:
        advice = "sudo nvidia-smi --persistence-mode=1, or first calls wait for the driver"
        yield HostFinding(subject="GPU driver", seen="not kept loaded", weight=NOTE, advice=advice)
    held = set(cast("list[str]", state.get("throttle_reasons") or [])) - {"gpu_idle"}
    if held:
        advice = "cooling, or a higher power cap: nvidia-smi --query --display=PERFORMANCE"
        seen = f"held back by {', '.join(sorted(held))}"
        yield HostFinding(subject="GPU clocks", seen=seen, weight=BAD, advice=advice)


_CHECKS: tuple[Callable[[HostReadings], Iterator[HostFinding]], ...] = (
    _grade,
    _others,
    _stolen,
    _quota,
    _governor,
    _boost,
    _hyperthreads,
    _pinning,
    _threads,
    _layout,
    _pages,
    _clock,
    _device,
)
