"""A program of somebody's without network, home or the right to write: Landlock and namespaces.

::

    benchorch ── runs ──> enter: new namespaces, Landlock ── exec ──> the program

Everything is done by the process to itself without privileges. It keeps what it cannot do for
good, and so does all that it starts. What is not enclosed: it reads files outside homes, `/dev`,
`/run` and `/tmp`, and uses processors, memory and devices for computing.
"""

import ctypes
import json
import os
import platform
import re
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

_ENTRY = "from benchorch.host.sandbox import enter; enter()"
_PROBE_S = 30.0
_MOST_FILE_BYTES = 2**32  # of its log, too

# Of namespaces (sched.h), mounts (mount.h) and prctl.
_NEW_USER, _NEW_NETWORK, _NEW_MOUNTS, _NEW_IPC = 0x10000000, 0x40000000, 0x00020000, 0x08000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_SET_ATTRIBUTES, _WHOLE_TREE, _HERE, _READ_ONLY = 442, 0x8000, -100, 1
_NO_NEW_PRIVILEGES = 38
_SECURE_BITS, _NO_ROOT_FOR_GOOD = 28, 0x2F  # securebits.h
_SET_FLAGS, _UP = 0x8914, 1  # of interfaces (sockios.h, if.h)

# Of Landlock (landlock.h); the numbers of its calls are the same on every architecture.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1
_EXECUTE, _WRITE, _READ, _LIST, _RENAME, _TRUNCATE = 1, 2, 4, 8, 1 << 13, 1 << 14
_FIRST_RIGHTS = (1 << 13) - 1
_LEAST_VERSION = 3  # below it a file that may not be written could be cut to nothing
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE
_MAY_READ = _EXECUTE | _READ | _LIST

_OTHERS = ("home", "root", "Users", "run", "tmp", "mnt", "media")
_HOMES = (*_OTHERS, "proc", "sys", "dev")
"""Folders of `/` that are not read as a whole: homes, sockets, others' files."""

_HIDDEN = ("/dev/shm", "/var/tmp", *(f"/{name}" for name in _OTHERS))
"""Folders in whose place there are empty ones: others' sockets, which Landlock leaves open."""

_SYSTEM = ("/proc", "/sys")
_DEVICES = re.compile(r"null|zero|full|u?random|shm|dri|kfd|nvidia.*")
_KEPT = re.compile(
    r"PATH|LANG|LANGUAGE|TZ|TERM|LD_LIBRARY_PATH|VIRTUAL_ENV|KERAS_BACKEND|"
    r"BENCHORCH_(?!TRACKING_URI$|HEAD$)\w*|"  # which may hold a password
    r"(LC|PYTHON|CUDA|NVIDIA|TORCH|OMP|MKL|KMP|OPENBLAS|ATEN|ONEDNN)\w*"
)
_SECRET = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|KEY", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """Files, network and devices that a program may access.

    Attributes:
        home: a folder of its own, which it may write: home and temporary files.
        readable: files and folders besides those of the system.
        writable: folders.
        variables: set in its environment, of which little else is left.
    """

    home: str
    readable: tuple[str, ...]
    writable: tuple[str, ...] = ()
    variables: Mapping[str, str]

    def command(self) -> list[str]:
        """Command that starts the sandbox; the program's own command follows it."""
        return [sys.executable, "-P", "-c", _ENTRY, json.dumps(asdict(self))]


@contextmanager
def enclosure(readable: Iterable[Path], writable: Iterable[Path]) -> Iterator[Enclosure]:
    """An enclosure for programs of this Python, with a home that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="benchorch-sandbox-") as home:
        caches = model_caches()
        python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(None, sys.path)]
        paths = [*map(str, readable), *python, *caches.values()]
        yield Enclosure(
            home=home,
            readable=tuple(dict.fromkeys(path for path in paths if Path(path).exists())),
            writable=tuple(map(str, writable)),
            variables={"HF_HUB_OFFLINE": "1", **caches},
        )


def model_caches() -> dict[str, str]:
    """Model caches by environment variable; not their parent, which holds Hugging Face's token."""
    of_user = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser needs a home
    cache = Path(os.environ.get("XDG_CACHE_HOME") or of_user)
    face = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    return {
        "HF_HUB_CACHE": os.environ.get("HF_HUB_CACHE") or str(face / "hub"),
        "TORCH_HOME": os.environ.get("TORCH_HOME") or str(cache / "torch"),
    }


def hub_closed_by() -> str:
    """The variable that forbids requests to Hugging Face's hub; empty where none does."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    yes = {"1", "ON", "YES", "TRUE"}
    return next((name for name in names if os.environ.get(name, "").upper() in yes), "")


def problem() -> str:
    """Why no program can be enclosed here, or an empty string; it tries."""
    with enclosure([], []) as enclosed:
        command = [*enclosed.command(), sys.executable, "-S", "-c", ""]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_S, check=False
        )
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def enter() -> NoReturn:
    """Enclose this process, which has just started, and become the program of its arguments."""
    enclosed = Enclosure(**json.loads(sys.argv[1]))
    try:
        _leave_the_network()
        _hide(["/dev/shm", enclosed.home, *enclosed.readable, *enclosed.writable])
        _make_read_only(["/dev/shm", enclosed.home, *enclosed.writable])
        _restrict(enclosed)
        _give_up_capabilities()
        _limit_files()
    except OSError as error:
        sys.exit(f"no sandbox on this system: {error.strerror}")
    os.execve(sys.argv[2], sys.argv[2:], _environment(enclosed))


def _environment(enclosed: Enclosure) -> dict[str, str]:
    names = [name for name in os.environ if _KEPT.fullmatch(name) and not _SECRET.search(name)]
    kept = {name: os.environ[name] for name in names}
    return {**kept, **enclosed.variables, "HOME": enclosed.home, "TMPDIR": enclosed.home}


def _leave_the_network() -> None:
    """Enter namespaces of its own, with a loopback, for network, mounts and shared memory."""
    from fcntl import ioctl

    user, group = os.geteuid(), os.getegid()
    libc = _libc()
    _check(
        libc.unshare(_NEW_USER | _NEW_NETWORK | _NEW_MOUNTS | _NEW_IPC),
        "it lets you make no namespaces (user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns)",
    )
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="utf-8")
    with socket.socket() as any_socket:  # a server's script listens there
        ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
    _check(libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None), "mounts stay shared")


def _hide(visible: Iterable[str]) -> None:
    """Empty folders in place of the hidden ones, with these files and folders back in them."""
    libc, here = _libc(), Path.cwd()
    own = (os.environ.get("HOME", ""), os.environ.get("TMPDIR", ""))
    hidden = sorted({*_HIDDEN, *(path for path in own if Path(path).is_absolute() and path != "/")})
    names = {name for path in map(Path, visible) for name in (path.absolute(), path.resolve())}
    inside = [path for path in sorted(names) if {*map(str, path.parents)} & {*hidden}]
    kept = {path: os.open(path, os.O_PATH) for path in inside if path.exists()}
    for folder in filter(os.path.isdir, hidden):
        done = libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, None)
        _check(done, f"{folder} cannot be hidden")
    for path, descriptor in kept.items():
        _show_again(libc, path, descriptor)
        os.close(descriptor)
    if {str(here), *map(str, here.parents)} & {*hidden}:
        here.mkdir(parents=True, exist_ok=True)
        os.chdir(here)  # the folder of that name is below the empty one


def _show_again(libc: ctypes.CDLL, path: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if path.exists() and os.path.samestat(found, path.stat()):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(exist_ok=True) if stat.S_ISDIR(found.st_mode) else path.touch()
    place = f"/proc/self/fd/{descriptor}".encode()
    done = libc.mount(place, os.fsencode(path), None, _BIND | _RECURSIVE, None)
    _check(done, f"{path} cannot be shown")


def _make_read_only(writable: Iterable[str]) -> None:
    """Every mount but these folders: Landlock leaves modes, owners and times of files open."""
    libc = _libc()
    for folder in filter(os.path.isdir, writable):
        name = os.fsencode(folder)
        _check(libc.mount(name, name, None, _BIND, None), f"{folder} cannot be kept writable")
    _set_mounts(libc, "/", _READ_ONLY, 0, _WHOLE_TREE)
    for folder in filter(os.path.isdir, writable):
        _set_mounts(libc, folder, 0, _READ_ONLY, 0)


def _set_mounts(libc: ctypes.CDLL, folder: str, to_set: int, to_clear: int, extent: int) -> None:
    attributes = struct.pack("=QQQQ", to_set, to_clear, 0, 0)
    size, name = ctypes.c_size_t(len(attributes)), os.fsencode(folder)
    done = libc.syscall(_SET_ATTRIBUTES, _HERE, name, extent, attributes, size)
    _check(done, f"{folder} cannot be made read-only")


def _restrict(enclosed: Enclosure) -> None:
    """Landlock: what is not named can be neither read nor written, from now on."""
    libc = _libc()
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), _ASK_VERSION)
    if version < _LEAST_VERSION:
        raise OSError(0, f"Linux {platform.release()} has no Landlock, or an early one")
    rights = _FIRST_RIGHTS | _RENAME | _TRUNCATE
    # Connections are left to the namespace, whose only network is the program's own loopback.
    connections, signals_and_sockets = 0, 3 * (version >= 6)
    size = 24 if version >= 6 else 8
    attributes = struct.pack("=QQQ", rights, connections, signals_and_sockets)
    ruleset = libc.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0)
    _check(min(ruleset, 0), "Landlock gives no rules")
    for path, allowed in _rules(enclosed, rights):
        _allow(libc, ruleset, path, allowed)
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "privileges stay")
    _check(libc.syscall(_RESTRICT, ruleset, 0), "Landlock refuses")
    os.close(ruleset)


def _rules(enclosed: Enclosure, every: int) -> Iterator[tuple[Path, int]]:
    yield from ((path, _MAY_READ) for path in Path("/").iterdir() if path.name not in _HOMES)
    yield from ((Path(path), _MAY_READ) for path in (*_SYSTEM, *enclosed.readable))
    yield Path("/dev"), _LIST  # root may read terminals, keyboards and disks
    devices = (path for path in Path("/dev").iterdir() if _DEVICES.fullmatch(path.name))
    yield from ((path, every) for path in devices)
    yield from ((Path(path), every) for path in (enclosed.home, *enclosed.writable))


def _give_up_capabilities() -> None:
    """From the next program on: root's would have them all, and make the mounts writable again."""
    _check(_libc().prctl(_SECURE_BITS, _NO_ROOT_FOR_GOOD, 0, 0, 0), "root keeps its capabilities")


def _limit_files() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = _MOST_FILE_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILE_BYTES)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, allowed: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH)
    except OSError:  # what is not there, or not the user's, needs no rule
        return
    try:
        allowed &= allowed if path.is_dir() else _OF_FILES
        rule = struct.pack("=Qi", allowed, descriptor)
        _check(libc.syscall(_ADD, ruleset, _BENEATH, rule, 0), f"{path} cannot be ruled")
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        raise OSError(0, f"{platform.system()} has no Landlock")
    return libc


def _check(result: int, why: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{why} ({os.strerror(number)})")
