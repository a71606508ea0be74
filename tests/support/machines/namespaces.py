"""What of Linux the machines stand on: may they be made here, their switch, a door into them."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOLS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
CHECKOUT = Path(__file__).resolve().parents[3]
_CLONE_NEWNET = 0x40000000


def missing() -> str | None:
    """Why no machine can be made here and how it could, or None."""
    if sys.platform != "linux":
        return f"machines are Linux namespaces, and this is {sys.platform}; use a Linux machine"
    if os.geteuid() != 0:
        return "making namespaces needs root; run it as root, e.g. in a virtual machine"
    absent = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if absent:
        return f"tools for namespaces are missing; apt-get install {' '.join(absent)}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system; modprobe overlay"
    root = Path("/").stat().st_dev
    elsewhere = [str(path) for path in (CHECKOUT, Path(sys.prefix)) if path.stat().st_dev != root]
    if elsewhere:
        return f"machines see the root file system alone; move {', '.join(elsewhere)} there"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--fork", "ip", "link", "set", "lo", "up"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"namespaces are refused here: {tried.stderr.strip()}" if tried.returncode else None


def leashed(command: Sequence[str]) -> Sequence[str]:
    """A command that is killed when the thread that starts it ends."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


class Switch:
    """A bridge in a network of its own; the machines' cables end here, and nothing leads out.

    The network lives as long as one process in it, so nothing outlives this process.
    """

    def __init__(self) -> None:
        bridge = "ip link add bridge type bridge && ip link set bridge up && echo && cat"
        self._process = subprocess.Popen(
            leashed(["unshare", "--net", "sh", "-c", bridge]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the switch did not start"

    @property
    def pid(self) -> int:
        return self._process.pid

    def plug(self, cable: str, machine: int, address: str) -> None:
        """Lay a cable to the network of a process, whose end is eth0 with this address."""
        self._ip(
            "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(machine)
        )
        self._ip("link", "set", cable, "master", "bridge", "up")
        inside = ["nsenter", "--target", str(machine), "--net", "ip"]
        for words in (
            ["address", "add", address, "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            # Without any default route Ray takes 127.0.0.1 for its own address.
            ["route", "add", "default", "dev", "eth0"],
        ):
            subprocess.run([*inside, *words], check=True, capture_output=True)

    def set(self, cable: str, state: str) -> None:
        """Pull a cable (``down``) or put it back (``up``)."""
        self._ip("link", "set", cable, state)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ip(self, *words: str) -> None:
        command = ["nsenter", "--target", str(self.pid), "--net", "ip", *words]
        subprocess.run(command, check=True, capture_output=True)


def listening_inside(pid: int, address: str, port: int) -> socket.socket:
    """A socket of this process that listens in another one's network."""
    with ThreadPoolExecutor(1) as thread:  # only that thread moves there, and then it ends
        return thread.submit(_move_and_listen, pid, address, port).result()


def _move_and_listen(pid: int, address: str, port: int) -> socket.socket:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(network, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")
    finally:
        os.close(network)
    return socket.create_server((address, port), backlog=64)
