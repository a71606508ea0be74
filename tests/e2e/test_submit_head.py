"""A sweep on a real Ray head of this machine: submitted, asked about, ended and resumed there."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray_cluster]

FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.window_s=0.2", "protocol.pairing=none"),
    *("protocol.canary_tolerance_ratio=null", "profiler=none", "recorder=none"),
)
MODEL = (
    *("model=factory", "model.factory=my_zoo.py:works"),
    "+model.inputs={x: {shape: [batch_size, 4], generator: normal}}",
)
START_S = 120.0


@dataclass(frozen=True)
class Head:
    """A Ray head with a dashboard on loopback, which asks for a token."""

    url: str
    environment: Mapping[str, str]
    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "benchorch", *words],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=540,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout


def free_ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def end(process: subprocess.Popen[bytes], place: Path) -> None:
    """The head and everything it started; Ray's own command would end every cluster here."""
    tree = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(30)
    for one in tree:
        try:
            one.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(tree, timeout=10)
    left = [p.info["pid"] for p in psutil.process_iter(["pid", "cmdline"]) if names(p, place)]
    assert left == []


def names(process: psutil.Process, place: Path) -> bool:
    return any(str(place) in word for word in process.info["cmdline"] or ())


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory, make_place: Any) -> Iterator[Head]:
    path = tmp_path_factory.mktemp("head")
    # Sockets have short names: Ray's directory lies near the root.
    place = Path(f"/tmp/bo{os.getpid()}")
    (path / "work").mkdir()
    make_place(path / "work", path / "store")
    (path / "work" / ".env").write_text("SECRET=1")
    token = path / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    port, dashboard, agent = free_ports(3)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(path / "state"),
        "BENCHORCH_CACHE_DIR": str(path / "store"),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [
        *("ray", "start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--num-cpus=1"),
        *(f"--dashboard-agent-listen-port={agent}", "--object-store-memory=100000000"),
        *('--resources={"benchorch:local": 1}', f"--temp-dir={place}"),
    ]
    # Its real address would be taken otherwise, and listened on.
    inside = {**environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    url = f"http://127.0.0.1:{dashboard}"
    with (path / "head.log").open("wb") as log:
        process = subprocess.Popen(command, env=inside, stdout=log, stderr=log, cwd=path)
    try:
        wait_for(url, process)
        yield Head(url=url, environment=environment, path=path)
    finally:
        end(process, place)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until_s:
        if answer(f"{url}/api/version") in (200, 401, 403):
            return
        time.sleep(0.5)
    raise AssertionError("the head did not come up")


def answer(url: str, **headers: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_a_sweep_on_a_head_is_submitted_watched_ended_and_resumed(head: Head) -> None:
    there = ("--head", head.url)
    words = (*MODEL, "conversion=[eager,bf16,decompositions]", *FAST)
    travels = ("--working-dir", str(head.work))
    name = json.loads(head.run("submit", *there, "--json", *travels, *words))["job"]

    until_s = time.monotonic() + 240
    while (now := json.loads(head.run("status", name, "--json", *there)))["done"] < 1:
        assert now["state"] == "running"
        assert time.monotonic() < until_s
    place = head.path / "state" / "benchorch" / "runs" / name
    assert now["directory"] == str(place)
    assert [path.name for path in (place / "code").iterdir() if path.is_file()] == ["my_zoo.py"]

    ended = head.run("cancel", name, "--yes", *there)
    assert "trials are kept" in ended or "had just ended" in ended
    assert ": measure process 1" in head.run("logs", name, *there)

    again = json.loads(head.run("submit", *there, "--json", "resume", name))
    assert again["job"] != name
    while (now := json.loads(head.run("status", name, "--json", *there)))["state"] == "running":
        assert time.monotonic() < until_s + 240
    assert (now["state"], now["done"], now["left"]) == ("ended", 3, 0)
    assert name in head.run("status", *there)
    the_token_is_nowhere(head)


def the_token_is_nowhere(head: Head) -> None:
    """In no file of a run, and in no argument of any process."""
    token = (head.path / "token").read_text()
    files = [path for path in (head.path / "state").rglob("*") if path.is_file()]
    assert [path for path in files if token in path.read_text(errors="replace")] == []
    arguments = [p.info["cmdline"] or () for p in psutil.process_iter(["cmdline"])]
    assert not any(token in word for words in arguments for word in words)


def test_a_head_answers_nobody_without_its_token(head: Head) -> None:
    assert answer(f"{head.url}/api/jobs/") in (401, 403)
    assert answer(f"{head.url}/api/jobs/", Authorization="Bearer wrong") in (401, 403)
    wrong = {**head.environment, "RAY_AUTH_TOKEN": "0" * 64}
    del wrong["RAY_AUTH_TOKEN_PATH"]
    done = subprocess.run(
        [sys.executable, "-m", "benchorch", "status", "--head", head.url],
        env=wrong,
        cwd=head.path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr
