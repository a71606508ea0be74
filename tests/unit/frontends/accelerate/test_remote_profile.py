"""What a profile refuses before anything of it runs, and what is kept whatever happens inside."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import benchorch
from benchorch import RemoteInferenceSession, remote_inference, remote_profile
from benchorch.domain.result import TrialResult
from benchorch.domain.session import ROUND, Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.host.processes.sigterm import TERMINATED, Terminated
from benchorch.interfaces.executor import Emit
from benchorch.journal.lock import is_running
from benchorch.run.invocation import Invocation
from benchorch.trial import rounds
from support.synthetic_runs import result

QUIET = {"quiet": True, "recorder": "none"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    torch._dynamo.reset()  # else what one test compiled is there for the next


def accelerated():  # type: ignore[no-untyped-def]
    return benchorch.accelerate(lambda x: x * 2 + 1, backend="eager")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"backends": ["local/inducter"]}, "Did you mean 'inductor'?"),
        ({"backends": ["lcoal/inductor"]}, "Did you mean 'local'?"),
        ({"backends": ["g5.xlagre/onnxrt-cuda"]}, "Did you mean"),
        ({"backends": "local"}, "does not name what runs the graphs; write local/inductor"),
        ({"backends": []}, "backends: none is given"),
        ({"backends": [7]}, "expected a name such as local/inductor, got 7"),
        ({"backends": "r6i.large/onnxrt-cuda"}, "onnxrt-cuda is for cuda"),
        ({"backends": "r6i.large/eager"}, "not this machine; no Ray cluster is named"),
        ({"stopping": "quik"}, "Did you mean 'quick'?"),
        ({"stoping": "quick"}, "Did you mean 'stopping'?"),
        ({"conversion": "eager"}, "give backends="),
        ({"num_repeats": 10, "stopping": "quick"}, "give it or stopping, not both"),
        ({"num_repeats": 0}, "num_repeats: expected a whole number from 1, got 0"),
        ({"num_warmups": -1}, "num_warmups: expected a whole number from 0, got -1"),
        ({"print_results_to": "out.txt"}, "expected a text stream, got 'out.txt'"),
        ({"graphs": 0}, "expected 1 or more, got 0"),
        ({"session": RemoteInferenceSession(), "backends": "local/eager"}, "not both"),
        ({"session": "local/eager"}, "name backends as backends="),
    ],
)
def test_mistakes_are_told_before_the_program_runs(options: dict[str, object], told: str) -> None:
    ran = []
    with pytest.raises(ConfigError) as caught, remote_profile(**{**QUIET, **options}):  # type: ignore[arg-type]
        ran.append(True)
    assert any(told in problem for problem in caught.value.problems), caught.value.problems
    assert ran == []
    assert not Path("runs").exists()


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught, remote_profile(backends=["locla/eager", "local/x"]):
        pass
    assert len(caught.value.problems) == 2


def test_profiles_cannot_be_nested_and_the_outer_one_goes_on() -> None:
    function = accelerated()
    with remote_profile(backends="local/eager", **QUIET) as outer:
        with pytest.raises(ConfigError, match="cannot be nested"), remote_profile(**QUIET):
            pass
        function(torch.ones(3, dtype=torch.complex64))
    assert len(outer.report().profiles) == 1


def test_an_exception_inside_keeps_what_was_seen_and_ends_the_profile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    function = accelerated()
    profile = remote_profile(backends="local/eager", directory="out", recorder="none")

    def program() -> None:
        with profile:
            for _ in range(3):
                function(torch.ones(3))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        program()
    (seen,) = profile.report().profiles
    assert [segment.name for segment in seen.segments] == ["Uncompiled", "Graph #1", "Uncompiled"]
    assert seen.segments[1].stays == "the profile was left by KeyError"
    assert "left by KeyError" in capsys.readouterr().out
    assert Path("out/segments.txt").read_text().strip() == profile.report().table()
    assert json.loads(Path("out/segments.json").read_text())["profiles"][0]["discarded"] == 1
    assert torch.is_grad_enabled()
    with remote_profile(backends="local/eager", **QUIET) as another:
        pass
    assert another.report().profiles == ()


def test_where_nothing_was_accelerated_it_says_what_to_do() -> None:
    with remote_profile(backends="local/eager", **QUIET) as profile:
        torch.relu(torch.ones(3))
    assert profile.report().profiles == ()
    assert "decorate it with @benchorch.accelerate" in str(profile)


def test_a_function_without_a_graph_is_all_python() -> None:
    function = benchorch.accelerate(lambda n: n + 1, backend="eager")
    with remote_profile(backends="local/eager", **QUIET) as profile:
        assert [function(n) for n in range(3)] == [1, 2, 3]
    assert "no graph was captured" in str(profile)
    assert [segment.name for segment in profile.report().profiles[0].segments] == ["Uncompiled"]


def test_what_cannot_travel_has_no_total_and_no_machine_is_asked() -> None:
    function = accelerated()
    with remote_profile(backends="local/eager", directory="out", **QUIET) as profile:
        for _ in range(3):
            function(torch.ones(3, dtype=torch.complex64))
    (seen,) = profile.report().profiles
    assert "complex64" in seen.segments[1].stays
    assert seen.totals["local/eager"].ms is None
    assert not Path("out/plan.json").exists()


def test_programs_of_octoml_profile_run_with_their_keywords(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    function = benchorch.accelerate(lambda n: n + 1, local_backend="eager")
    assert function(1) == 2
    profile = remote_profile(
        RemoteInferenceSession(["local/eager"]),
        num_repeats=1,
        num_warmups=1,
        print_results_to=stream,
        recorder="none",
    )
    with profile:
        function(1)
    assert {"stopping=fixed", "stopping.calls=1", "stopping.processes=1"} <= set(profile.words)
    assert "num_warmups has no effect" in stream.getvalue()
    assert "Profile 1/1" in stream.getvalue()
    assert capsys.readouterr().out == ""


def test_a_directory_with_a_run_is_left_alone() -> None:
    Path("out").mkdir()
    Path("out/plan.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds a run already"), remote_profile(directory="out"):
        pass


def test_a_session_lists_what_there_is_and_holds_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with RemoteInferenceSession(["g4dn.xlarge/onnxrt-cuda"]) as session:
        session.print_supported_backends()
    assert session.backends == ("g4dn.xlarge/onnxrt-cuda",)
    printed = capsys.readouterr().out.split()
    assert "local/inductor" in printed
    assert any(name.startswith("g5.xlarge/onnxruntime") for name in printed)


def test_inside_there_are_no_gradients_and_outside_what_there_was() -> None:
    with remote_profile(backends="local/eager", **QUIET):
        assert not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (torch.ones(1, requires_grad=True) * 2).requires_grad
    assert torch.is_grad_enabled()


def test_dynamo_warns_of_nothing_that_the_report_tells(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    with remote_profile(backends="local/eager", **QUIET):
        logging.getLogger("torch._dynamo.variables").warning("Graph break from `Tensor.item()`")
        where = {"filename": "functions.py", "lineno": 1, "module": "torch._dynamo.variables"}
        warnings.warn_explicit("Dynamo does not know how to trace", UserWarning, **where)
    assert "Graph break" not in caplog.text
    assert [str(each.message) for each in recwarn if "Dynamo" in str(each.message)] == []
    assert logger.level == before


def test_remote_inference_is_one_backend_called_once() -> None:
    profile = remote_inference("local/eager", **QUIET)
    same = remote_profile(backends=["local/eager"], num_repeats=1, **QUIET)
    assert (profile.names, profile.words) == (same.names, same.words)


def test_sigterm_while_the_program_runs_ends_it_with_a_report() -> None:
    function = accelerated()
    profile = remote_profile(backends="local/eager", **QUIET)

    def program() -> None:
        function(torch.ones(3))
        os.kill(os.getpid(), signal.SIGTERM)
        function(torch.ones(3))

    with pytest.raises(SystemExit) as left, profile:
        program()
    assert left.value.code == TERMINATED
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "left by Terminated" in (profile.directory / "segments.txt").read_text()


def test_a_programs_own_way_with_sigterm_stays_its_own() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with remote_profile(backends="local/eager", **QUIET):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_sigterm_ends_a_fork_of_the_program_at_once() -> None:
    with remote_profile(backends="local/eager", **QUIET):
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


def test_sigterm_ends_the_program_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object) -> None:
        raise Terminated

    monkeypatch.setattr(Invocation, "run", ended)
    function = accelerated()
    profile = remote_profile(backends="local/eager", **QUIET)
    with pytest.raises(SystemExit) as left, profile:
        function(torch.ones(3))
    assert left.value.code == TERMINATED
    assert (profile.directory / "segments.txt").exists()


def test_a_run_has_ended_when_the_loss_of_its_machines_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A notebook keeps the profile, and all that it refers to."""

    def in_rounds(trials: Sequence[Trial], **_: object) -> Iterator[TrialResult]:
        yield result(trials[0])
        raise ExecutorError("the cluster is lost")

    monkeypatch.setattr(rounds, "in_rounds", in_rounds)
    function = accelerated()
    profile = remote_profile(backends=["local/eager", "local/onnxruntime"], **QUIET)
    with pytest.raises(ExecutorError, match="is lost"), profile:
        function(torch.ones(3))
    assert not is_running(profile.directory)
    assert (profile.directory / "table.md").exists()


def test_two_backends_have_a_table_while_others_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["local/eager", "local/onnxruntime", "local/inductor"]
    shown: list[int] = []
    stream = io.StringIO()

    def in_rounds(trials: Sequence[Trial], *, emit: Emit, **_: object) -> Iterator[TrialResult]:
        for trial in trials:
            yield replace(result(trial, processes=1), unfinished=True)
            shown.append(stream.getvalue().count("Profile 1/1"))
        emit(Event(trial_id=trials[-1].trial_id, stage=ROUND, message="1"))
        yield from map(result, trials)

    monkeypatch.setattr(rounds, "in_rounds", in_rounds)
    function = benchorch.accelerate(torch.nn.Linear(3, 2).eval(), backend="eager")
    profile = remote_profile(backends=names, print_results_to=stream, **QUIET)
    with profile:
        for _ in range(3):
            function(torch.ones(1, 3))
    assert shown == [0, 1, 1]
    first, second, last = stream.getvalue().split("Profile 1/1")[1:]
    assert "local/inductor will follow" in stream.getvalue().partition("Profile 1/1")[0]
    assert "local/inductor" in first.partition("it was not measured")[0]
    assert "they are refined now" in first
    assert "it was not measured" not in second + last
