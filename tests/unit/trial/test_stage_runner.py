"""Stages in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.session import Session
from benchorch.journal.run_directory import trial_directory
from benchorch.trial import stages
from benchorch.trial.stage_runner import LOG, StageRunner
from benchorch.trial.stages import StageFailed


def test_a_failure_in_this_process_has_its_traceback_in_the_trials_log(tmp_path: Path) -> None:
    trial: Any = SimpleNamespace(trial_id="t", spec={})
    session = Session(plan_id="p", directory=tmp_path, store={}, rebuild="if_needed")
    runner = StageRunner(trial, session, isolated=False, on_message=lambda stage, message: None)
    wrong: Any = SimpleNamespace()
    with pytest.raises(StageFailed) as failed:
        runner.run(stages.BUILD, wrong)
    log = (trial_directory(tmp_path, "t") / LOG).read_text()
    assert log == failed.value.failure.detail
    assert "Traceback" in log
