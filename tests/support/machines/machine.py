"""A machine: its own processes, disk, memory files, network card and name, and a power switch."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from support.machines.namespaces import Switch, leashed

METADATA_ADDRESS = "169.254.169.254"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DISK, MEMORY_FILES = "6g", "1g"
_numbers = itertools.count(1)

# The first process of a machine: it makes the disk, then only collects what dies.
# The disk shows what this machine's root file system holds; what is written stays in the machine.
_INIT = f"""
set -eu
hostname "$1"
mount -t tmpfs -o size={DISK} disk /run
mkdir /run/written /run/work /run/root
cp -a "$2/." /run/written
mount -t overlay -o lowerdir=/,upperdir=/run/written,workdir=/run/work disk /run/root
cd /run/root
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs -o size={MEMORY_FILES} memory dev/shm
mkdir -p tmp/ray
mount -t tmpfs empty tmp/ray
[ -z "$3" ] || mount -t tmpfs empty ".$3"
for shared in "${{@:4}}"; do mkdir -p ".$shared"; mount --bind "$shared" ".$shared"; done
mkdir -p before
pivot_root . before
umount -l /before
ip link set lo up
ip address add {METADATA_ADDRESS}/32 dev lo
trap 'exit 0' TERM
echo up
exec >/dev/null 2>&1 </dev/null
while :; do sleep 3600 & wait $!; done
"""


class Machine:
    """One machine that runs.

    Args:
        name: its host name.
        address: its own on the switch, with the length of the prefix, e.g. ``10.60.0.7/16``.
        image: a directory of files that its disk has over those of this machine.
        hidden: a directory of this machine that is empty there, lest it sees what others write.
        shared: directories of this machine that it sees and writes.
        environment: of every program on it.
    """

    def __init__(
        self,
        name: str,
        address: str,
        switch: Switch,
        *,
        image: Path,
        hidden: Path | None = None,
        shared: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address = address.partition("/")[0]
        self.environment = {"PATH": PATH, "HOME": "/var/lib/node", "LANG": "C.UTF-8"}
        self.environment.update(environment or {})
        self._closing: list[Callable[[], None]] = []
        self._switch = switch
        self._cable = f"cable{os.getpid() % 100000}-{next(_numbers)}"[:15]
        self._power = _powered(name, image, hidden, shared)
        self.pid = _first_process(self._power.pid)
        switch.plug(self._cable, self.pid, address)

    def start(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A program on the machine, its output in a file out here; `more` is environment."""
        with log.open("ab") as output:
            return subprocess.Popen(
                self.entering(command),
                env={**self.environment, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(
        self, command: Sequence[str], timeout_s: float = 60, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """What a program on the machine says; `more` goes into its environment."""
        return subprocess.run(
            self.entering(command),
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def entering(self, command: Sequence[str]) -> Sequence[str]:
        """A command for out here that runs this one on the machine."""
        spaces = ["--net", "--pid", "--mount", "--uts", "--ipc"]
        return leashed(["nsenter", "--target", str(self.pid), *spaces, "--", *command])

    def file(self, path: str) -> Path:
        """A file of the machine's disk, as seen from out here."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def cut_off(self) -> None:
        """Pull its network cable."""
        self._switch.set(self._cable, "down")

    def reconnect(self) -> None:
        self._switch.set(self._cable, "up")

    def at_end(self, close: Callable[[], None]) -> None:
        """Call this when the power is off: whoever listens inside keeps the network alive."""
        self._closing.append(close)

    @property
    def on(self) -> bool:
        return self._power.poll() is None

    def power_off(self) -> None:
        """As if the plug was pulled: no process is told, all are gone."""
        if self.on:  # its number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._power.wait(timeout=30)
        while self._closing:
            self._closing.pop()()


def _powered(
    name: str, image: Path, hidden: Path | None, shared: Sequence[Path]
) -> subprocess.Popen[str]:
    spaces = ["--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child"]
    words = [name, str(image), str(hidden or ""), *map(str, shared)]
    started = subprocess.Popen(
        leashed(["unshare", *spaces, "bash", "-c", _INIT, "init", *words]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stderr is not None
    if started.stdout.readline() != "up\n":
        raise RuntimeError(f"machine {name} did not start: {started.stderr.read()}")
    return started


def _first_process(parent: int) -> int:
    """The child that is process 1 in there, as it is called out here."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    deadline_s = time.monotonic() + 60
    while not (found := children.read_text().split()):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"process {parent} has no child")
        time.sleep(0.01)
    return int(found[0])
