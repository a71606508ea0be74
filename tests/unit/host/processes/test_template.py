"""Processes forked from a template: children like those that are executed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchorch.errors import ExecutorError
from benchorch.host.processes import template
from benchorch.host.processes.run_child import ChildLimits, ChildReply, run_child
from benchorch.host.processes.spawn import started
from benchorch.host.processes.template import Template
from support.waiting import until

pytestmark = pytest.mark.skipif(not template.is_possible(), reason="needs Linux")

SERVING = """
import json, os, signal, sys, threading, time
from benchorch.host.processes.child_channel import Channel, die_with_parent, read_request
from benchorch.host.processes.template import serve
die_with_parent()
def entry():
    die_with_parent()
    reply(Channel())
    os._exit(0)
"""

Start = Callable[..., Template]
Ask = Callable[..., ChildReply[Any]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a template whose forks run this source as the body of ``reply(parent)``."""
    with contextlib.ExitStack() as opened:

        def start(body: str, *, before: str = "") -> Template:
            ours, theirs = socket.socketpair()
            opened.enter_context(ours)
            lines = textwrap.indent(textwrap.dedent(body), "    ")
            source = (
                f"{SERVING}def reply(parent):\n{lines}\n{before}\nserve(int(sys.argv[1]), entry)"
            )
            with theirs:
                argv = [sys.executable, "-c", source, str(theirs.fileno())]
                descriptors = (theirs.fileno(),)
                running = started(
                    argv, b"", tmp_path / "template.txt", dict(os.environ), descriptors=descriptors
                )
                opened.enter_context(running)
            return Template(ours, 400)

        yield start


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs a child of a template."""

    def ask(
        of: Template, request: Any = None, *, timeout_s: float = 400, **environment: str
    ) -> Any:
        return run_child(
            "build",
            request,
            Any,  # type: ignore[arg-type]
            log=tmp_path / "log.txt",
            limits=ChildLimits(timeout_s=timeout_s, memory_bytes=None),
            environment=environment,
            on_message=lambda _: None,
            template=of,
        )

    return ask


def test_a_forked_process_answers_with_an_environment_a_session_and_a_log_of_its_own(
    start: Start, ask: Ask, tmp_path: Path
) -> None:
    forking = start(
        """
        print("to the log")
        seen = [os.environ["ITS_OWN"], os.getpgid(0) == os.getsid(0) == os.getpid(), sys.argv[1]]
        parent.send_reply([*seen, os.getpid(), read_request(str)])
        """
    )
    seen = [ask(forking, text, ITS_OWN=text).reply for text in ("one", "two")]
    assert [[*each[:3], each[4]] for each in seen] == [
        ["one", True, "build", "one"],
        ["two", True, "build", "two"],
    ]
    assert seen[0][3] != seen[1][3]
    assert (tmp_path / "log.txt").read_text() == "to the log\n" * 2


def test_a_forked_process_keeps_processors_limits_and_priority(start: Start, ask: Ask) -> None:
    forking = start(
        """
        import resource
        limits = [resource.getrlimit(each) for each in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE)]
        parent.send_reply([sorted(os.sched_getaffinity(0)), os.nice(0), limits])
        """
    )
    import resource

    limits = [resource.getrlimit(each) for each in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE)]
    here = [sorted(os.sched_getaffinity(0)), os.nice(0), [list(each) for each in limits]]
    assert ask(forking).reply == here


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crash:SIGSEGV"),
        ("os._exit(7)", "exit:7"),
        ("raise ValueError", "exit:1"),
        ("time.sleep(600)", "timeout"),
    ],
)
def test_how_a_forked_process_ends_is_told_and_the_template_goes_on(
    start: Start, ask: Ask, body: str, kind: str
) -> None:
    forking = start(f"if read_request(bool):\n    {body}\nparent.send_reply(1)")
    failure = ask(forking, True, timeout_s=2 if kind == "timeout" else 400).failure
    assert failure is not None
    assert failure.kind == kind
    assert forking.is_usable
    assert ask(forking, False).reply == 1


def test_with_its_template_a_forked_process_ends_and_no_more_are_forked(
    start: Start, ask: Ask
) -> None:
    forking = start("os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)")
    failure = ask(forking).failure
    assert failure is not None
    assert failure.kind.startswith(("crash", "oom"))
    assert not forking.is_usable
    with pytest.raises(ExecutorError, match="template"):
        ask(forking)


def test_a_template_with_threads_forks_nothing(start: Start) -> None:
    waiting = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    assert not start("parent.send_reply(1)", before=waiting).is_usable


def test_a_template_that_fails_forks_nothing(start: Start) -> None:
    assert not start("parent.send_reply(1)", before="raise ImportError").is_usable


def test_no_descriptor_is_left_open(start: Start, ask: Ask) -> None:
    forking = start("parent.send_reply(len(os.listdir('/dev/fd')))")
    inside = ask(forking).reply
    before = len(list(Path("/dev/fd").iterdir()))
    assert ask(forking).reply == inside
    assert len(list(Path("/dev/fd").iterdir())) <= before  # others may close some


def test_what_a_forked_process_started_ends_with_it(start: Start, ask: Ask) -> None:
    forking = start(
        """
        import subprocess
        left = subprocess.Popen(["sleep", "600"], start_new_session=True)
        parent.send_reply(left.pid)
        """
    )
    left = ask(forking).reply
    try:
        assert until(lambda: not Path(f"/proc/{left}").exists(), 60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
