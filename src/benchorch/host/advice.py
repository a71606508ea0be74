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
# Somebody's choice, often in order to measure; all other reasons are heat or power.
_CLOCK_SETTINGS = {"applications_clocks_setting", "sync_boost", "display_clock_setting"}
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
    checked = [check(readings) for check in _CHECKS]
    return [*checked, *_memory(readings), _clock(readings), *_device(readings)]


def _good(subject: str, seen: str) -> HostFinding:
    return HostFinding(subject=subject, seen=seen)


def _note(subject: str, seen: str, advice: str = "") -> HostFinding:
    return HostFinding(subject=subject, seen=seen, weight=NOTE, advice=advice)


def _bad(subject: str, seen: str, advice: str) -> HostFinding:
    return HostFinding(subject=subject, seen=seen, weight=BAD, advice=advice)


def _grade(readings: HostReadings) -> HostFinding:
    grade = readings.grade
    even = f"1 ms of work takes {grade.p99_over_p50:.2f} times its median in one of a hundred cases"
    seen = f"{grade.letter}: {'; '.join(grade.reasons) or even}, {_A_GOAL}"
    if grade.letter != "C":
        return _good("grade", seen) if grade.letter == "A" else _note("grade", seen)
    how = "interleaved comparisons hold here, absolute times do not"
    if readings.host.get("virtual_machine"):
        how += "; a dedicated host or a bare-metal instance has no unseen neighbours"
    return _bad("grade", seen, how)


def _others(readings: HostReadings) -> HostFinding:
    foreign = readings.conditions.foreign_ratio
    load = cast("list[float]", readings.host["load_average"])[0]
    if foreign is None:
        return _note("other work", f"unknown; load average {load:.1f}")
    goal = f"goal: at most {_FOREIGN_RATIO:.0%}"
    seen = f"{foreign:.1%} of the processors' time, {goal}; load average {load:.1f}"
    if foreign <= _FOREIGN_RATIO:
        return _good("other work", seen)
    return _bad("other work", seen, "end other programs, or wait for them: `top` names them")


def _stolen(readings: HostReadings) -> HostFinding:
    stolen = readings.conditions.steal_ratio
    if stolen is None:
        return _note("stolen time", "not told by this platform")
    seen = f"{stolen:.2%}, goal: below {A_STEAL_RATIO:.1%}"
    if stolen < A_STEAL_RATIO:
        return _good("stolen time", seen)
    advice = "the host is overcommitted: another instance, or a dedicated one"
    return _bad("stolen time", seen, advice)


def _quota(readings: HostReadings) -> HostFinding:
    quota = cast("float | None", readings.host["cpu_quota_cores"])
    throttled = readings.conditions.throttled_periods
    if throttled:
        seen = f"{quota or 0:g} cores, held back in {throttled} periods"
        advice = "raise the control group's cpu.max, or remove it: it stops whole calls"
        return _bad("quota", seen, advice)
    if quota is None:
        return _good("quota", "none")
    held = "whether it held anything back is not told" if throttled is None else "never held back"
    return _note("quota", f"{quota:g} cores, {held}")


def _governor(readings: HostReadings) -> HostFinding:
    governor = readings.host["cpu_governor"]
    if governor is None:
        return _note("governor", _NO_GOVERNOR)
    if governor == "performance":
        return _good("governor", "performance")
    return _bad("governor", str(governor), "sudo cpupower frequency-set --governor performance")


def _boost(readings: HostReadings) -> HostFinding:
    boost = readings.host["cpu_boost"]
    if boost is None:
        return _note("boost", "not visible from here")
    if not boost:
        return _good("boost", "off")
    advice = (
        "for absolute times that repeat: echo 0 | sudo tee "
        "/sys/devices/system/cpu/cpufreq/boost (intel_pstate: 1 into no_turbo)"
    )
    return _note("boost", "on: clocks follow heat", advice)


def _hyperthreads(readings: HostReadings) -> HostFinding:
    active = readings.host["cpu_hyperthreads"]
    if active is None:
        return _note("hyperthreads", "not visible from here")
    if not active:
        unseen = "; the host's are not visible" if readings.host.get("virtual_machine") else ""
        return _good("hyperthreads", f"off{unseen}")
    advice = "if others share this machine: echo off | sudo tee /sys/devices/system/cpu/smt/control"
    return _note("hyperthreads", "on; ours stay idle, others may use them", advice)


def _pinning(readings: HostReadings) -> HostFinding:
    placement = readings.placement
    if not placement.cpus:
        return _note("pinning", placement.reason)
    seen = f"{readings.threads} threads on processors {', '.join(map(str, placement.cpus))}"
    if readings.threads < readings.cores or readings.cores == 1:
        return _good("pinning", seen)
    advice = f"hardware.threads={readings.cores - 1} leaves a core to everything else"
    return _note("pinning", f"{seen}: all there are", advice)


def _threads(readings: HostReadings) -> HostFinding:
    variables = cast("Mapping[str, str]", readings.host["variables"])
    settings = {name: variables[name] for name in _THREAD_VARIABLES if name in variables}
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    seen = f"{readings.threads} for {readings.cores} cores, goal: at most one for each"
    if readings.threads > readings.cores:
        advice = f"hardware.threads={readings.cores}: more than cores wait for each other"
        return _bad("threads", seen, advice)
    aside = f"; {shown} here do not reach measuring processes" if shown else ""
    return _good("threads", seen + aside)


def _layout(readings: HostReadings) -> HostFinding:
    level = readings.host["address_randomisation"]
    if level is None:
        return _note("layout", "address randomisation: not told by this platform")
    if level:
        return _good("layout", "drawn for each process")
    advice = "sudo sysctl kernel.randomize_va_space=2, or every process repeats one layout's luck"
    return _bad("layout", "the same in every process", advice)


def _memory(readings: HostReadings) -> Iterator[HostFinding]:
    pages = readings.host["transparent_huge_pages"]
    seen = f"huge pages: {pages or 'not told by this platform'}"
    yield _good("memory", seen) if pages else _note("memory", seen)
    used = cast("int | None", readings.host["swap_used_bytes"])
    if used:
        advice = "sudo swapoff --all, or free memory: a page from disk costs milliseconds"
        yield _bad("swap", f"{format_bytes(used)} in use", advice)


def _clock(readings: HostReadings) -> HostFinding:
    source = cast("str | None", readings.host["clock_source"])
    calibration = readings.calibration
    seen = (
        f"{source or 'unknown source'}: {calibration.pair_cost_ns:.0f} ns for two reads, "
        f"goal: at most {_READ_NS:.0f}; steps of {calibration.step_ns:.0f} ns"
    )
    if calibration.pair_cost_ns <= _READ_NS:
        return _good("clock", seen)
    if source in _FAST_CLOCKS:
        return _note("clock", seen)
    advice = "a faster clock source, e.g. tsc: blocks must be longer where a read is slow"
    return _bad("clock", seen, advice)


def _device(readings: HostReadings) -> Iterator[HostFinding]:
    state = readings.device
    if not state:
        return
    if "unavailable" in state:
        yield _note("GPU", str(state["unavailable"]))
        return
    others = cast("int | None", state.get("other_processes"))
    seen = f"{'an unknown number of' if others is None else others} other processes use it"
    yield _bad("GPU", seen, "end them: `nvidia-smi` names them") if others else _good("GPU", seen)
    if state.get("persistence") is False:
        advice = "sudo nvidia-smi --persistence-mode=1, or first calls wait for the driver"
        yield _note("GPU driver", "not kept loaded", advice)
    limits = set(cast("list[str]", state.get("throttle_reasons") or [])) - {"gpu_idle"}
    held = limits - _CLOCK_SETTINGS
    if held:
        advice = "cooling, or a higher power cap: nvidia-smi --query --display=PERFORMANCE"
        yield _bad("GPU clocks", f"held back by {', '.join(sorted(held))}", advice)
    elif limits:
        yield _note("GPU clocks", f"limited by a setting: {', '.join(sorted(limits))}")


_CHECKS: tuple[Callable[[HostReadings], HostFinding], ...] = (
    *(_grade, _others, _stolen, _quota, _governor, _boost, _hyperthreads),
    *(_pinning, _threads, _layout),
)
