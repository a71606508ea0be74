"""Choice of the processors that a measuring process is pinned to.

Memory follows: pages are taken from the node of the processor that first writes to them.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.host.cgroup import ROOT, read_number, read_text
from benchorch.host.environment import allowed_cpus

_PROC = Path("/proc")
_TASKS = _PROC / "self/task"
_LOOK_S = 0.1
_CPUS = "sys/devices/system/cpu"
_NODES = "sys/devices/system/node"
_P_CORES = "sys/devices/cpu_core/cpus"
_FULL_CAPACITY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedCpus:
    """Processors on which a process should run.

    Attributes:
        cpus: one hyperthread of each core it gets; empty where it cannot be pinned.
        reason: why not; empty where it can.
    """

    cpus: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Core:
    """A physical core, as far as this process may use it.

    Attributes:
        cpu: its first hyperthread that is allowed here.
        whole: whether all its hyperthreads are; nobody else is then put on the others.
        siblings: all its hyperthreads, of whomever.
        speed: in eighths of the fastest kind's; the same for all cores of most machines.
    """

    cpu: int
    node: int
    whole: bool
    siblings: frozenset[int]
    speed: int


def pin(threads: int, cpus: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Keep this process, with all threads it has or will have, to as many physical cores.

    For a child that measures; `pinned` is for a thread that goes on to other things. Where
    libraries ask for the number of processors, they see this many from now on.

    Args:
        cpus: which; empty for those of `placement` on which the least goes on.

    Returns:
        The processors; empty where the platform cannot, or where there are not so many cores.
    """
    cpus = cpus or placement(threads, crowded=crowded_cpus).cpus
    return cpus if confine(cpus) else ()


def confine(cpus: Collection[int]) -> bool:
    """Keep this process, its threads and children to these processors; False where it cannot."""
    return bool(cpus) and all(_confine(thread, cpus) for thread in _own_threads())


def part_of_cpus(number: int, parts: int, root: Path = ROOT) -> frozenset[int]:
    """The processors of one of so many equal parts of this machine; empty for too few cores.

    Whole cores in the order of the memory nodes, which is that of the GPUs beside them: on EC2's
    machines with eight, the first four belong to the first node.

    Args:
        number: from 0.
        root: where ``sys`` is.
    """
    if not hasattr(os, "sched_setaffinity"):
        return frozenset()
    cores = sorted(_cores(root), key=lambda core: (core.node, core.cpu))
    each = len(cores) // parts
    chosen = cores[number * each : (number + 1) * each]
    return frozenset().union(*(core.siblings for core in chosen)) & allowed_cpus()


@contextlib.contextmanager
def pinned(threads: int) -> Iterator[tuple[int, ...]]:
    """Keep the calling thread to some processors for a while; empty where it cannot be done."""
    cpus = placement(threads, crowded=crowded_cpus).cpus
    if not cpus:
        yield ()
        return
    before = os.sched_getaffinity(0)
    try:
        yield cpus if _confine(0, cpus) else ()
    finally:
        _confine(0, tuple(before))


def placement(
    threads: int, root: Path = ROOT, crowded: Callable[[], Mapping[int, tuple[int, bool]]] = dict
) -> PinnedCpus:
    """Whole cores of one memory node where they suffice, and rather not processor 0.

    The first hyperthread of each core; the others stay idle. Cores to which somebody else is kept
    who is busy come last. Of cores of several kinds the fastest come first. Of a kind, processor 0
    comes last, as it is where a kernel does most of its own work. Where every core is needed, every
    core it is: their second hyperthreads are left out all the same.

    Args:
        root: where ``sys`` is.
        crowded: who else is on which processors, as `crowded_cpus` has it; asked where there is a
            choice.
    """
    if not hasattr(os, "sched_setaffinity"):
        return PinnedCpus(reason="this platform does not let a process choose its processors")
    cores = _cores(root)
    if not 1 <= threads <= len(cores):
        return PinnedCpus(reason=f"{threads} threads need as many cores; there are {len(cores)}")
    chosen = _nearest(cores, threads, crowded() if threads < len(cores) else {})
    return PinnedCpus(cpus=tuple(sorted(core.cpu for core in chosen)))


def crowded_cpus(proc: Path = _PROC) -> dict[int, tuple[int, bool]]:
    """How many others are pinned to each processor, and whether it or one of them is mostly busy.

    Whoever is kept to fewer processors than this process counts with each of them, idle for the
    moment or not, and so does its work: a program that may use some cores may soon use them all.
    Busy is more than half of a tenth of a second; finer degrees would move processes about for
    nothing.
    """
    keepers = dict(_kept_to(proc, allowed_cpus()))
    kept = Counter(cpu for cpus in keepers.values() for cpu in cpus)
    before = _busy_ticks(proc)
    used = {program: _worked_ticks(program) for program in keepers}
    time.sleep(_LOOK_S)
    half = os.sysconf("SC_CLK_TCK") * _LOOK_S / 2
    busy: set[int] = set()
    for program, cpus in keepers.items():
        if _worked_ticks(program) - used[program] > half:
            busy |= cpus
    for cpu, (worked, every) in _busy_ticks(proc).items():
        worked_before, every_before = before.get(cpu, (worked, every))
        if 2 * (worked - worked_before) > every - every_before:
            busy.add(cpu)
    return {cpu: (kept[cpu], cpu in busy) for cpu in kept.keys() | busy}


def _kept_to(proc: Path, allowed: frozenset[int]) -> Iterator[tuple[Path, frozenset[int]]]:
    """Each other program that may use only some of the processors of this process, and which."""
    for file in proc.glob("[0-9]*/status"):
        found = dict(line.partition(":")[::2] for line in read_text(file).splitlines())
        cpus = cpu_list(found.get("Cpus_allowed_list", "").strip())
        program = "VmSize" in found  # a kernel's own thread has no memory
        if program and cpus < allowed and file.parent.name != str(os.getpid()):
            yield file.parent, cpus


def _worked_ticks(program: Path) -> int:
    """Ticks that a program has used, of a user's and of the system's; 0 once it has ended."""
    fields = read_text(program / "stat").rpartition(")")[2].split()  # its name may have spaces
    return sum(map(int, fields[11:13]))


def _busy_ticks(proc: Path) -> dict[int, tuple[int, int]]:
    """Ticks of each processor since the start, those it worked and all of them."""
    found = {}
    for line in read_text(proc / "stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, waiting, *more = map(int, ticks[:8])
            busy = user + nice + system + sum(more)
            found[int(name.removeprefix("cpu"))] = (busy, busy + idle + waiting)
    return found


def _nearest(
    cores: Sequence[_Core], count: int, crowded: Mapping[int, tuple[int, bool]]
) -> list[_Core]:
    """The best so many cores, of as few memory nodes as can be."""

    def flaws(core: _Core) -> tuple[int, int, int, int, bool, bool, int]:
        there = [crowded.get(cpu, (0, False)) for cpu in core.siblings]
        kept, busy = map(sum, zip(*there, strict=True))
        # A core that is shared spoils both runs, one of a slower kind is only slower, and an idle
        # program, such as a container that may use all fast cores, disturbs neither.
        shared = kept if busy else 0
        return shared, -core.speed, kept, busy, not core.whole, core.cpu == 0, core.cpu

    nodes: dict[int, list[_Core]] = {}
    for core in sorted(cores, key=flaws):
        nodes.setdefault(core.node, []).append(core)
    enough = [found[:count] for found in nodes.values() if len(found) >= count]
    if enough:
        return min(enough, key=lambda found: [flaws(core) for core in reversed(found)])
    largest_first = sorted(nodes.values(), key=len, reverse=True)
    return [core for found in largest_first for core in found][:count]


def _cores(root: Path) -> list[_Core]:
    allowed = allowed_cpus()
    nodes, p_cores = _nodes(root), cpu_list(read_text(root / _P_CORES))
    cores: dict[frozenset[int], _Core] = {}
    for cpu in sorted(allowed):
        listed = read_text(root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list")
        siblings = cpu_list(listed) or frozenset({cpu})
        core = _Core(
            cpu=cpu,
            node=nodes.get(cpu, 0),
            whole=siblings <= allowed,
            siblings=siblings,
            speed=_speed(cpu, p_cores, root),
        )
        cores.setdefault(siblings, core)
    return list(cores.values())


def _speed(cpu: int, p_cores: frozenset[int], root: Path) -> int:
    """Eighths of the fastest kind's: ARM's by capacity, Intel's by whether it is a P-core.

    Not by the highest clock: that of a kind's best cores is a little above that of the others,
    which is no reason to take a core that is busy.
    """
    if p_cores:
        return 8 if cpu in p_cores else 0
    capacity = read_number(root / _CPUS / f"cpu{cpu}/cpu_capacity")
    return round(8 * (_FULL_CAPACITY if capacity is None else capacity) / _FULL_CAPACITY)


def _nodes(root: Path) -> dict[int, int]:
    """The memory node of each processor; empty where the kernel lists none."""
    return {
        cpu: int(folder.name.removeprefix("node"))
        for folder in sorted((root / _NODES).glob("node[0-9]*"))
        for cpu in cpu_list(read_text(folder / "cpulist"))
    }


def cpu_list(text: str) -> frozenset[int]:
    """The processors of a kernel's list such as ``0-3,8``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _own_threads() -> list[int]:
    if not _TASKS.is_dir():
        return [0]
    return [int(entry.name) for entry in _TASKS.iterdir()]


def _confine(thread: int, cpus: Collection[int]) -> bool:
    """Whether it could be done; a thread that has just ended needs it no more."""
    try:
        os.sched_setaffinity(thread, cpus)
    except ProcessLookupError:
        return True
    except OSError:  # a sandbox that forbids the call
        return False
    return True
