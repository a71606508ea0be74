"""``benchorch ui``: MLflow's own user interface over the local results."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.recorders import location
from benchorch.recorders.mlflow_links import FIRST_PORT, HOST

_PORTS_TRIED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A server to start.

    Attributes:
        argv: the command.
        environment: the whole of it.
        url: where the interface will be.
        store: the tracker it shows.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    url: str
    store: str


def run(arguments: Sequence[str], say: Callable[[str], None]) -> Reply:
    """Become the server; a reply only where there is none to start."""
    launch = prepare(arguments)
    if launch.argv:
        say(f"MLflow's UI opens at {launch.url} in some ten seconds; Ctrl-C ends it.")
        _become(launch)
    return Reply(text=f"MLflow's UI is at {launch.url}", data={"url": launch.url})


def prepare(arguments: Sequence[str]) -> Launch:
    """The server's command: this machine only, two processes, no background jobs."""
    parser = argparse.ArgumentParser(prog="benchorch ui", description=__doc__)
    parser.add_argument("--port", type=_port, default=FIRST_PORT, help="the next free one is taken")
    parser.add_argument("--uri", default="sqlite:///mlflow.db", help="the tracker to show")
    options = parser.parse_args(list(arguments))
    store = location.anchored(options.uri, Path.cwd())
    if store.startswith(("http://", "https://")):
        shown = location.without_secrets(store)
        return Launch(argv=(), environment={}, url=shown, store=store)
    port = free_port(options.port)
    argv = [sys.executable, "-P", "-m", "mlflow", "server", "--backend-store-uri", store]
    argv += ["--host", HOST, "--port", str(port), "--workers", "1"]
    path = location.database_file(store)
    if path is not None:
        argv += ["--artifacts-destination", (path.parent / "mlartifacts").as_uri()]
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    url = f"http://{HOST}:{port}"
    return Launch(argv=tuple(argv), environment=environment, url=url, store=store)


def free_port(first: int) -> int:
    """The first free port from this one on."""
    for port in range(first, first + _PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    tried = f"{first}..{first + _PORTS_TRIED - 1}"
    raise ConfigError([f"--port: no port in {tried} is free; choose another."])


def _become(launch: Launch) -> NoReturn:
    """Replace this process by the server, once the tables exist; a run may be making them now."""
    from benchorch.recorders.mlflow import create_store

    create_store(launch.store)
    os.execve(launch.argv[0], launch.argv, dict(launch.environment))


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise ValueError(text)
    return port
