"""``benchorch ui``: MLflow's own user interface over the local results."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from benchorch.cli.command import command
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.domain.trial import node_of
from benchorch.errors import ConfigError
from benchorch.host.packages import require
from benchorch.journal import run_directory
from benchorch.journal.registry import newest_invocations
from benchorch.progress import Say
from benchorch.recorders import location
from benchorch.recorders.mlflow_links import FIRST_PORT, HOST

STORE = "sqlite:///mlflow.db"
_PORTS_TRIED = 100
_LOOKED_AT = 20


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


@command("ui", help="Open MLflow's own user interface over the local results; Ctrl-C ends it.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=FIRST_PORT, help="or the next free one"
)
@click.option("--uri", default="", help="the tracker to show; else this folder's or the last run's")
def run(terminal: Terminal, port: int, uri: str) -> Reply:
    """Become the server; a reply only where there is none to start."""
    launch = prepare(port, uri or usual_store(terminal.say))
    if launch.argv:
        require("mlflow")
        terminal.show(f"MLflow's UI opens at {launch.url} in some ten seconds; Ctrl-C ends it.")
        _become(launch)
    return Reply(text=f"MLflow's UI is at {launch.url}", data={"url": launch.url})


def usual_store(say: Say) -> str:
    """The tracker of this folder; where there is none, that of the last run which has one."""
    if Path("mlflow.db").exists():
        return STORE
    for directory in newest_invocations(_LOOKED_AT):
        with contextlib.suppress(ConfigError):
            session = run_directory.read_plan(directory).session
            uri = str(node_of(session, "tracking").get("uri") or "")
            uri = uri and location.anchored(uri, Path(str(session.get("cwd", "."))))
            path = location.database_file(uri)
            if uri and (path is None or (path.is_absolute() and path.exists())):
                shown = location.without_secrets(uri)
                say(f"This folder has no mlflow.db; showing the last run's tracker, {shown}")
                return uri
    return STORE


def prepare(port: int = FIRST_PORT, uri: str = STORE) -> Launch:
    """The server's command: this machine only, two processes, no background jobs."""
    if (problem := location.problem(uri)) is not None:
        raise ConfigError([f"--{problem}"])
    store = location.anchored(uri, Path.cwd())
    if store.startswith(("http://", "https://")):
        shown = location.without_secrets(store)
        return Launch(argv=(), environment={}, url=shown, store=store)
    port = free_port(port)
    argv = [sys.executable, "-P", "-m", "mlflow", "server"]
    argv += ["--host", HOST, "--port", str(port), "--workers", "1"]
    path = location.database_file(store)
    if path is not None:
        argv += ["--artifacts-destination", location.artifacts_of(path).absolute().as_uri()]
    environment = {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": store,  # everyone sees arguments, and it may hold a password
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PYTHONSAFEPATH": "1",  # MLflow starts others by python -m, and this folder may be anyone's
        "MLFLOW_UVICORN_OPTS": _with_app_dir(os.environ.get("MLFLOW_UVICORN_OPTS", "")),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    environment.pop("MLFLOW_GUNICORN_OPTS", None)  # that server imports from this folder
    url = f"http://{HOST}:{port}"
    return Launch(argv=tuple(argv), environment=environment, url=url, store=store)


def _with_app_dir(options: str) -> str:
    """Options of uvicorn, which puts one folder before all others where modules are looked for.

    Without an option that is the current one, whatever PYTHONSAFEPATH says.
    """
    return f"{options} --app-dir={shlex.quote(sysconfig.get_path('stdlib'))}".strip()


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
