"""Real children that die in every way there is."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.codec import Json
from benchorch.domain.result import Failure
from benchorch.errors import ExecutorError
from benchorch.host.processes.process_tree import ProcessTree
from benchorch.host.processes.run_child import ChildLimits, ChildReply, run_child
from benchorch.host.processes.template import is_possible
from benchorch.units import format_seconds

MIB = 1024**2
LINUX = sys.platform == "linux"

PRELUDE = """
import ctypes, json, os, signal, subprocess, sys, threading, time
from typing import Any
from benchorch.domain.result import Failure
from benchorch.host.processes.child_channel import *
from benchorch.host.processes.child_channel import Channel, read_request
"""

Run = Callable[..., ChildReply[Any]]


def alive(pid: int) -> bool:
    """Whether a process exists and is more than an unreaped remainder."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def ends(pid: int, within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "trial" / "log.txt"


@pytest.fixture
def run(tmp_path: Path, log: Path) -> Run:
    """Runs a child given as source text."""

    def run(
        source: str,
        *,
        request: Json = None,
        timeout_s: float = 400,
        memory_bytes: int | None = None,
        environment: dict[str, str] | None = None,
        reply: Any = Any,
        on_message: Callable[[str], None] = lambda _: None,
        log: Path = log,
        before: tuple[str, ...] = (),
        exit_s: float = 5,
    ) -> ChildReply[Any]:
        script = tmp_path / "child.py"
        script.write_text(PRELUDE + textwrap.dedent(source))
        return run_child(
            "build",
            request,
            reply,
            log=log,
            limits=ChildLimits(timeout_s=timeout_s, memory_bytes=memory_bytes, exit_s=exit_s),
            environment=environment or {},
            on_message=on_message,
            command=[*before, sys.executable, str(script)],
        )

    return run


LIMIT_S = 1000.0
"""More than any child here takes to begin, however busy the machine is."""


@pytest.fixture
def past_its_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A listener: at the first message the parent's clock jumps to after LIMIT_S."""
    ahead_s = 0.0

    def jump(_: str) -> None:
        nonlocal ahead_s
        ahead_s = LIMIT_S

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
    monkeypatch.setattr("benchorch.host.processes.run_child.time", clock)
    return jump


def failure(reply: ChildReply[Any]) -> Failure:
    assert reply.reply is None
    assert reply.failure is not None
    assert reply.failure.stage == "build"
    return reply.failure


# Answers -----------------------------------------------------------------------------------


def test_a_child_answers_what_it_was_asked(run: Run) -> None:
    request = {"numbers": [1, 2.5, None], "text": "ä" * 200_000}
    answered = run("Channel().send_reply(read_request(Any))", request=request)
    assert answered.reply == request
    assert answered.failure is None
    assert 0 < answered.elapsed_s < 60


def test_an_answer_of_many_megabytes_arrives_whole(run: Run) -> None:
    answered = run("Channel().send_reply(list(range(1_000_000)))")
    assert answered.reply == list(range(1_000_000))


@pytest.mark.parametrize("answer", ["None", "0", "[]"])
def test_an_empty_answer_is_an_answer(run: Run, answer: str) -> None:
    answered = run(f"Channel().send_reply({answer})")
    assert answered.failure is None


def test_a_request_that_nobody_reads_blocks_nobody(run: Run) -> None:
    assert run("Channel().send_reply(1)", request="x" * 5 * MIB).reply == 1


def test_messages_arrive_in_order_while_the_child_runs(run: Run, tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(message: str) -> None:
        heard.append(message)
        (tmp_path / message).touch()

    answered = run(
        f"""
        channel = Channel()
        channel.send_message("one")
        while not os.path.exists({str(tmp_path / "one")!r}): time.sleep(0.01)
        channel.send_message("two")
        channel.send_reply("done")
        """,
        on_message=hear,
    )
    assert answered.reply == "done"
    assert heard == ["one", "two"]


def test_threads_of_a_child_do_not_mix_their_lines(run: Run) -> None:
    heard: list[str] = []
    answered = run(
        """
        channel = Channel()
        def shout(word):
            for _ in range(20):
                channel.send_message(word * 10_000)
        threads = [threading.Thread(target=shout, args=(word,)) for word in "abc"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        channel.send_reply(True)
        """,
        on_message=heard.append,
    )
    assert answered.reply is True
    assert len(heard) == 60


def test_a_reported_failure_comes_back_whole(run: Run) -> None:
    reported = failure(
        run(
            """
            Channel().send_failure(Failure(
                stage="elsewhere", kind="build_refused", message="no", remedy="ask", detail="tb"))
            """
        )
    )
    expected = Failure(stage="build", kind="build_refused", message="no", remedy="ask", detail="tb")
    assert reported == expected


def test_values_keep_their_types_both_ways(run: Run) -> None:
    asked = Failure(stage="a", kind="b", message="c")
    answered = run("Channel().send_reply(read_request(Failure))", request=asked, reply=Failure)
    assert answered.reply == asked


def test_a_partial_reply_counts_where_the_child_dies_before_the_whole_one(run: Run) -> None:
    died = run("Channel().send_partial([1]); os._exit(3)")
    assert failure(died).kind == "exit:3"
    assert died.partial == [1]
    answered = run("Channel().send_partial([1]); Channel().send_reply([1, 2])")
    assert (answered.reply, answered.partial) == ([1, 2], None)


def test_output_goes_to_the_log_and_never_into_the_answer(run: Run, log: Path) -> None:
    answered = run(
        """
        print('{"reply": "false"}', flush=True)
        os.write(2, bytes(range(256)))
        os.write(int(os.environ["BENCHORCH_REPLY_FD"]), b'\\xff garbage\\n[1]\\n{"kind": "?"}\\n')
        Channel().send_reply("true")
        """
    )
    assert answered.reply == "true"
    assert b'{"reply": "false"}' in log.read_bytes()


def test_stages_share_a_log(run: Run, log: Path) -> None:
    for word in ("first", "second"):
        run(f"print({word!r}); Channel().send_reply(1)")
    assert log.read_text().split() == ["first", "second"]


def test_the_childs_environment_is_this_ones_with_changes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEPT", "1")
    monkeypatch.setenv("A_CHANGED", "1")
    answered = run(
        "Channel().send_reply([os.environ['A_KEPT'], os.environ['A_CHANGED']])",
        environment={"A_CHANGED": "2"},
    )
    assert answered.reply == ["1", "2"]


def test_the_environments_size_is_drawn_anew_for_each_child(run: Run) -> None:
    source = "Channel().send_reply(sum(map(len, os.environ.values())))"
    assert len({run(source).reply for _ in range(4)}) > 1


def test_a_crash_after_the_answer_does_not_take_it_back(run: Run) -> None:
    answered = run("Channel().send_reply(7); ctypes.string_at(0)")
    assert answered.reply == 7
    assert answered.failure is None


def test_a_child_that_answers_and_stays_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = run("Channel().send_reply(os.getpid()); time.sleep(600)", exit_s=0.3)
    assert isinstance(answered.reply, int)
    assert not alive(answered.reply)


# Deaths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("ctypes.string_at(0)", "crash:SIGSEGV"),
        ("os.abort()", "crash:SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "crash:SIGTERM"),
        ("os._exit(7)", "exit:7"),
        ("sys.exit(0)", "exit:0"),
        ("raise RuntimeError('lost')", "exit:1"),
    ],
)
def test_ways_of_dying_are_told_apart(run: Run, source: str, kind: str) -> None:
    died = failure(run(source))
    assert died.kind == kind
    assert kind.partition(":")[2] in died.message


def test_a_crash_shows_where_in_the_last_lines(run: Run) -> None:
    died = failure(run("def guilty(): ctypes.string_at(0)\nguilty()"))
    assert "in guilty" in died.detail


def test_detail_holds_the_last_lines_of_this_stage_only(run: Run, log: Path) -> None:
    run("print('an earlier stage'); Channel().send_reply(1)")
    died = failure(run("print('of this stage', flush=True); os._exit(3)"))
    assert died.detail == "of this stage"


def test_a_flood_of_output_leaves_its_last_lines(run: Run, log: Path) -> None:
    died = failure(
        run("for i in range(300_000): print('line', i)\nsys.stdout.flush(); os._exit(1)")
    )
    assert died.detail.splitlines()[-1] == "line 299999"
    assert len(died.detail.splitlines()) == 20
    assert log.stat().st_size > 3 * MIB


def test_a_half_written_answer_is_none(run: Run) -> None:
    source = """
    os.write(int(os.environ["BENCHORCH_REPLY_FD"]), b'{"kind": "reply", "reply": 1')
    os._exit(2)
    """
    assert failure(run(source)).kind == "exit:2"


@pytest.mark.skipif(not LINUX, reason="only Linux counts out-of-memory kills")
def test_a_kill_by_somebody_else_is_not_called_out_of_memory(run: Run) -> None:
    assert failure(run("os.kill(os.getpid(), signal.SIGKILL)")).kind == "crash:SIGKILL"


def test_a_kill_counts_as_out_of_memory_where_the_kernel_keeps_no_count(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchorch.host.cgroup.oom_kills", lambda: None)
    died = failure(run("os.kill(os.getpid(), signal.SIGKILL)"))
    assert died.kind == "oom"
    assert "most likely" in died.message


def test_a_child_that_cannot_be_started_is_the_executors_trouble(log: Path) -> None:
    with pytest.raises(ExecutorError, match="could not be started"):
        run_child(
            "build",
            None,
            int,
            log=log,
            limits=ChildLimits(timeout_s=1, memory_bytes=None),
            environment={},
            on_message=lambda _: None,
            command=["no-such-program-anywhere"],
        )


# Memory ------------------------------------------------------------------------------------

ALLOCATE = """
blocks = []
while True:
    blocks.append(bytearray(os.urandom(1) * (8 << 20)))
    time.sleep(0.01)
"""


def test_allocating_without_end_is_out_of_memory_with_both_numbers(run: Run) -> None:
    answered = run(ALLOCATE, memory_bytes=300 * MIB)
    died = failure(answered)
    assert died.kind == "oom"
    assert "300.0 MiB" in died.message
    held = re.search(r"held ([0-9.]+) MiB", died.message)
    assert held
    assert float(held[1]) > 300


@pytest.mark.skipif(not LINUX, reason="descendants are found in /proc")
def test_memory_of_descendants_counts(run: Run) -> None:
    code = f"import os, time{ALLOCATE}"
    source = f"subprocess.run([sys.executable, '-c', {code!r}], start_new_session=True)"
    assert failure(run(source, memory_bytes=300 * MIB)).kind == "oom"


@pytest.mark.skipif(not LINUX, reason="shared pages are told apart in /proc")
def test_pages_that_forked_processes_share_count_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = tmp_path / "looked"  # they end once their parent has looked at what they share
    real = ProcessTree.proportional_bytes

    def proportional_bytes(tree: ProcessTree) -> int:
        held = real(tree)
        looked.touch()
        return held

    monkeypatch.setattr(ProcessTree, "proportional_bytes", proportional_bytes)
    answered = run(
        f"""
        block = bytearray(os.urandom(1) * (150 << 20))
        pids = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                while not os.path.exists({str(looked)!r}): time.sleep(0.05)
                os._exit(0)
            pids.append(pid)
        for pid in pids: os.waitpid(pid, 0)
        Channel().send_reply("fine")
        """,
        memory_bytes=400 * MIB,
    )
    assert answered.reply == "fine"


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group (version 1) with a limit of 200 MiB, where one may be made."""
    group = Path("/sys/fs/cgroup/memory") / f"benchorch-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    (group / "memory.limit_in_bytes").write_text(str(200 * MIB))
    (group / "memory.swappiness").write_text("0")
    yield group
    group.rmdir()


def test_the_kernels_own_kill_is_out_of_memory(run: Run, memory_group: Path) -> None:
    enter = f'echo $$ > {memory_group}/cgroup.procs && exec "$@"'
    answered = run(
        "prefer_to_die()\nb = [bytearray(b'x' * (8 << 20)) for _ in range(100)]",
        before=("sh", "-c", enter, "sh"),
    )
    died = failure(answered)
    assert died.kind == "oom"
    assert "kernel" in died.message


@pytest.mark.skipif(not LINUX, reason="a Linux setting")
def test_a_child_offers_itself_to_the_kernel_first(run: Run) -> None:
    source = "prefer_to_die(); Channel().send_reply(int(open('/proc/self/oom_score_adj').read()))"
    assert run(source).reply == 1000


# Time --------------------------------------------------------------------------------------


def test_a_hang_ends_at_its_limit_with_the_last_event(
    run: Run, past_its_limit: Callable[[str], None]
) -> None:
    source = "Channel().send_message('autotuning'); time.sleep(600)"
    died = failure(run(source, timeout_s=LIMIT_S, on_message=past_its_limit))
    assert died.kind == "timeout"
    assert format_seconds(LIMIT_S) in died.message
    assert "autotuning" in died.message


def test_a_hang_shows_where_it_was(run: Run, past_its_limit: Callable[[str], None]) -> None:
    source = """
    show_where_it_hangs()
    def stuck():
        Channel().send_message("here")
        time.sleep(600)
    stuck()
    """
    died = failure(run(source, timeout_s=LIMIT_S, on_message=past_its_limit))
    assert "in stuck" in died.detail


def test_a_child_that_never_stops_talking_still_meets_its_limit(
    run: Run, past_its_limit: Callable[[str], None]
) -> None:
    source = "channel = Channel()\nwhile True: channel.send_message('x' * 1000)"
    died = failure(run(source, timeout_s=LIMIT_S, on_message=past_its_limit))
    assert died.kind == "timeout"


def test_a_child_that_closes_the_pipe_is_waited_for_quietly(run: Run) -> None:
    died = failure(run("os.closerange(3, 100); time.sleep(0.6); os._exit(4)"))
    assert died.kind == "exit:4"


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchildren = [
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **options)
    for options in ({}, {"start_new_session": True})
]
pids = [os.getpid(), *(process.pid for process in grandchildren)]
Channel().send_message(json.dumps(pids))
"""


@pytest.mark.skipif(not LINUX, reason="descendants are found in /proc")
@pytest.mark.parametrize(
    ("end", "kind"), [("time.sleep(600)", "timeout"), ("os._exit(5)", "exit:5")]
)
def test_nothing_that_a_child_started_outlives_it(
    run: Run,
    end: str,
    kind: str,
    past_its_limit: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchorch.host.processes.run_child._TERM_GRACE_S", 0.2)  # it is of no use
    heard: list[str] = []

    def hear(message: str) -> None:
        heard.append(message)
        if kind == "timeout":
            past_its_limit(message)

    died = failure(run(STUBBORN + end, timeout_s=LIMIT_S, on_message=hear))
    assert died.kind == kind
    pids = json.loads(heard[0])
    assert len(pids) == 3
    assert [pid for pid in pids if alive(pid)] == []


@pytest.mark.skipif(not LINUX, reason="descendants are found in /proc")
def test_an_orphan_in_a_session_of_its_own_is_found_by_its_mark(run: Run) -> None:
    middle = """
import subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
null = subprocess.DEVNULL
print(subprocess.Popen(sleep, stdout=null, stderr=null, start_new_session=True).pid)
"""
    answered = run(
        f"""
        command = [sys.executable, "-c", {middle!r}]
        done = subprocess.run(command, capture_output=True, text=True)
        Channel().send_reply(int(done.stdout))
        """
    )
    assert isinstance(answered.reply, int)
    assert not alive(answered.reply)


@pytest.mark.parametrize(
    ("source", "kind"),
    [("time.sleep(600)", "timeout"), (ALLOCATE, "oom"), ("os._exit(3)", "exit:3")],
)
def test_limits_hold_on_systems_without_proc(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, kind: str
) -> None:
    monkeypatch.setattr("benchorch.host.processes.process_tree._PROC", tmp_path / "none")
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)
    monkeypatch.delattr(os, "memfd_create", raising=False)
    limit_s = 1 if kind == "timeout" else LIMIT_S
    assert failure(run(source, timeout_s=limit_s, memory_bytes=300 * MIB)).kind == kind


def test_a_kernel_that_refuses_process_descriptors_measures_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    assert not is_possible()
    assert run("Channel().send_reply(1)").reply == 1
    assert failure(run("os._exit(3)")).kind == "exit:3"


def refused(_pid: int) -> int:
    """What a container's filter of system calls answers."""
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


# The parent's own troubles -----------------------------------------------------------------


def test_a_listener_that_raises_ends_the_child(run: Run) -> None:
    pids: list[int] = []

    def refuse(message: str) -> None:
        pids.append(int(message))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("Channel().send_message(str(os.getpid())); time.sleep(600)", on_message=refuse)
    assert not alive(pids[0])


PARENT = """
import sys
from pathlib import Path
from benchorch.host.processes.run_child import ChildLimits, run_child

child = '''
import os, time
from benchorch.host.processes.child_channel import Channel, die_with_parent
die_with_parent()
Channel().send_message(str(os.getpid()))
time.sleep(600)
'''
run_child(
    "build",
    None,
    int,
    log=Path(sys.argv[1]),
    limits=ChildLimits(timeout_s=600, memory_bytes=None),
    environment={},
    on_message=lambda pid: print(pid, flush=True),
    command=[sys.executable, "-c", child],
)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_the_parent_ends_the_child(log: Path, number: signal.Signals) -> None:
    if number != signal.SIGINT and not LINUX:
        pytest.skip("only Linux tells a child that its parent died")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(number)
    _, complaint = parent.communicate(timeout=400)
    assert ends(child)
    assert parent.returncode != 0
    assert ("KeyboardInterrupt" in complaint) == (number == signal.SIGINT)


def test_a_child_whose_parent_died_before_it_could_ask_ends_itself() -> None:
    if not LINUX:
        pytest.skip("only Linux tells a child that its parent died")
    reader, writer = os.pipe()
    os.close(reader)
    code = "from benchorch.host.processes.child_channel import die_with_parent; die_with_parent()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        pass_fds=(writer,),
        env={**os.environ, "BENCHORCH_REPLY_FD": str(writer)},
        check=False,
    )
    os.close(writer)
    assert ended.returncode == -signal.SIGKILL


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of its own without a free byte, where one can be mounted."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    with contextlib.suppress(OSError):
        if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            try:
                with contextlib.suppress(OSError), (folder / "filler").open("wb") as file:
                    file.write(b"x" * 128 * 1024)
                yield folder
            finally:
                subprocess.run(["umount", str(folder)], check=True)
            return
    pytest.skip("no file system can be mounted here")


def test_a_full_disk_costs_only_the_log(run: Run, full_disk: Path) -> None:
    source = """
    for _ in range(10_000):
        try:
            os.write(1, b"x" * 1000)
        except OSError:
            break
    Channel().send_reply("measured")
    """
    assert run(source, log=full_disk / "log.txt").reply == "measured"
    answered = run("print('x' * 100_000); os._exit(9)", log=full_disk / "no" / "log.txt")
    assert failure(answered).kind in ("exit:9", "exit:1")


def test_a_log_that_cannot_be_opened_costs_only_the_log(run: Run, tmp_path: Path) -> None:
    assert run("print('x'); Channel().send_reply(1)", log=tmp_path).reply == 1
    died = failure(run("os._exit(9)", log=tmp_path))
    assert died.kind == "exit:9"
    assert "cannot be read" in died.detail


def test_no_descriptor_is_left_open(run: Run) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    run("Channel().send_reply(1)")
    run("os._exit(1)")
    assert len(list(Path("/dev/fd").iterdir())) <= before  # others may close some


def test_the_worker_is_started_by_default(log: Path) -> None:
    answered = run_child(
        "no_such_stage",
        {},
        int,
        log=log,
        limits=ChildLimits(timeout_s=60, memory_bytes=None),
        environment={},
        on_message=lambda _: None,
    )
    assert answered.failure is not None
    assert answered.failure.stage == "no_such_stage"
    assert json.dumps(answered.failure.detail)
