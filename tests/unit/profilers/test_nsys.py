"""Nsight Systems around a process, with a stand-in for its program."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchorch.host.processes import run_child
from benchorch.interfaces.profiler import CaptureRequest, Loaded
from benchorch.profilers import nsys
from benchorch.profilers.nsys import Nsys
from support.clocks import VirtualClock

FAKE = """#!{python}
import pathlib, subprocess, sys
words = sys.argv[1:]
program = words.index("{python}")
pathlib.Path("{seen}").write_text(" ".join(words[:program]))
code = subprocess.run(words[program:], close_fds=False).returncode
report = words[words.index("-o") + 1]
for suffix in (".nsys-rep", ".sqlite"):
    pathlib.Path(report + suffix).write_text("told")
sys.exit(code)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that runs what it is given and leaves a report; what it was told is in `seen`."""
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, seen=tmp_path / "seen"))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "seen"


def test_it_is_not_there_without_a_gpu_or_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "records GPUs" in str(Nsys().unavailable("cpu"))
    assert "not on PATH: install NVIDIA Nsight Systems" in str(Nsys().unavailable("cuda"))


def test_it_is_there_with_both(fake: Path) -> None:
    assert Nsys().unavailable("cuda") is None


def test_the_worker_answers_through_it_and_its_report_is_converted(
    fake: Path, tmp_path: Path
) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        "from benchorch.host.processes.child_channel import Channel, read_request\n"
        "asked = read_request(dict)\n"
        "Channel().send_reply([asked, 'profiled'])\n"
    )
    answered = run_child.run_child(
        "profile",
        {"trial": "x"},
        list,
        log=tmp_path / "log.txt",
        limits=run_child.ChildLimits(timeout_s=60, memory_bytes=None, exit_s=Nsys.exit_s),
        environment={},
        on_message=lambda _: None,
        command=[sys.executable, str(script)],
        under=Nsys().under(tmp_path),
    )
    assert answered.failure is None
    assert answered.reply == [{"trial": "x"}, "profiled"]
    assert (tmp_path / "nsys.sqlite").read_text() == "told"
    assert fake.read_text().split() == [
        *("profile", "-w", "true", "-t", "cuda,nvtx,osrt,cudnn,cublas", "-s", "none"),
        *("-o", str(tmp_path / "nsys"), "-f", "true", "-x", "true", "--export=sqlite"),
        *("--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
    ]


def test_everything_is_recorded_where_that_is_asked_for(tmp_path: Path) -> None:
    assert "--capture-range=cudaProfilerApi" not in Nsys(range="everything").under(tmp_path)


class Executable:
    """Only what a profiler touches."""

    @contextmanager
    def calling(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        pass


def test_ranges_tell_iterations_and_the_recorded_stretch_holds_the_active_calls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    @contextmanager
    def note(name: str) -> Iterator[None]:
        said.append(name)
        yield
        said.append(f"/{name}")

    monkeypatch.setattr(nsys, "_nvtx", note)
    monkeypatch.setattr(nsys, "_recorded", lambda: note("recorded"))
    clock = VirtualClock()
    loaded = Loaded(executable=Executable(), calls=[lambda: said.append("call")])  # type: ignore[arg-type]
    request = CaptureRequest(load=lambda _: loaded, clock=clock, device="cuda", directory=tmp_path)
    found = Nsys(wait=2, warmup=1, active=2).capture(request)
    one = ["forward", "call", "/forward"]
    assert said == [
        *("call", "call", *one, "recorded"),
        *("iteration 0", *one, "/iteration 0", "iteration 1", *one, "/iteration 1", "/recorded"),
    ]
    assert found.trace == tmp_path / "nsys.sqlite"
    assert (len(found.unprofiled_ns), len(found.profiled_ns)) == (2, 2)
