"""A history of runs: shifts, machines told apart, a site that grows, and a gate's baseline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchorch.cli.commands import gate, history
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.errors import ConfigError
from benchorch.journal.registry import remember
from benchorch.journal.run_directory import GATE_FAILED
from benchorch.results.history.collect import collect
from benchorch.results.history.series import series_of
from benchorch.results.report.history_chart import history_chart
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
LEVELS = {"before": 1e6, "after": 1.3e6}


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def session(folder: Path, day: int, call_ns: float = 1e6, of=EAGER, **fields: Any) -> Path:
    """The run of one day, whose commit is named after it."""
    noise = float(np.random.default_rng(day).normal(1, 0.004))
    environment = {"git_commit": f"{day:x}{0:039x}", **fields.pop("environment", {})}
    found = result(
        of, call_ns * noise, seed=day, processes=5, environment=environment,
        **{"started_at": f"2026-03-{day:02d}T00:00:00.000+00:00", **fields},
    )  # fmt: skip
    return write_run(folder / f"day-{day}", (of, found))


@pytest.fixture
def shifted(tmp_path: Path) -> Path:
    """Twelve days; on the eighth it became 30 % slower, with another torch."""
    folder = tmp_path / "kept"
    for day in range(1, 13):
        after = day >= 8
        packages = {"packages": {"torch": "2.14.0" if after else "2.13.0"}}
        session(folder, day, 1.3e6 if after else 1e6, environment=packages)
    return folder


def test_a_shift_is_told_with_its_day_and_with_what_changed(shifted: Path) -> None:
    reply = history.run.reply([str(shifted)])
    (series,) = reply.data["series"]  # type: ignore[index,call-overload]
    (shift,) = series["shifts"]
    assert shift["plan_id"] == "plan-day-8"
    assert shift["verdict"] == "slower"
    assert shift["low"] <= 1.3 <= shift["high"]
    assert len(series["points"]) == 12
    assert "1 of 1 history has shifted: 1 for the worse." in reply.text
    page = Path("history/index.html").read_text()
    assert "packages.torch: 2.13.0 → 2.14.0" in page
    assert "commit 7000000000 → 8000000000" in page
    assert "http" not in page.partition("<main>")[2].partition("<script")[0]


def test_machines_are_told_apart_and_pooled_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for day in range(1, 5):
        session(folder, day, environment={"host": f"node-{day % 2}"})
    apart = history.run.reply([str(folder)]).data["series"]  # type: ignore[index,call-overload]
    assert [len(one["points"]) for one in apart] == [2, 2]
    assert len({one["machine"] for one in apart}) == 2
    pooled = history.run.reply([str(folder), "--across", "host"]).data["series"]  # type: ignore
    assert [len(one["points"]) for one in pooled] == [4]


def test_what_is_defined_anew_begins_a_new_level_without_a_shift(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    wider = trial(model={"widths": [16, 4]})
    for day in range(1, 13):
        session(folder, day, 1e6 if day < 7 else 3e6, of=EAGER if day < 7 else wider)
    runs = collect([str(folder)], lambda _: None)
    (series,) = series_of(runs)
    assert [(one.first, one.last, one.shift) for one in series.levels] == [
        (0, 5, None),
        (6, 11, None),
    ]


def test_what_is_defined_anew_after_a_failure_begins_a_new_level(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    wider = trial(model={"widths": [16, 4]})
    for day in (1, 2, 3, 4):
        session(folder, day)
    lost = replace(failed(wider), started_at="2026-03-05T00:00:00.000+00:00")
    write_run(folder / "day-5", (wider, lost))
    for day in (6, 7, 8, 9):
        session(folder, day, 3e6, of=wider)
    (series,) = series_of(collect([str(folder)], lambda _: None))
    assert [(one.first, one.last, one.shift) for one in series.levels] == [
        (0, 3, None),
        (5, 8, None),
    ]
    assert any("model.widths" in one for one in series.points[5].changed)


def test_failed_and_wrong_sessions_have_no_figure_and_leave_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for day in (1, 2, 3):
        session(folder, day)
    session(folder, 4, parity=DISAGREES)
    day = replace(failed(EAGER), started_at="2026-03-05T00:00:00.000+00:00")
    write_run(folder / "day-5", (EAGER, day))
    (series,) = history.run.reply([str(folder)]).data["series"]  # type: ignore
    assert [one["value"] is None for one in series["points"]] == [False] * 3 + [True] * 2
    assert series["points"][3]["problem"].startswith("output 0 is off")
    assert "oom" in series["points"][4]["problem"]
    assert "2 sessions without a figure" in Path("history/index.html").read_text()


def test_the_site_grows_by_one_run_and_is_read_like_any_folder(
    shifted: Path, tmp_path: Path
) -> None:
    history.run.reply([str(shifted), "--output", "site"])
    newest = session(tmp_path, 13, 1.3e6)
    reply = history.run.reply([str(newest), "--output", "site"])
    assert reply.data["runs"] == 13  # type: ignore[index,call-overload]
    assert len(list(Path("site/runs").glob("*.json"))) == 13
    assert history.run.reply(["site", "--output", "copy"]).data["runs"] == 13  # type: ignore


def test_without_words_it_is_of_this_machines_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run on this machine"):
        history.run.reply([])
    remember("plan-day-1", session(tmp_path, 1))
    assert history.run.reply([]).data["runs"] == 1  # type: ignore[index,call-overload]
    remember("plan-day-2", session(tmp_path, 2))
    assert history.run.reply([]).data["runs"] == 2  # type: ignore[index,call-overload]


def test_what_cannot_be_read_is_told_below_a_folder_and_refused_by_name(shifted: Path) -> None:
    (shifted / "day-3" / "results.jsonl").unlink()
    told: list[str] = []
    assert len(collect([str(shifted)], told.append)) == 11
    assert any("day-3" in line for line in told)
    with pytest.raises(ConfigError, match="day-3"):
        history.run.reply([str(shifted / "day-3")])
    with pytest.raises(ConfigError, match="nowhere"):
        history.run.reply(["nowhere"])


def test_a_session_that_failed_its_gate_is_told_and_left_out(shifted: Path) -> None:
    (shifted / "day-3" / GATE_FAILED).touch()
    told: list[str] = []
    assert len(collect([str(shifted)], told.append)) == 11
    assert any(line.endswith(f"day-3/{GATE_FAILED}") for line in told)
    assert len(collect([str(shifted / "day-3")], told.append)) == 1


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    hostile = trial("</script><img src=x onerror=alert(1)>", labels={"model": "'\"><b>"})
    session(tmp_path / "kept", 1, of=hostile)
    history.run.reply([str(tmp_path / "kept")])
    page = Path("history/index.html").read_text()
    assert "<img" not in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("call_ns", "state", "code"), [(1.3e6, "pass", 0), (1.5e6, "regression", 1)]
)
def test_a_gate_takes_the_sessions_since_the_last_shift_as_its_baseline(
    shifted: Path, tmp_path: Path, call_ns: float, state: str, code: int
) -> None:
    newest = session(tmp_path, 14, call_ns, environment={"packages": {"torch": "2.14.0"}})
    told: list[str] = []
    words = ["--baseline", str(shifted), "--candidate", str(newest), "--max-regression", "5%"]
    reply = gate.run.reply(words, progress=told.append)
    data = json.loads(json.dumps(reply.data))
    assert (data["state"], reply.exit_code) == (state, code), reply.text
    assert any("day-12, and 4 sessions before it" in line for line in told)


def test_a_gate_without_a_session_on_the_machine_says_so(shifted: Path, tmp_path: Path) -> None:
    other = session(tmp_path, 14, environment={"host": "elsewhere"})
    words = ["--baseline", str(shifted), "--candidate", str(other), "--max-regression", "5%"]
    with pytest.raises(ConfigError, match=r"None of 12 runs .*elsewhere"):
        gate.run.reply(words)


def lost(of, ended_at: str):
    """What is recorded of a trial that never started on its node."""
    failure = Failure(stage="schedule", kind="node_lost", message="the node is gone")
    return TrialResult(
        trial_id=of.trial_id, labels=of.labels, outcome=Outcome.FAILED, failure=failure,
        ended_at=ended_at,
    )  # fmt: skip


@pytest.mark.parametrize("every", [False, True])
def test_a_session_that_lost_a_trial_to_its_node_is_not_the_first_one(
    tmp_path: Path, every: bool
) -> None:
    date = "2026-03-{}T00:00:00.000+00:00"
    for day in (1, 2):
        ran = [(one, result(one, started_at=date.format(f"0{day}"))) for one in (EAGER, FAST)]
        write_run(tmp_path / "kept" / f"day-{day}", *ran)
    ran = [(EAGER, result(EAGER, started_at=date.format("03")))]
    gone = [(one, lost(one, date.format("04"))) for one in (EAGER, FAST)]
    newest = write_run(tmp_path / "newest", *(gone if every else [*ran, gone[1]]))
    words = ["--baseline", str(tmp_path / "kept"), "--candidate", str(newest), "--allow-first"]
    reply = gate.run.reply([*words, "--max-regression", "5%"])
    assert reply.data["state"] == "refused"  # type: ignore[index,call-overload]
    assert reply.exit_code == 3
    runs = collect([str(newest), str(tmp_path / "kept")], lambda _: None)
    assert [run.plan_id for run in runs] == ["plan-day-1", "plan-day-2", "plan-newest"]


def test_folders_and_broken_links_named_like_exports_are_passed_over(tmp_path: Path) -> None:
    session(tmp_path / "runs", 1)
    (tmp_path / "runs" / "folder.json").mkdir()
    (tmp_path / "runs" / "link.json").symlink_to("nowhere")
    assert len(collect([str(tmp_path / "runs")], print)) == 1


@pytest.mark.parametrize("low", [0.0, -0.003])
def test_a_figure_that_may_be_0_or_less_has_an_even_axis(tmp_path: Path, low: float) -> None:
    write_run(tmp_path / "kept" / "1", (EAGER, result(EAGER)))
    (series,) = series_of(collect([str(tmp_path / "kept")], print))
    (point,) = series.points
    assert point.estimate is not None
    around = replace(point.estimate, value=0.02, low=low, high=0.05)
    chart = history_chart(replace(series, points=(replace(point, estimate=around),)))
    assert '"type": "linear", "domain": [-' in json.dumps(chart.spec)


def test_an_axis_has_words_and_tells_sessions_of_one_day_apart(tmp_path: Path) -> None:
    for minute in range(3):
        began = f"2026-03-01T10:0{minute}:00.000+00:00"
        write_run(tmp_path / "kept" / str(minute), (EAGER, result(EAGER, started_at=began)))
    (series,) = series_of(collect([str(tmp_path / "kept")], print))
    drawn = json.dumps(history_chart(series).spec)
    assert "latency p50, ms" in drawn
    assert "['10:00', '10:01', '10:02']" in drawn
    assert "time on 2026-03-01" in drawn
