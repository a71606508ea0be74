"""Classes of the time that host threads and devices spend."""

import builtins
import math
import operator
import re

import numpy as np

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s, mask
from benchorch.trace.dag import CLASSES, NOBODY, Class
from benchorch.trace.events import COLLECTIVE, DISPATCHER, NOTHING, Category, is_collective
from benchorch.trace.graph.scope import Scope
from benchorch.trace.nesting import inherited

_LOADING = re.compile(r"data_?loader|wait:\s*data|_next_data\b|_try_get_data|_get_batch\b", re.I)
_LOADERS = re.compile(
    r"(^|[/\\])(torch[/\\]utils[/\\]data|torchdata|accelerate)[/\\]\S*data_?loader\S*\.py\("
)
"""Files of loaders: all of their functions load."""
_WAITING = re.compile(r"^wait:")
_ON_HOSTS = re.compile(r"^(gloo|mpi):")  # ranges of collectives that no device carries out
_LOCKING = re.compile(
    r"(acquire|wait|join|__enter__) of (_thread|pybind11|\S*(Lock|Semaphore|Condition|Event))"
    r"|of _queue\.|built-in (method|function) (acquire|acquire_lock|lock)\b"
    r"|threading\.py\(\d+\): _?wait",
    re.I,
)
SLEEPING = re.compile(
    r"built-in (method|function) (sleep|nanosleep|usleep|pause)\b|^time\.sleep|^sleep$"
)
_IO = re.compile(
    r"built-in (method|function) (read|readinto1?|readline|readlines|readall|pread|write|"
    r"writelines|pwrite|flush|close|fsync|fdatasync|sync|open|recv|recv_into|recvfrom|send|sendall|sendto|"
    r"sendfile|connect|accept|select|poll|epoll|getaddrinfo|urandom|getrandom|stat|lstat|listdir|"
    r"scandir|unlink|remove|rename|replace|mkdir|rmdir|truncate|copy_file_range|input)\b"
    r"(?! of (?!_io\b|_?socket\b|select\b|_ssl\b|mmap\b|posix))"
)
_BY_CATEGORY = {
    Category.OPERATOR: Class.CPU_COMPUTE,
    Category.RUNTIME: Class.CPU_RUNTIME,
    Category.KERNEL: Class.GPU_COMPUTE,
    Category.COPY: Class.GPU_COPY,
    Category.FILL: Class.GPU_COPY,
    Category.OVERHEAD: Class.PROFILER,
    Category.NODE: Class.CPU_COMPUTE,
    Category.SESSION: Class.CPU_FRAMEWORK,
    Category.OTHER: Class.CPU_GAP,  # whatever tool wrote it, it does not say what it is
}  # of others CPU_PYTHON
_DATABASE = re.compile(
    r"built-in method \w+ of (sqlite3|_?psycopg\w*|_?mysql\w*|pyodbc|duckdb|h5py|lmdb|rocksdb)\b"
)
_STORAGE = re.compile(
    r"built-in (method|function) (write_record|write_end_of_file|get_record\w*"
    r"|get_storage_from_record|(de)?serialize_file|save_file|tofile|fromfile)\b"
    r"|torch[/\\]serialization\.py\(\d+\): __(init|exit)__$"
)
_PROCESSES = re.compile(
    r"built-in (method|function) (waitpid|wait3|wait4|waitid|fork_exec|posix_spawn|WaitFor\w+)\b"
)
_OTHER_PROCESSES = re.compile(
    r"multiprocessing[/\\](connection|queues|popen_\w+|synchronize)\.py|^subprocess\.py"
)
_LOOP, TIMER = (
    re.compile(r"asyncio[/\\]base_events\.py"),
    re.compile(r"asyncio[/\\]tasks\.py[^:/\\]*: sleep$"),
)
_TRANSPORT = re.compile(
    r"asyncio[/\\][^:/\\]*: (_?sock_\w+|_read_ready\w*|_write_ready|_accept_conn\w*)$"
)
_COMPILED = re.compile(r"^## Call CompiledFxGraph")
_OF_FRAMES = (
    (SLEEPING, Class.SLEEP),
    (_LOCKING, Class.LOCK),
    *((pattern, Class.INPUT_OUTPUT) for pattern in (_IO, _DATABASE, _STORAGE)),
    (_PROCESSES, Class.OUTSIDE),
)
# Calls of the operating system as Nsight Systems records them.
_SYSTEM_CALLS = (
    (re.compile(r"(clock_)?nanosleep$|u?sleep$|pause$"), Class.SLEEP),
    (
        re.compile(
            r"(p?(read|write)v?2?|f(open|close|read|write|flush|sync|gets|puts|datasync)|open(at)?"
            r"|close|sync|send\w*|connect|copy_file_range)(64)?$"
        ),
        Class.INPUT_OUTPUT,
    ),
)
# Methods of Python's own objects, and functions of its own modules that work on them.
_OWN_METHOD = re.compile(
    r"^<built-in method \w+ of (str|list|dict|set|frozenset|tuple|bytes|bytearray|int|float"
    r"|type|module|generator|coroutine|function|re\.\w+|collections\.\w+|_random\.\w+|torch\S*|\w*Tensor"
    r"|Parameter)\b"
)
_OWN_FUNCTION = re.compile(r"^<built-in function (\w+)>")
_OWN_FUNCTIONS = {
    *dir(builtins),
    *dir(operator),
    *dir(math),
    *("reduce", "loads", "dumps", "load", "dump"),
    *("scanstring", "encode_basestring_ascii", "collect", "heappush", "heappop", "heapify"),
}
SHORT_NS, MANY = 20_000, 20  # median of so many calls of an operator that is not computed
PAUSE_NS = 200_000  # up to so long between two calls Python ran; longer, anything may have

# Views and allocations: they arrange for others to compute and touch no values themselves.
_ARRANGING = re.compile(
    r"aten::(t|view|_unsafe_view|as_strided_?|expand|reshape|_reshape_alias|transpose|permute"
    r"|select|slice|squeeze_?|unsqueeze_?|unflatten|flatten|chunk|split|unbind|narrow|alias"
    r"|detach_?|empty|empty_strided|empty_like|new_empty|resize_|set_|lift_fresh|resolve_conj"
    r"|resolve_neg|item|_local_scalar_dense|size|stride|numel|is_[\w.]*|result_type)$"
)
_READS = re.compile(r"aten::_local_scalar_dense$")


def named_as_wait(name: str) -> bool:
    """Whether a function, or a range, is called like what waits: for locks, disks, processes."""
    return any(one.search(name) for one in (_WAITING, *(pattern for pattern, _ in _OF_FRAMES)))


def waiting(scope: Scope) -> Int64s:
    """Waits of threads for others: ranges named ``wait:<what>``, and Python's own locks."""
    ranges = scope.named(_WAITING, Category.ANNOTATION, Category.OPERATOR)
    locks = scope.named(_LOCKING, Category.PYTHON)
    locks = locks[scope.after[locks] == locks + 1]  # the innermost frame
    long = scope.end_ns[locks] - scope.start_ns[locks] > scope.thresholds.idle_ns
    return np.concatenate([ranges, locks[long]])


def _native(scope: Scope) -> tuple[Int64s, Int64s]:
    """Long calls of libraries' own code; and what a compiler's code calls, which is a kernel."""
    frame = scope.indices(Category.PYTHON)
    frame = frame[scope.after[frame] == frame + 1]
    frame = frame[scope.events.called(_of_library)[scope.event[frame]]]
    compiled = _inside_of(scope, scope.named(_COMPILED, Category.OPERATOR))[frame]
    long = (scope.end_ns - scope.start_ns)[frame] > PAUSE_NS
    return frame[long & ~compiled], frame[compiled]


def _of_library(name: str) -> bool:
    function = _OWN_FUNCTION.match(name)
    if function:
        return function[1] not in _OWN_FUNCTIONS
    foreign = name.startswith("<built-in method") and not _OWN_METHOD.match(name)
    return foreign or DISPATCHER.match(name) is not None


def labels(scope: Scope) -> Int8s:
    """Class of the self time of every event in the scope."""
    classes = [_BY_CATEGORY.get(category, Class.CPU_PYTHON) for category in Category]
    label = np.array([CLASSES.index(one) for one in classes], dtype=np.int8)[scope.category]
    label[scope.indices(Category.ANNOTATION)] = CLASSES.index(_between(scope))
    label[np.flatnonzero(_dispatching(scope))] = CLASSES.index(Class.CPU_FRAMEWORK)
    label[_short(scope)] = CLASSES.index(Class.CPU_FRAMEWORK)
    native, compiled = _native(scope)
    label[native] = CLASSES.index(Class.NATIVE)
    label[compiled] = CLASSES.index(Class.CPU_COMPUTE)
    for pattern, meant in _OF_FRAMES:
        label[scope.named(pattern, Category.PYTHON)] = CLASSES.index(meant)
    for pattern, meant in _SYSTEM_CALLS:
        calls = scope.indices(Category.OTHER)
        label[calls[scope.events.called(pattern.match)[scope.event[calls]]]] = CLASSES.index(meant)
    io = label[: scope.hosts] == CLASSES.index(Class.INPUT_OUTPUT)
    processes = _inside_of(scope, scope.named(_OTHER_PROCESSES, Category.PYTHON))
    label[np.flatnonzero(io & processes)] = CLASSES.index(Class.OUTSIDE)
    timers, transports = (scope.named(one, Category.PYTHON) for one in (TIMER, _TRANSPORT))
    if len(timers) and not len(transports):
        loops = _inside_of(scope, scope.named(_LOOP, Category.PYTHON))
        label[np.flatnonzero(io & loops)] = CLASSES.index(Class.SLEEP)
    label[_read_back(scope)] = CLASSES.index(Class.OUTSIDE)
    label[waiting(scope)] = CLASSES.index(Class.LOCK)  # or outside, see `recorded_waits`
    for pattern, meant in ((COLLECTIVE, Class.CPU_COMM), (_LOADING, Class.DATA_LOADING)):
        # What a loader or a collective calls is part of it.
        these = _inside_of(scope, _called(scope, pattern))
        label[np.flatnonzero(these)] = CLASSES.index(meant)
    label[_carried_out(scope)] = CLASSES.index(Class.GPU_COMM)
    return label


def _between(scope: Scope) -> Class:
    """The class of what runs between recorded calls: Python, if operators are among those."""
    told = scope.indices(Category.PYTHON, Category.OPERATOR, Category.NODE)
    only_calls = len(scope.indices(Category.RUNTIME)) and not len(told)
    return Class.CPU_FRAMEWORK if only_calls else Class.CPU_PYTHON


def _called(scope: Scope, pattern: re.Pattern[str]) -> Int64s:
    """The calls and ranges that are named so; of Python the function, not the file it is in."""
    others = scope.named(pattern, Category.ANNOTATION, Category.OPERATOR, Category.OTHER)
    functions = scope.named(pattern, Category.PYTHON, functions=True)
    files = scope.named(_LOADERS, Category.PYTHON) if pattern is _LOADING else others[:0]
    found = np.unique(np.concatenate([others, functions, files]))
    return found[~_launching(scope, found)] if pattern is COLLECTIVE else found


def _carried_out(scope: Scope) -> Int64s:
    """The work of devices that is collectives."""
    work = scope.device_work
    return work[scope.events.called(is_collective)[scope.event[work]]]


def _launching(scope: Scope, these: Int64s) -> Bools:
    """Which of some collectives' calls only launch them, for a device carries them out."""
    program = scope.events.programs[scope.lane]
    launched = np.isin(program[these], program[_carried_out(scope)])
    own = scope.matches(_ON_HOSTS, these, Category.ANNOTATION, Category.OPERATOR)
    return launched & ~own


def _short(scope: Scope) -> Int64s:
    """Operators of a name whose calls are so short that arranging them takes most of it."""
    operator = scope.indices(Category.OPERATOR)
    if len(operator) < MANY:
        return operator[:0]
    name, took_ns = scope.name[operator], (scope.end_ns - scope.start_ns)[operator]
    count = np.bincount(name)
    below = np.bincount(name[took_ns < SHORT_NS], minlength=len(count))
    return operator[((below > count // 2) & (count >= MANY))[name]]  # as the median is


def _read_back(scope: Scope) -> Int64s:
    """Values read from a device that is not recorded: of a CPU's tensors that takes no time."""
    reads = scope.named(_READS, Category.OPERATOR)
    took_ns = (scope.end_ns - scope.start_ns)[reads]
    long = took_ns > scope.thresholds.idle_ns
    recorded = len(scope.indices(Category.RUNTIME)) > 0
    return reads[long] if not recorded and 4 * long.sum() > len(reads) else reads[:0]


def _inside_of(scope: Scope, these: Int64s) -> Bools:
    """Which host events are, or are inside, some of them, (hosts,)."""
    change = np.zeros(scope.hosts + 1, dtype=np.int64)
    np.add.at(change, these, 1)
    np.add.at(change, scope.after[these], -1)
    return np.cumsum(change)[:-1] > 0


def _dispatching(scope: Scope) -> Bools:
    """Whether the self time of each host event is spent dispatching work.

    That is an operator or node that launches device work, that spends most of its time in others,
    or that makes a view or an allocation.
    """
    operators = scope.category[scope.host]
    operators = (operators == Category.OPERATOR) | (operators == Category.NODE)
    launching = np.zeros(scope.hosts + 1, dtype=np.int64)
    launches = scope.launch[scope.device]
    launching[launches[launches != NOTHING]] = 1
    before = np.cumsum(launching) - launching
    inside = before[scope.after] > before[: scope.hosts]
    arranging = mask(scope.hosts, scope.named(_ARRANGING, Category.OPERATOR))
    took = (scope.end_ns - scope.start_ns)[scope.host]
    own = np.where(operators, np.arange(scope.hosts), NOBODY)
    caller = np.append(inherited(scope.parent, own), NOBODY)[scope.parent]
    nested = operators & (caller != NOBODY)
    called = np.bincount(caller[nested], took[nested], scope.hosts)
    calling = (2 * called > took) & (called > 0)
    dispatching: Bools = operators & (inside | arranging | calling)
    return dispatching


def segment_labels(
    scope: Scope, owner: Int32s, lane: Int32s, elapsed_ns: Int64s, label: Int8s
) -> Int8s:
    """The class of each segment of a thread, of the time that events own and of that between.

    Short pauses are what runs between calls on threads with ranges or Python, else the framework's;
    long ones, directly in a thread or in a person's range, may be anything.
    """
    python = mask(len(scope.events.lanes) + 1, scope.main_lane)  # the last one is lane -1's
    python[scope.lane[scope.indices(Category.PYTHON, Category.ANNOTATION)]] = True
    own, framework = CLASSES.index(_between(scope)), CLASSES.index(Class.CPU_FRAMEWORK)
    found = np.where(owner == NOBODY, np.where(python[lane], own, framework), label[owner])
    named = (owner == NOBODY) | (scope.category[owner] == Category.ANNOTATION)
    named &= found == own
    unclear = (named | (owner == NOBODY)) & (elapsed_ns > PAUSE_NS)
    found[unclear] = CLASSES.index(Class.CPU_GAP)
    return found.astype(np.int8)
