"""What becomes of a run, told from outside: its state, its counts, its end, its logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands import cancel, logs, status
from benchorch.cli.commands.sweep_status import SweepState, read_sweep
from benchorch.domain.codec import encode
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.result import Failure
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, Correction
from benchorch.journal import run_directory
from benchorch.journal.lock import FILE, LOG, StatusFile, acquire_lock, read_coordinator
from benchorch.journal.registry import remember
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

LINUX = sys.platform == "linux"
EAGER, FAST, SLOW = trial("eager"), trial("fast"), trial("slow")
PRICING = {"pricing": {"market": "on_demand", "region": "us-east-1"}}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("BENCHORCH_HEAD", raising=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two of three trials have a result."""
    directory = write_run(
        tmp_path / "run", (EAGER, result(EAGER)), (FAST, result(FAST)), (SLOW, None)
    )
    priced(directory, None)
    remember("plan-run", directory)
    return directory


def priced(directory: Path, usd_per_hour: float | None) -> None:
    """Let the plan have a session as real ones do, and a price."""
    plan = replace(run_directory.read_plan(directory), session=PRICING)
    if usd_per_hour is not None:
        price = Price(
            kind="local", market=Market.ON_DEMAND, usd_per_hour=usd_per_hour,
            region="", as_of="2026-01-01", source="config",
        )  # fmt: skip
        plan = replace(plan, prices=PriceSnapshot(on_demand={"local": price}))
    run_directory.write_plan(directory, plan)


def told(directory: Path, **fields: object) -> None:
    """A driver's file, as if it had been written by somebody else."""
    StatusFile(directory).begin()
    driver = read_coordinator(directory)
    assert driver is not None
    (directory / FILE).write_text(json.dumps(encode(replace(driver, **fields))))  # type: ignore[arg-type]


def silent(text: str) -> None:
    """Nobody listens."""


def test_a_run_whose_lock_is_held_is_running(run: Path) -> None:
    diary = StatusFile(run)
    with acquire_lock(run):
        diary.begin()
        diary.event(Event(trial_id=SLOW.trial_id, stage="measure", message="process 2 of 5"))
        sweep = read_sweep(run)
        assert sweep.state is SweepState.RUNNING
        assert [sweep.done, sweep.failed, len(sweep.left)] == [2, 0, 1]
        assert sweep.busy[SLOW.trial_id].text == "measure process 2 of 5"
        assert sweep.left_s is not None
        assert sweep.left_s > 0
        reply = status.run.reply(["run"], part=silent)
    assert "slow: measure process 2 of 5" in reply.text
    assert f"process {os.getpid()} on" in reply.text
    assert "cancel plan-run" in reply.text


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, SweepState.DEAD),
        ({"ended_at": "2026-01-01T00:00:00+00:00"}, SweepState.INTERRUPTED),
        ({"ended_at": "2026-01-01T00:00:00+00:00", "complete": True}, SweepState.ENDED),
    ],
)
def test_a_run_that_nobody_drives_is_as_its_driver_left_it(
    run: Path, fields: dict[str, object], state: SweepState
) -> None:
    told(run, **fields)
    assert read_sweep(run).state is state
    assert read_sweep(run).left_s is None


def test_a_run_from_before_drivers_told_anything_was_interrupted(run: Path) -> None:
    assert read_sweep(run).state is SweepState.INTERRUPTED
    assert "resume plan-run" in status.run.reply([str(run)], part=silent).text


def test_a_run_with_a_result_of_every_trial_has_ended(run: Path) -> None:
    run_directory.append_result(run, result(SLOW), {})
    assert read_sweep(run).state is SweepState.ENDED
    assert "report plan-run" in status.run.reply(["run"], part=silent).text


def test_failures_are_counted_and_those_of_a_lost_node_are_left_to_do(tmp_path: Path) -> None:
    lost = Failure(stage="schedule", kind="node_lost", message="it is gone")
    directory = write_run(
        tmp_path / "failing",
        (EAGER, failed(EAGER)),
        (FAST, replace(result(FAST), parity=DISAGREES)),
        (SLOW, failed(SLOW, lost)),
    )
    sweep = read_sweep(directory)
    assert [sweep.done, sweep.failed, len(sweep.left)] == [2, 3, 1]


def test_what_it_has_cost_is_the_time_its_trials_had_their_machines(run: Path) -> None:
    priced(run, 3.6)
    ended = result(
        SLOW, started_at="2026-01-01T00:00:00+00:00", ended_at="2026-01-01T00:10:00+00:00"
    )
    run_directory.append_result(run, ended, {})
    assert read_sweep(run).usd == pytest.approx(0.6)


def test_a_trial_that_runs_costs_too(run: Path) -> None:
    priced(run, 60.0)
    with acquire_lock(run):
        diary = StatusFile(run)
        diary.begin()
        diary.event(Event(trial_id=SLOW.trial_id, stage="build"))
        assert read_sweep(run).usd is not None
    assert read_sweep(run).usd is None


def test_without_a_name_the_recent_runs_are_told_and_damaged_ones_hide_none(
    run: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / run_directory.PLAN).write_text("{")
    remember("plan-broken", broken)
    remember("plan-gone", tmp_path / "gone")
    reply = status.run.reply([], part=silent)
    assert "plan-run" in reply.text
    assert [row["plan_id"] for row in reply.data] == ["plan-run"]  # type: ignore[union-attr,index,call-overload]


def test_without_a_name_the_newest_run_is_watched(run: Path) -> None:
    assert "plan-run" in status.run.reply(["--watch"], part=silent).text


def test_with_no_run_at_all_that_is_said() -> None:
    assert "No run has started" in status.run.reply([], part=silent).text


def test_a_name_of_nothing_is_told(run: Path) -> None:
    for command in (status.run, logs.run):
        with pytest.raises(ConfigError, match="'nothing' is neither"):
            command.reply(["nothing"])
    with pytest.raises(ConfigError, match="'nothing' is neither"):
        cancel.run.reply(["nothing"], question=lambda question: "yes", progress=silent)


def test_watching_tells_each_state_until_the_run_has_ended(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = StatusFile(run)
    lock = acquire_lock(run)
    diary.begin()
    heard: list[str] = []

    def pause(seconds: float) -> None:
        if len(heard) == 1 and len(read_sweep(run).results) == 2:
            run_directory.append_result(run, result(SLOW), {})
        else:
            diary.end(complete=True)
            lock.close()

    monkeypatch.setattr(status.time, "sleep", pause)
    monkeypatch.setattr(status, "schedule_idle", lambda: None)
    reply = status.run.reply(["run", "--watch", "--json"], part=heard.append)
    assert [json.loads(text)["done"] for text in heard] == [2, 3]
    assert reply.data["state"] == "ended"  # type: ignore[index,call-overload]


def write_log(run: Path, of: Trial, text: str) -> None:
    (run_directory.trial_directory(run, of.trial_id) / "log.txt").write_text(text)


def test_a_trials_log_is_found_by_the_beginning_of_its_id_and_by_its_name(run: Path) -> None:
    write_log(run, FAST, "hello\n")
    for word in (FAST.trial_id[:6], FAST.trial_id, "fast"):
        assert logs.run.reply(["run", word], part=silent).text == "hello"


@pytest.mark.parametrize(
    ("word", "problem"),
    [("fats", "Did you mean 'fast'"), ("", "beginning of several"), ("slow", "no output yet")],
)
def test_a_log_that_is_not_there_is_told(run: Path, word: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        logs.run.reply(["run", word], part=silent)


def test_an_unknown_trial_is_answered_with_one_that_there_is(run: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        logs.run.reply(["run", "nosuch"], part=silent)
    (problem,) = caught.value.problems
    assert problem.correction == Correction(typed="nosuch", meant=EAGER.trial_id)


def test_a_drivers_log_is_there_where_it_was_submitted(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"wrote to the terminal"):
        logs.run.reply(["run"], part=silent)
    (run / LOG).write_text("all is well\n")
    assert logs.run.reply(["run"], part=silent).text == "all is well"


def test_a_log_is_followed_until_the_run_has_ended(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = acquire_lock(run)
    heard: list[str] = []
    steps: list[Callable[[], None]] = [
        lambda: write_log(run, SLOW, "one\n"),
        lambda: write_log(run, SLOW, "one\ntwo\nthr"),
        lambda: write_log(run, SLOW, "one\ntwo\nthree\nfo"),
        lambda: (write_log(run, SLOW, "one\ntwo\nthree\nfour"), lock.close())[1],
    ]
    monkeypatch.setattr(logs.time, "sleep", lambda seconds: steps.pop(0)())
    monkeypatch.setattr(logs, "schedule_idle", lambda: None)
    logs.run.reply(["run", "slow", "--follow"], part=heard.append)
    assert "\n".join(heard).splitlines() == ["one", "two", "three", "four"]


@pytest.mark.parametrize("option", [["--json"], ["--output", "log.txt"]])
def test_a_followed_log_for_programs_or_a_file_is_one_answer(
    run: Path, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    lock = acquire_lock(run)
    write_log(run, SLOW, "one\n")

    def end(_: float) -> None:
        write_log(run, SLOW, "one\ntwo\n")
        plan = run_directory.read_plan(run)  # another batch has a trial of the same name
        trials = (*plan.trials, replace(SLOW, trial_id="another"))
        run_directory.write_plan(run, replace(plan, trials=trials))
        lock.close()

    monkeypatch.setattr(logs.time, "sleep", end)
    monkeypatch.setattr(logs, "schedule_idle", lambda: None)
    heard: list[str] = []
    reply = logs.run.reply(["run", "slow", "--follow", *option], part=heard.append)
    assert heard == []
    assert reply.text == "one\ntwo"
    assert isinstance(reply.data, dict)
    assert reply.data["text"] == "one\ntwo\n"


DRIVER = """
import sys, time
from pathlib import Path
from benchorch.journal.lock import StatusFile, acquire_lock
directory = Path(sys.argv[1])
lock, status = acquire_lock(directory), StatusFile(directory)
status.begin()
try:
    print("up", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    status.end(complete=False)
"""


@contextmanager
def driven(run: Path, driver: str = DRIVER) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", driver, str(run)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_cancel_ends_the_driver_and_says_what_is_kept(run: Path) -> None:
    with driven(run) as process:
        reply = cancel.run.reply(
            ["run", "--yes"], question=lambda question: pytest.fail(question), progress=silent
        )
        assert process.wait(400) == 0
    assert "2 of 3 trials are kept" in reply.text
    assert "resume plan-run" in reply.text
    assert read_sweep(run).state is SweepState.INTERRUPTED


IGNORES_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What a script's background jobs are started with."""


@pytest.mark.skipif(not LINUX, reason="other systems do not show which signals are ignored")
def test_cancel_ends_a_scripts_background_job_as_well(run: Path) -> None:
    handles = "from benchorch.host.processes.sigterm import sigterm_as_interrupt"
    inside = (
        '    with sigterm_as_interrupt():\n        print("up", flush=True)\n        time.sleep(600)'
    )
    driver = DRIVER.replace('    print("up", flush=True)\n    time.sleep(600)', inside)
    assert driver != DRIVER
    with driven(run, f"{IGNORES_INTERRUPTS}\n{handles}\n{driver}") as process:
        reply = cancel.run.reply(["run", "--yes", "--wait", "60"], question=input, progress=silent)
        assert process.wait(400) == 0
    assert "2 of 3 trials are kept" in reply.text
    assert read_sweep(run).state is SweepState.INTERRUPTED


@pytest.mark.skipif(not LINUX, reason="other systems do not show which signals are ignored")
def test_cancel_says_that_a_program_would_ignore_it(run: Path) -> None:
    with driven(run, f"{IGNORES_INTERRUPTS}\n{DRIVER}") as process:
        with pytest.raises(ConfigError, match=f"kill {process.pid}"):
            cancel.run.reply(["run", "--yes"], question=input, progress=silent)
        assert process.poll() is None


def test_cancel_asks_first(run: Path) -> None:
    questions: list[str] = []
    with driven(run) as process:
        reply = cancel.run.reply(
            ["run"], question=lambda question: questions.append(question) or "no", progress=silent
        )
        assert process.poll() is None
    assert reply.exit_code == 1
    assert "2 of 3 trials are done and kept" in questions[0]


def test_cancel_says_that_a_driver_takes_its_time(run: Path) -> None:
    with driven(run) as process:
        os.kill(process.pid, signal.SIGSTOP)
        reply = cancel.run.reply(["run", "--yes", "--wait", "0.3"], question=input, progress=silent)
    assert reply.exit_code == 1
    assert "still ending" in reply.text


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
def test_cancel_waits_for_a_number_of_seconds(run: Path, seconds: str) -> None:
    with pytest.raises(ConfigError, match="is not a number of seconds, 0 or more"):
        cancel.run.reply(["run", "--wait", seconds], question=input, progress=silent)


def test_cancel_leaves_what_is_not_running(run: Path) -> None:
    reply = cancel.run.reply(["run", "--yes"], question=input, progress=silent)
    assert "not running; it was interrupted" in reply.text


def test_cancel_never_ends_a_process_that_is_not_the_runs_driver(run: Path) -> None:
    with driven(run), subprocess.Popen(["sleep", "60"]) as foreign:
        told(run, pid=foreign.pid)
        with pytest.raises(ConfigError, match="not its coordinator"):
            cancel.run.reply(["run", "--yes"], question=input, progress=silent)
        assert foreign.poll() is None
        told(run, host="another-machine")
        with pytest.raises(ConfigError, match="coordinated on another-machine"):
            cancel.run.reply(["run", "--yes"], question=input, progress=silent)
        (run / FILE).unlink()
        with pytest.raises(ConfigError, match="has not written its status"):
            cancel.run.reply(["run", "--yes"], question=input, progress=silent)
        foreign.kill()
