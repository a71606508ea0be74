"""The cluster that we start answers those who have its token, and only from this machine."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from support.waiting import until

pytestmark = pytest.mark.ray_cluster

HOLDING = """
import json, os, sys
import psutil
from benchorch.executors.ray import connected
def folders():
    import sys
    return sys.path
with connected(None) as ray:
    searched = ray.get(ray.remote(folders).remote())
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    told = {"address": ray.get_runtime_context().gcs_address, "pids": [p.pid for p in mine],
            "token": os.environ["RAY_AUTH_TOKEN"], "searched": searched}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Cluster:
    """Where its head listens, what it asks for, and every process of it, the driver included.

    Attributes:
        script_folder: where the driver's script lies.
        current_folder: where it was started.
        searched: where a worker looks for modules.
    """

    address: str
    token: str
    pids: tuple[int, ...]
    script_folder: Path
    current_folder: Path
    searched: tuple[str, ...]


def without_ray() -> dict[str, str]:
    """The environment of somebody who knows nothing of the cluster."""
    return {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    mine, others = (tmp_path_factory.mktemp(name) for name in ("mine", "others"))
    (mine / "holding.py").write_text(HOLDING)
    holder = subprocess.Popen(
        [sys.executable, mine / "holding.py"],
        cwd=others,
        env=without_ray(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        told = json.loads(holder.stdout.readline())
        yield Cluster(
            address=told["address"],
            token=told["token"],
            pids=tuple(told["pids"]),
            script_folder=mine,
            current_folder=others,
            searched=tuple(told["searched"]),
        )
    finally:
        holder.stdin.close()
        holder.wait(timeout=400)


ASKING = """
import sys
from ray._raylet import GcsClient
try:
    print("answered", len(GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, 10)))
except Exception as error:
    print(type(error).__name__)
"""


def ask(cluster: Cluster, **variables: str) -> str:
    """What the head's store of keys and values answers a process with these variables."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING, cluster.address],
        env={**without_ray(), "HOME": "/nonexistent", **variables},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.stdout.split()[0]


def listeners(cluster: Cluster) -> Iterator[tuple[str, int]]:
    for pid in cluster.pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # Ray ends workers that idle
            for connection in psutil.Process(pid).net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    yield connection.laddr.ip, connection.laddr.port


def web(port: int, method: str, path: str, token: str | None) -> tuple[int, str]:
    """Status and kind of content; 0 where it is no web server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", "")
    except (http.client.HTTPException, OSError):
        return 0, ""
    finally:
        connection.close()


def test_the_head_answers_the_token_and_nothing_else(cluster: Cluster) -> None:
    assert ask(cluster, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=cluster.token) == "answered"
    wrong = secrets.token_hex(32)
    assert ask(cluster, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=wrong) == "AuthenticationError"
    assert ask(cluster, RAY_AUTH_MODE="disabled") == "AuthenticationError"


@pytest.mark.parametrize(
    "path",
    [
        "/api/jobs/",
        *(pytest.param(path, marks=pytest.mark.slow) for path in ("/api/version", "/nodes")),
        pytest.param("/api/job_agent/jobs/", marks=pytest.mark.slow),
    ],
)
def test_no_web_server_of_it_serves_strangers(cluster: Cluster, path: str) -> None:
    def ports() -> list[int]:
        return [port for _, port in listeners(cluster)]

    assert until(lambda: any(web(port, "GET", path, None)[0] == 401 for port in ports()), 300)
    for port in ports():
        for token, refusal in ((None, 401), (secrets.token_hex(32), 403)):
            for method in ("GET", "POST", "DELETE"):
                status, content = web(port, method, path, token)
                # What Ray shows without a token are counters for Prometheus, whatever is asked.
                counters = "version=0.0.4" in content or status in (404, 405, 501)
                assert status in (0, refusal) or counters, (port, method, status, content)


def test_every_listener_is_on_the_loopback_interface(cluster: Cluster) -> None:
    found = {ip for ip, _ in listeners(cluster)}
    assert found
    for ip in found:
        address = ipaddress.ip_address(ip)
        mapped = getattr(address, "ipv4_mapped", None)
        assert (mapped or address).is_loopback


def test_the_token_is_on_no_command_line(cluster: Cluster) -> None:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # gone, or somebody else's
            lines.append(path.read_bytes())
    assert len(lines) >= len(cluster.pids)
    assert not [line for line in lines if cluster.token.encode() in line]


def test_the_token_is_in_nothing_that_the_cluster_wrote(cluster: Cluster) -> None:
    sessions = Path(tempfile.gettempdir(), "ray")
    own = max(sessions.glob(f"session_*_{cluster.pids[0]}"))  # the latest, by the date in it
    contents = []
    for path in own.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            contents += [path.read_bytes()] if path.is_file() else []
    assert contents
    assert not [content for content in contents if cluster.token.encode() in content]


def test_workers_look_for_modules_in_the_scripts_folder_and_not_in_the_current_one(
    cluster: Cluster,
) -> None:
    assert str(cluster.script_folder) in cluster.searched
    assert str(cluster.current_folder) not in cluster.searched
