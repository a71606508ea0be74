"""Registration of an exported folder as a version of a model in MLflow."""

from pathlib import Path

from benchorch.errors import ConfigError
from benchorch.formatting import shell_word
from benchorch.interfaces.recorder import Recorder
from benchorch.journal.record_cursor import CURSOR
from benchorch.journal.run_directory import read_lines
from benchorch.recorders.mlflow import Mlflow


def register(recorder: Recorder, directory: Path, trial_id: str, folder: Path, name: str) -> str:
    """The version's number; ConfigError where the trial was not recorded in MLflow."""
    recorded = {line.get("trial_id"): line.get("run_id") for line in read_lines(directory / CURSOR)}
    run_id = recorded.get(trial_id)
    if not isinstance(recorder, Mlflow) or run_id is None:
        line = f"benchorch record {shell_word(directory)}"
        raise ConfigError([f"--register: this trial is not in MLflow. Try: {line}"])
    return recorder.register(str(run_id), folder, name)
