"""System interference during a measurement: load of others, stolen time, clocks."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Conditions
from benchorch.host import cgroup
from benchorch.host.cgroup import ROOT, read_number, read_text
from benchorch.host.environment import allowed_cpus
from benchorch.host.reference_workload import Speed

_CPU = "sys/devices/system/cpu"
# The kernel counts in ticks of 10 ms: over fewer than this, one tick is more than a few per cent.
_LEAST_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Seconds since boot over all processors, by the kernel's own account.

    Attributes:
        total: idle time included.
        busy: used by any process, this one included.
        stolen: in which the hypervisor ran another guest though there was work here.
    """

    total: float
    busy: float
    stolen: float


def usage(root: Path = ROOT) -> Usage | None:
    """The machine's account of its processors; None where there is no ``proc``."""
    fields = read_text(root / "proc/stat").partition("\n")[0].split()[1:9]
    if len(fields) < 8:
        return None
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, waiting, irq, soft_irq, stolen = (int(f) * tick_s for f in fields)
    busy = user + nice + system + irq + soft_irq
    return Usage(total=busy + idle + waiting + stolen, busy=busy, stolen=stolen)


def steal_ratio(before: Usage | None, after: Usage | None) -> float | None:
    """Share of the required processor time that the hypervisor gave to other guests.

    Of the required time, not of all: idle processors are never stolen from, and would dilute it.
    """
    if before is None or after is None:
        return None
    stolen = after.stolen - before.stolen
    wanted = after.busy - before.busy + stolen
    return stolen / wanted if wanted > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTimes:
    """Nanoseconds that this process's threads ran, and that they waited for a processor."""

    ran: int
    waited: int


def scheduled(root: Path = ROOT) -> Mapping[str, SchedulerTimes]:
    """The scheduler's account of each thread; empty where the kernel keeps none."""
    found = {}
    for path in root.glob("proc/self/task/*/schedstat"):
        fields = read_text(path).split()
        if len(fields) >= 2:
            found[path.parent.name] = SchedulerTimes(ran=int(fields[0]), waited=int(fields[1]))
    return found


def waited_ratio(
    before: Mapping[str, SchedulerTimes], after: Mapping[str, SchedulerTimes]
) -> float | None:
    """Share of the time in which the threads were ready to run that they spent waiting for it.

    Of the threads that still live; None where nothing is known of them.
    """
    none = SchedulerTimes(ran=0, waited=0)
    started = [before.get(thread, none) for thread in after]
    ran = sum(one.ran for one in after.values()) - sum(one.ran for one in started)
    waited = sum(one.waited for one in after.values()) - sum(one.waited for one in started)
    return waited / (ran + waited) if ran + waited > 0 else None


class Interference:
    """Interference from the construction of this object until `conditions` is called."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._throttled = cgroup.throttled_periods(root)
        self._frequency_khz = frequencies_khz(allowed_cpus(), root)
        self._own_s = _own_cpu_s()
        self._usage = usage(root)
        self._scheduled = scheduled(root)

    def conditions(
        self,
        before: Speed | None,
        after: Speed | None,
        cpus: tuple[int, ...],
        device_state: Mapping[str, Json],
    ) -> Conditions:
        """Conditions since construction; None for what the platform does not report.

        Args:
            before, after: the machine's speed around it; None where it is not looked at.
            cpus: the processors that the process is pinned to; empty where it is not.
            device_state: the accelerator's own report.
        """
        waited = waited_ratio(self._scheduled, scheduled(self._root))
        used, own_s = usage(self._root), _own_cpu_s() - self._own_s
        throttled = cgroup.throttled_periods(self._root)
        return Conditions(
            canary_before_ns=before.arithmetic_ns if before else None,
            canary_after_ns=after.arithmetic_ns if after else None,
            memory_before_ns=before.memory_ns if before else None,
            memory_after_ns=after.memory_ns if after else None,
            cpus=cpus,
            threads=_threads(self._root),
            steal_ratio=steal_ratio(self._usage, used),
            foreign_ratio=_foreign_ratio(self._usage, used, own_s),
            waited_ratio=waited,
            throttled_periods=_rise(self._throttled, throttled),
            frequency_khz=self._frequencies(cpus),
            device=device_state,
        )

    def _frequencies(self, cpus: tuple[int, ...]) -> tuple[float, ...]:
        """Mean clock before and after; empty where the machine hides it."""
        after = frequencies_khz(cpus or allowed_cpus(), self._root)
        before = {cpu: self._frequency_khz[cpu] for cpu in after if cpu in self._frequency_khz}
        return tuple(sum(f.values()) / len(f) for f in (before, after) if f)


def _foreign_ratio(before: Usage | None, after: Usage | None, own_s: float) -> float | None:
    """Share of all processors' time that other processes used."""
    if before is None or after is None or after.total - before.total < _LEAST_S:
        return None
    foreign_s = after.busy - before.busy - own_s
    return max(0.0, foreign_s / (after.total - before.total))


def _own_cpu_s() -> float:
    """CPU time of this process and of the children it has waited for."""
    import resource  # absent on Windows, which plans and reports

    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in used)


def _threads(root: Path) -> int | None:
    try:
        return len(list((root / "proc/self/task").iterdir()))
    except OSError:
        return None


def frequencies_khz(cpus: Iterable[int], root: Path = ROOT) -> dict[int, int]:
    """Current clock of each processor whose kernel reports it; virtual machines do not."""
    found = {cpu: read_number(root / _CPU / f"cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus}
    return {cpu: khz for cpu, khz in found.items() if khz is not None}


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
