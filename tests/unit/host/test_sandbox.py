"""What a program in a sandbox cannot do, tried by a program in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchorch.host import sandbox

ATTEMPTS = """
import ctypes, json, os, socket, struct, subprocess, sys
from pathlib import Path
libc = ctypes.CDLL(None)
def make_writable():
    clear_read_only, size = struct.pack("=QQQQ", 0, 1, 0, 0), ctypes.c_size_t(32)
    if libc.syscall(442, -100, b"/", 0, clear_read_only, size):
        raise OSError("mount_setattr")
def make_writable_in_namespaces():
    libc.unshare(0x10000000 | 0x20000)
    make_writable()
mine, other, parent = Path(sys.argv[1]), Path(sys.argv[2]), os.getppid()
server = socket.create_server(("127.0.0.1", 0))
attempts = {
    "read its own folder": lambda: (mine / "data.txt").read_text(),
    "write to its own folder": lambda: (mine / "new.txt").write_text("x"),
    "write to its home": lambda: Path.home().joinpath("new.txt").write_text("x"),
    "run a program": lambda: subprocess.run(["true"], check=True),
    "import a package": lambda: __import__("yaml"),
    "write to a given folder": lambda: (mine / "out" / "new.txt").write_text("x"),
    "read another folder": lambda: (other / "data.txt").read_text(),
    "change a mode": lambda: (mine / "data.txt").chmod(0o777),
    "remove a file": lambda: (mine / "data.txt").unlink(),
    "read memory that others share": lambda: open(os.environ["BENCHORCH_SHARED"]).read(),
    "make a link to it": lambda: Path.home().joinpath("link").hardlink_to(other / "data.txt"),
    "listen to itself": lambda: socket.create_server(("127.0.0.1", 0)),
    "connect to itself": lambda: socket.create_connection(server.getsockname(), 1),
    "connect to a socket": lambda: socket.socket(socket.AF_UNIX).connect(str(other / "socket")),
    "connect": lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])), 1),
    "send a datagram": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
    "read its parent's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
    "signal its parent": lambda: os.kill(parent, 0),
    "read a secret": lambda: os.environ["AWS_SECRET_ACCESS_KEY"],
    "make an endless file": lambda: Path.home().joinpath("huge").open("wb").truncate(2**40),
    "read a terminal": lambda: os.open(sys.argv[4], os.O_RDONLY | os.O_NOCTTY),
    "write to a terminal": lambda: os.open(sys.argv[4], os.O_WRONLY | os.O_NOCTTY),
    "make a terminal": lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY),
    "leave": lambda: subprocess.run(["mount", "-o", "remount,rw", "/"], check=True),
    "make mounts writable": make_writable,
    "make mounts of its own writable": make_writable_in_namespaces,
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name)
    except (OSError, KeyError, subprocess.CalledProcessError):
        pass
"""
POSSIBLE = {
    *("read its own folder", "write to its home", "run a program", "import a package"),
    *("write to a given folder", "listen to itself", "connect to itself"),
}


@pytest.fixture(autouse=True)
def _there_is_one() -> None:
    why = sandbox.problem()
    if why:
        pytest.skip(f"SKIPPED: {why}")


def test_only_reading_computing_and_its_own_folders_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="others-") as shared:
        monkeypatch.setenv("BENCHORCH_SHARED", shared.name)
        _attempt_everything(tmp_path)


def _attempt_everything(tmp_path: Path) -> None:
    import pty
    import socket

    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other, mine / "out"):
        folder.mkdir(parents=True)
        (folder / "data.txt").write_text("data")
    with (
        socket.socket(socket.AF_UNIX) as others,
        socket.create_server(("127.0.0.1", 0)) as server,
        sandbox.enclosure([mine], [mine / "out"]) as enclosed,
    ):
        others.bind(str(other / "socket"))
        others.listen()
        port = str(server.getsockname()[1])
        ends = pty.openpty()
        terminal = os.ttyname(ends[1])
        words = [sys.executable, "-c", ATTEMPTS, str(mine), str(other), port, terminal]
        done = subprocess.run(
            [*enclosed.command(), *words], capture_output=True, text=True, check=True, timeout=60
        )
    for end in ends:
        os.close(end)
    assert set(done.stdout.splitlines()) == POSSIBLE
    assert not Path(enclosed.home).exists()
    assert (mine / "data.txt").read_text() == "data"


def test_its_variables_are_few_and_its_home_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("BENCHORCH_TRACKING_URI", "https://me:hunter2@example.com")
    monkeypatch.setenv("BENCHORCH_HEAD", "https://me:hunter2@example.com")
    monkeypatch.setenv("NVIDIA_API_KEY", "hunter2")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    with sandbox.enclosure([], []) as enclosed:
        done = subprocess.run(
            [*enclosed.command(), sys.executable, "-c", script],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    variables = json.loads(done.stdout)
    assert "hunter2" not in done.stdout
    assert variables["HOME"] == variables["TMPDIR"] == enclosed.home
    assert variables["OMP_NUM_THREADS"] == "2"


def test_a_system_without_one_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "from benchorch.host import sandbox; sandbox._LEAST_VERSION = 999; sandbox.enter()"
    monkeypatch.setattr(sandbox, "_ENTRY", entry)
    why = sandbox.problem()
    assert why.startswith("no sandbox on this system: Linux ")
    assert "\n" not in why
