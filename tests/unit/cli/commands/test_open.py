"""The page of a run, as far as the run is, and the browser that shows it."""

from __future__ import annotations

import json
import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands import open as open_command
from benchorch.cli.commands import report
from benchorch.errors import ConfigError
from benchorch.journal import run_directory
from benchorch.journal.lock import acquire_lock
from support.synthetic_runs import result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    found = result(FAST, 5e5, baseline_ns=1e6)
    return write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, found))


def test_the_page_lies_in_the_run_and_is_opened(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    reply = open_command.run.reply([str(run)])
    assert opened == [(run / "report.html").as_uri()]
    assert reply.data == {"page": str(run / "report.html"), "opened": True}
    text = (run / "report.html").read_text()
    assert "fast on local is fastest" in text
    assert 'http-equiv="refresh' not in text
    assert len(text.encode()) < 1_500_000


def test_without_a_browser_its_address_is_printed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    reply = open_command.run.reply([str(run)])
    assert (run / "report.html").as_uri() in reply.text
    assert open_command.run.reply([str(run), "--no-browser"]).data["opened"] is False  # type: ignore


def test_a_run_that_goes_on_has_a_page_without_a_conclusion(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, None))
    run_directory.append_round(run, replace(result(FAST, processes=2), unfinished=True))
    with acquire_lock(run):
        open_command.run.reply([str(run), "--no-browser"])
    text = (run / "report.html").read_text()
    assert "Not finished: 1 of 2 trials have ended" in text
    assert "The run is in progress" in text
    assert 'content="10"' in text


def test_a_run_has_a_page_before_its_first_result(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (EAGER, None), (FAST, None))
    with acquire_lock(run):
        open_command.run.reply([str(run), "--no-browser"])
    text = (run / "report.html").read_text()
    assert "Not finished: 0 of 2 trials have ended" in text
    assert 'content="10"' in text
    with pytest.raises(ConfigError, match="no trial of this run has a result"):
        open_command.run.reply([str(run), "--no-browser"])


def test_links_lead_to_pages_logs_and_mlflow(run: Path) -> None:
    folder = run / "trials" / FAST.trial_id
    (folder / "critical_path").mkdir()
    (folder / "critical_path" / "report.html").touch()
    (folder / "log.txt").touch()
    address = {"uri": "http://tracker:5000", "experiment": "e"}
    ids = {"experiment_id": "7", "parent_run_id": "parent"}
    (run / "tracking.json").write_text(json.dumps({**address, **ids}))
    line = {**address, "trial_id": FAST.trial_id, "run_id": "child", "state": ""}
    (run / "recorded.jsonl").write_text(json.dumps(line) + "\n")
    open_command.run.reply([str(run), "--no-browser"])
    text = (run / "report.html").read_text()
    for place in ("critical_path/report.html", "log.txt"):
        assert f'href="trials/{FAST.trial_id}/{place}"' in text
    base = "http://tracker:5000/#/experiments/7/runs"
    for run_id in ("parent", "child"):
        assert f'href="{base}/{run_id}?workflowType=machine_learning"' in text


def test_an_exported_file_has_no_folder_for_a_page(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    report.run.reply([str(run), "--output", str(kept)])
    with pytest.raises(ConfigError, match=r"benchorch report FILE --output"):
        open_command.run.reply([str(kept)])
