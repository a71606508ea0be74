"""Every recorder under conf/recorder keeps the promises of the interface."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import yaml

from benchorch.config import components
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.errors import ConfigError
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.results.metrics.summary import TrialFindings
from benchorch.run.record import replay
from support.recorded_trials import PLAN, SUMMARY, TRIAL

FOLDER = Path(__file__).resolve().parents[2] / "conf" / "recorder"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
RESULT = TrialResult(
    trial_id=TRIAL.trial_id,
    labels=TRIAL.labels,
    outcome=Outcome.FAILED,
    failure=Failure(stage="build", kind="oom", message="asked for 9 GiB"),
    started_at="2026-11-20T10:15:00+00:00",
    ended_at="2026-11-20T10:16:00+00:00",
)
FOUND = TrialFindings(summary=SUMMARY, asked=None, baseline_id=None)


@pytest.fixture(scope="module")
def started_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where benchorch is started: a fresh store is made there once, as that takes seconds."""
    return tmp_path_factory.mktemp("started-in")


@pytest.fixture(params=NAMES)
def node(request: pytest.FixtureRequest) -> dict[str, object]:
    return dict(yaml.safe_load((FOLDER / f"{request.param}.yaml").read_text()))


@pytest.fixture
def recorder(
    node: dict[str, object], started_in: Path, monkeypatch: pytest.MonkeyPatch
) -> Recorder:
    monkeypatch.chdir(started_in)
    return components.make(node, Recorder, "recorder")  # type: ignore[arg-type]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    run_directory.write_plan(tmp_path, PLAN)
    run_directory.append_result(tmp_path, RESULT, {})
    return tmp_path


def folder(directory: Path) -> Path:
    return run_directory.trial_directory(directory, TRIAL.trial_id)


def test_an_unknown_option_is_refused(node: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="unknown option"):
        components.make({**node, "experimnt": "x"}, Recorder, "recorder")  # type: ignore[dict-item]


def test_a_recorder_travels_between_processes(recorder: Recorder) -> None:
    assert pickle.loads(pickle.dumps(recorder)).address == recorder.address


def test_recording_may_be_repeated_and_gives_the_same_runs(
    recorder: Recorder, directory: Path
) -> None:
    parents, children = set(), set()
    for _ in range(2):
        parents.add(recorder.open(PLAN, directory))
        children.add(recorder.record(TRIAL, RESULT, SUMMARY, folder(directory)))
        recorder.close(PLAN, directory, complete=True)
    assert len(parents) == len(children) == 1


def test_a_new_process_finds_what_an_earlier_one_made(
    recorder: Recorder, node: dict[str, object], directory: Path
) -> None:
    parent = recorder.open(PLAN, directory)
    child = recorder.record(TRIAL, RESULT, SUMMARY, folder(directory))
    again = components.make(node, Recorder, "recorder")  # type: ignore[arg-type]
    assert again.open(PLAN, directory) == parent
    assert again.record(TRIAL, RESULT, SUMMARY, folder(directory)) == child


def test_a_journal_is_replayed_to_the_end(recorder: Recorder, directory: Path) -> None:
    replayed = replay(directory, recorder, derive=lambda result, baseline: FOUND)
    assert (replayed.remaining, replayed.reason) == (0, "")


def test_recording_leaves_the_results_as_they_are(recorder: Recorder, directory: Path) -> None:
    before = (directory / run_directory.RESULTS).read_bytes()
    replay(directory, recorder, derive=lambda result, baseline: FOUND)
    assert (directory / run_directory.RESULTS).read_bytes() == before
