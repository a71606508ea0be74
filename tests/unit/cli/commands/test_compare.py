"""What `benchorch compare` answers, in words and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchorch.cli.commands import compare
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from support.synthetic_runs import failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
GONE, NEW = trial("gone"), trial("new")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    a = write_run(
        tmp_path / "a", (EAGER, result(EAGER)), (FAST, result(FAST, 5e5)), (GONE, result(GONE))
    )
    b = write_run(
        tmp_path / "b",
        (EAGER, result(EAGER, 2e6, seed=1)),
        (FAST, failed(FAST)),
        (NEW, result(NEW)),
    )
    return str(a), str(b)


def data(*words: str) -> Mapping[str, Any]:
    told = compare.run.reply(words).data
    return cast(Mapping[str, Any], json.loads(json.dumps(told, allow_nan=False)))


def test_every_trial_of_both_sides_is_somewhere(runs: tuple[str, str]) -> None:
    found = data(*runs)
    assert [(one["name"], one["verdict"]) for one in found["comparisons"]] == [
        ("eager", "slower"),
        ("fast", "refused"),
    ]
    assert [(one["side"], one["name"]) for one in found["alone"]] == [("A", "gone"), ("B", "new")]
    said = compare.run.reply(runs).text
    assert "fast latency_ms/p50: failed in B (oom: no memory)" in said
    assert "only in A: gone: B has no such trial." in said
    assert said.endswith("B against A: 1 refused, 1 slower.")


def uneven(of: Trial, floor_ns: float, seed: int) -> TrialResult:
    """Processes whose calls are disturbed by different shares, above one floor."""
    measured = result(of, floor_ns, seed=seed, process_spread=1e-4)
    rng = np.random.default_rng(seed)

    def disturbed(process: ProcessRecord) -> ProcessRecord:
        calls = process.observations.durations_ns
        slower = 1 + rng.uniform(0.1, 0.6)
        durations = (*calls[:10], *(int(call * slower) for call in calls[10:]))
        starts = tuple(np.cumsum([0, *durations])[:-1].tolist())
        seen = replace(process.observations, durations_ns=durations, started_ns=starts)
        return replace(process, observations=seen)

    return replace(measured, processes=tuple(map(disturbed, measured.processes)))


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (1.10, 0, "B against A: 1 inconclusive; by the floor 1 slower."),
        (1.008, 4, "B against A: 1 inconclusive."),
    ],
)
def test_a_floor_that_shows_a_difference_is_a_verdict_of_the_comparison(
    tmp_path: Path, more: float, code: int, told: str
) -> None:
    a = write_run(tmp_path / "a", (EAGER, uneven(EAGER, 1e6, 1)))
    b = write_run(tmp_path / "b", (EAGER, uneven(EAGER, more * 1e6, 2)))
    reply = compare.run.reply([str(a), str(b)])
    assert reply.text.endswith(told)
    assert reply.exit_code == code
    found = data(str(a), str(b))
    assert found["comparisons"][0]["verdict"] == "inconclusive"
    assert found["floors"][0]["verdict"] == ("slower" if code == 0 else "inconclusive")
    assert found["by_floor"] == (["eager"] if code == 0 else [])


def test_a_floor_of_two_processes_a_side_decides_nothing(tmp_path: Path) -> None:
    sides = (uneven(EAGER, 1e6, 1), uneven(EAGER, 1.5e6, 2))
    two = [replace(one, processes=one.processes[:2]) for one in sides]
    a, b = (write_run(tmp_path / name, (EAGER, one)) for name, one in zip("ab", two, strict=True))
    reply = compare.run.reply([str(a), str(b)])
    assert reply.exit_code == 4
    assert data(str(a), str(b))["by_floor"] == []


def test_all_metrics_are_a_table_for_each_trial(runs: tuple[str, str]) -> None:
    found = data(*runs, "--all")["comparisons"]
    metrics = [one["metric"] for one in found if one["name"] == "eager"]
    assert {"latency_ms/p50", "load_s/p50", "peak_rss_bytes/max"} <= set(metrics)
    assert len(metrics) == len(set(metrics)) > 10
    said = compare.run.reply([*runs, "--all"]).text
    assert "\neager\n  metric" in said
    assert "hold for all of them together" in said


def test_metrics_are_named_in_either_way(runs: tuple[str, str]) -> None:
    one = data(*runs, "--metric", "load_s/p50", "--metric", "latency_ms/p50")
    other = data(*runs, "--metric=load_s/p50,latency_ms/p50,load_s/p50")
    assert one == other
    assert [each["metric"] for each in one["comparisons"][:2]] == ["load_s/p50", "latency_ms/p50"]


def test_the_gain_of_baselines_alone_is_nothing_to_compare(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, (EAGER, result(EAGER))) for name in ("a", "b"))
    reply = compare.run.reply([str(a), str(b), "--metric", "speedup_ratio/p50"])
    assert reply.exit_code == 3
    assert "nothing to compare" in reply.text
    assert "a baseline has no gain over itself" in reply.text
    assert "metric" not in reply.text.partition("nothing")[0], "there is no empty table"


def test_conversions_that_are_picked_are_the_factor(runs: tuple[str, str]) -> None:
    found = data(f"{runs[0]}::eager", f"{runs[0]}::fast")
    assert [one["name"] for one in found["comparisons"]] == ["eager → fast"]
    assert found["comparisons"][0]["verdict"] == "faster"


def test_other_differing_facts_are_reported(tmp_path: Path) -> None:
    a, b = (
        write_run(tmp_path / c, (EAGER, result(EAGER, environment={"git_commit": c}))) for c in "xy"
    )
    told = data(str(a), str(b))["also_different"]
    assert told == ["environment.git_commit: x in A, y in B"]
    assert f"also differs: {told[0]}" in compare.run.reply([str(a), str(b)]).text


def test_machines_that_are_compared_are_two_machines(tmp_path: Path) -> None:
    elsewhere = result(EAGER, environment={"host": "z", "cpu_model": "Other"})
    a = write_run(tmp_path / "a", (EAGER, result(EAGER)))
    b = write_run(tmp_path / "b", (EAGER, elsewhere))
    assert "cpu_model: Some CPU in A, Other in B" in compare.run.reply([str(a), str(b)]).text
    said = compare.run.reply([str(a), str(b), "--across", "hardware"]).text
    assert "three of each" in said
    assert "equivalent" in said


def test_what_has_nothing_in_common_is_a_wrong_request(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", (EAGER, result(EAGER)))
    b = write_run(tmp_path / "b", (NEW, result(NEW)))
    with pytest.raises(ConfigError, match=r"A has: eager\. B has: new"):
        compare.run.reply([str(a), str(b)])


def test_a_session_that_is_compared_shows_no_spread(runs: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"--session .*: run plan-b counts already"):
        compare.run.reply([*runs, "--session", runs[1]])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"environment": {"host": "z"}}, "environment.host is 'z' and not .*--across host"),
        ({"threads": 4}, "ran.threads is 4 and not 2.*--across threads"),
    ],
)
def test_a_session_of_another_machine_or_definition_shows_no_spread(
    fields: dict[str, Any], told: str, runs: tuple[str, str], tmp_path: Path
) -> None:
    other = str(write_run(tmp_path / "other", (EAGER, result(EAGER, seed=3, **fields))))
    with pytest.raises(ConfigError, match=f"--session .*{told}") as refused:
        compare.run.reply([*runs, "--session", other])
    allowed = str(refused.value).rpartition("differ, ")[2].split()
    compare.run.reply([*runs, "--session", other, *allowed])


def test_a_session_of_no_trial_of_the_baselines_shows_no_spread(
    runs: tuple[str, str], tmp_path: Path
) -> None:
    other = str(write_run(tmp_path / "other", (NEW, result(NEW, seed=3))))
    with pytest.raises(ConfigError, match=r"--session .*no trial of it is one of the baseline's"):
        compare.run.reply([*runs, "--session", other])


def test_a_session_is_checked_against_each_trial_that_it_counts_for(tmp_path: Path) -> None:
    swept = [trial(axes=f"stopping.processes={n}", stopping={"processes": n}) for n in (5, 8)]
    a, b = (write_run(tmp_path / name, *((one, result(one)) for one in swept)) for name in "ab")
    elsewhere = result(EAGER, seed=3, environment={"host": "z"})
    other = write_run(tmp_path / "other", (EAGER, elsewhere))
    with pytest.raises(ConfigError, match=r"--session .*environment\.host is 'z'"):
        compare.run.reply([str(a), str(b), "--session", str(other)])


def test_a_name_in_brackets_is_no_style(tmp_path: Path) -> None:
    odd = trial("odd", labels={"axes": "model.widths=[red]"})
    run = write_run(tmp_path / "a", (EAGER, result(EAGER)), (odd, result(odd)))
    assert "model.widths=[red]" in compare.run.reply([str(run), str(run)]).text


def test_the_same_runs_give_the_same_text(runs: tuple[str, str]) -> None:
    assert compare.run.reply([*runs, "--all"]) == compare.run.reply([*runs, "--all"])
