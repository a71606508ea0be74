"""Each trial where its hardware is: which way it goes, and both at once in one table."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors import auto, stack
from benchorch.executors.auto import Auto
from benchorch.interfaces.executor import Emit, Executor, TrialRunner, Way
from benchorch.interfaces.hardware import KIND_VARIABLE

WORK: Any = None


@pytest.fixture(autouse=True)
def on_a_laptop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(KIND_VARIABLE, "laptop")
    monkeypatch.setattr(auto, "STACK_HEAD", tmp_path / "absent")
    monkeypatch.setattr(auto, "JOINED", tmp_path / "joined")
    monkeypatch.setattr(stack, "found_stack", lambda name: None)


def test_what_this_machine_is_runs_here_and_the_rest_nowhere() -> None:
    executor = Auto()
    assert [executor.way(kind) for kind in ("local", "local_gpu", "laptop")] == [Way.LOCAL] * 3
    assert executor.way("g5.xlarge") is Way.NONE
    assert "executor.address or RAY_ADDRESS" in str(executor.unreachable("g5.xlarge"))
    assert executor.measures_in_rounds("local")
    assert not executor.measures_in_rounds("g5.xlarge")


def test_prices_are_of_the_region_where_a_stack_would_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert Auto().region() is None
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert Auto().region() == "eu-west-1"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert Auto().region() == "eu-central-1"
    assert Auto(address="10.0.0.1:6379").region() is None


def test_a_head_is_launched_by_a_stack_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack._lacks_head.cache_clear()
    assert Auto().launches_head()
    assert not Auto(address="10.0.0.1:6379").launches_head()
    monkeypatch.setattr(auto, "STACK_HEAD", tmp_path)
    assert not Auto().launches_head()


def test_an_ec2_machine_is_its_own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KIND_VARIABLE, "g5.xlarge")
    assert Auto().way("g5.xlarge") is Way.LOCAL
    assert Auto().way("g5.2xlarge") is Way.NONE


def test_the_head_of_a_stack_measures_nothing_of_its_own_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(KIND_VARIABLE, "m7i.large")
    monkeypatch.setattr(auto, "STACK_HEAD", tmp_path)
    assert Auto().way("m7i.large") is Way.NONE
    assert "executor=ec2" in str(Auto().unreachable("m7i.large"))


def test_a_cluster_that_is_named_or_joined_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Auto(address="10.0.0.1:6379")
    assert (named.way("g5.xlarge"), named.way("local")) == (Way.RAY, Way.LOCAL)
    (problem,) = named.problems()
    assert "RAY_AUTH_MODE=token" in problem
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert named.problems() == ()
    assert Auto().way("g5.xlarge") is Way.NONE
    auto.JOINED.touch()
    assert Auto().cluster == "auto"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert Auto().cluster == "10.0.0.2:6379"


def trial(kind: str) -> Trial:
    return Trial(trial_id=kind, labels={}, spec={"hardware": {"kind": kind}})


class Stream(Executor):
    """Yields after the others have begun; notes its thread and that it was ended."""

    def __init__(self, barrier: threading.Barrier, *, fails: bool = False, hangs: bool = False):
        self.barrier, self.fails, self.hangs = barrier, fails, hangs
        self.ended = False

    def unreachable(self, hardware_kind: str) -> str | None:
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        try:
            self.barrier.wait(30)
            for one in trials:
                emit(Event(trial_id=one.trial_id, stage="build"))
                if self.fails:
                    raise ExecutorError("the head is gone")
                while self.hangs:
                    time.sleep(0.01)
                yield TrialResult(trial_id=one.trial_id, labels={}, outcome=Outcome.OK)
        finally:
            self.ended = True


def both(monkeypatch: pytest.MonkeyPatch, here: Stream, there: Stream) -> Auto:
    monkeypatch.setattr(Auto, "_local", lambda self: here)
    monkeypatch.setattr(Auto, "_remote", lambda self: there)
    return Auto(address="10.0.0.1:6379")


def test_what_runs_here_and_elsewhere_runs_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barrier = threading.Barrier(2)  # neither goes on before the other has begun
    executor = both(monkeypatch, Stream(barrier), Stream(barrier))
    heard: list[tuple[str, str]] = []

    def emit(event: Event) -> None:
        heard.append((event.trial_id, threading.current_thread().name))

    ran = executor.run([trial("local"), trial("g5.xlarge"), trial("c8g.large")], WORK, emit)
    assert sorted(result.trial_id for result in ran) == ["c8g.large", "g5.xlarge", "local"]
    assert {name for _, name in heard} == {threading.current_thread().name}
    assert len(heard) == 3


class Together(Stream):
    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Iterator[Sequence[TrialResult]]:
        yield tuple(self.run(trials, work, emit))


@pytest.mark.parametrize(
    ("kinds", "sizes"),
    [
        (("g5.xlarge", "c8g.large"), [2]),
        (("local", "g5.xlarge", "c8g.large"), [1, 1, 1]),
        (("local",), [1]),
    ],
)
def test_groups_of_a_cluster_stay_together_where_nothing_runs_here(
    monkeypatch: pytest.MonkeyPatch, kinds: Sequence[str], sizes: Sequence[int]
) -> None:
    barrier = threading.Barrier(2 if "local" in kinds and len(kinds) > 1 else 1)
    executor = both(monkeypatch, Stream(barrier), Together(barrier))
    groups = executor.run_grouped([trial(kind) for kind in kinds], WORK, lambda event: None)
    assert [len(results) for results in groups] == sizes


def test_an_error_of_one_ends_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2)
    here, there = Stream(barrier, hangs=True), Stream(barrier, fails=True)
    executor = both(monkeypatch, here, there)
    with pytest.raises(ExecutorError, match="the head is gone"):
        list(executor.run([trial("local"), trial("g5.xlarge")], WORK, lambda event: None))
    assert here.ended
    assert there.ended


def test_closing_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2)
    here, there = Stream(barrier), Stream(barrier, hangs=True)
    ran = both(monkeypatch, here, there).run(
        [trial("local"), trial("g5.xlarge")], WORK, lambda event: None
    )
    assert next(ran).trial_id == "local"
    ran.close()  # type: ignore[attr-defined]  # it is a generator
    assert here.ended
    assert there.ended


def test_nothing_begins_where_some_hardware_has_no_machine() -> None:
    with pytest.raises(ConfigError, match=r"hardware=g5\.xlarge: not this machine"):
        Auto().run([trial("local"), trial("g5.xlarge")], WORK, lambda event: None)


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(ValueError, match="use null, or HOST:6379, or auto"):
        Auto(address=" ")
