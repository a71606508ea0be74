"""Which run a word names, and what is said where it names none."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from benchorch.domain.trial import Skip
from benchorch.errors import ConfigError
from benchorch.journal import chain, run_directory
from benchorch.journal.registry import remember
from benchorch.results.compare import export
from benchorch.results.compare.load_run import load, stored
from support.synthetic_runs import failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "run",
        (EAGER, result(EAGER)),
        (FAST, result(FAST, 5e5, baseline_ns=1e6)),
        plan_id="20260101-000000-abcd",
    )


def test_a_run_is_found_by_each_of_its_names(run: Path) -> None:
    remember("20260101-000000-abcd", run)
    (run / "tracking.json").write_text(json.dumps({"parent_run_id": "mlflow-id"}))
    exported = run.parent / "exported.json"
    exported.write_text(export.text_of(export.to_json(load(str(run)))))
    words = (run, "20260101-000000-abcd", "mlflow-id", run / run_directory.RESULTS, exported)
    found = [load(str(word)) for word in words]
    assert {one.plan_id for one in found} == {"20260101-000000-abcd"}
    assert all(one.trials == found[0].trials for one in found)


def test_what_is_stored_holds_one_value_a_process_and_no_series(run: Path) -> None:
    fast = load(str(run)).trials[1]
    assert fast.result is not None
    assert fast.result.processes == ()
    assert len(fast.evidence.values["latency_ms/p50"]) == 10
    assert len(fast.evidence.values["load_s/p50"]) == 10
    assert len(fast.evidence.pairs_ns) == 10
    assert fast.evidence.design == "alternated"
    assert fast.evidence.canaries_ns == ((30e6, 30e6),) * 10
    assert "build_s/total" not in fast.evidence.values


def test_rejected_repetitions_do_not_count(tmp_path: Path) -> None:
    from dataclasses import replace

    seen = result(EAGER)
    disturbed = replace(seen.processes[3], disturbance="the machine was slow")
    processes = (*seen.processes[:3], disturbed, *seen.processes[4:])
    run = write_run(tmp_path / "run", (EAGER, replace(seen, processes=processes)))
    evidence = load(str(run)).trials[0].evidence
    assert len(evidence.values["latency_ms/p50"]) == len(evidence.canaries_ns) == 9


def test_a_trial_without_a_result_is_there_all_the_same(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, None))
    assert [one.failure for one in load(str(run)).trials] == ["", "never ran"]


def test_an_export_is_the_run_it_was_made_of(run: Path) -> None:
    path = run.parent / "exported.json"
    before = load(str(run))
    path.write_text(export.text_of(export.to_json(before)))
    after = export.read(path)
    assert (after.trials, after.skips, after.name) == (before.trials, before.skips, before.name)
    assert after.run_results().summaries == before.run_results().summaries


def test_an_export_is_small_and_the_same_every_time(run: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(export.text_of(export.to_json(load(str(run)))))
    other.write_text(export.text_of(export.to_json(load(str(run / run_directory.RESULTS)))))
    assert one.read_bytes() == other.read_bytes()
    assert "durations_ns" not in one.read_text()
    assert "a long traceback" not in one.read_text()
    assert one.stat().st_size < 20_000


def test_an_export_has_its_format_and_version(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "exported.json"
    path.write_text(export.text_of(export.to_json(load(str(run)))))
    data = json.loads(path.read_text())
    assert (data["format"], data["schema_version"]) == ("benchorch run", 1)
    eager = data["trials"][0]
    assert len(eager["definition_digest"]) == 64
    assert eager["metrics"]["latency_ms/p50"]["unit"] == "ms"
    assert data["shared"]["environment"]["cpu_model"] == "Some CPU"
    assert data["trials"][1]["speedup"]["verdict"] == "faster"


def test_an_export_of_a_failed_and_a_missing_trial_keeps_both(tmp_path: Path) -> None:
    slow = trial("slow", baseline=EAGER)
    run = write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, failed(FAST)), (slow, None))
    path = tmp_path / "exported.json"
    path.write_text(export.text_of(export.to_json(load(str(run)))))
    assert [one.failure for one in export.read(path).trials] == [
        "",
        "oom: no memory",
        "never ran",
    ]


BROKEN = {
    "not JSON": (lambda text: text[:-40], "is not a readable JSON file"),
    "a list": (lambda text: "[]", "is not an exported run"),
    "another format": (lambda text: text.replace("benchorch run", "x"), "is not an exported run"),
    "a later schema": (
        lambda text: text.replace('"schema_version": 1', '"schema_version": 9', 1),
        "has schema 9",
    ),
    "a NaN": (lambda text: text.replace('"value": 1.0', '"value": NaN'), "NaN is not a number"),
    "text for a number": (
        lambda text: text.replace('"delta_ratio": 0.01', '"delta_ratio": "x"'),
        r"Expected `float`, got `str` - at `\$.delta_ratio`",
    ),
    "a missing part": (lambda text: text.replace('"evidence"', '"evidense"'), "is damaged"),
    "no trial": (
        lambda text: json.dumps({**json.loads(text), "trials": []}),
        "no trial of this run has a result",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_export_is_refused_in_a_sentence(run: Path, tmp_path: Path, case: str) -> None:
    path = tmp_path / "exported.json"
    path.write_text(export.text_of(export.to_json(load(str(run)))))
    damage, told = BROKEN[case]
    text = path.read_text()
    damaged = damage(text)
    assert damaged != text
    path.write_text(damaged)
    with pytest.raises(ConfigError, match=told):
        load(str(path))


def test_what_is_no_run_is_named_with_what_would_be_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for word in ("nowhere", str(tmp_path / "empty")):
        with pytest.raises(ConfigError, match="neither a run's directory"):
            load(word)


def test_a_run_without_results_is_refused_with_the_command_to_resume(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (EAGER, None))
    with pytest.raises(ConfigError, match="no trial of this run has a result") as error:
        load(str(run))
    assert error.value.next == f"benchorch resume {run}"


def test_a_run_whose_cells_were_all_skipped_has_nothing_to_resume(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", skips=(Skip(labels=EAGER.labels, reason="needs a GPU."),))
    with pytest.raises(ConfigError, match="every cell of this run was skipped") as error:
        load(str(run))
    assert error.value.next == f"benchorch report {run}"


def test_a_run_that_is_still_going_on_is_left_alone(run: Path) -> None:
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="still going on: 2 of 2 trials"):
            load(str(run))
    assert load(str(run)).plan_id


@pytest.mark.parametrize(
    ("line", "told"),
    [("{broken", "is damaged"), ("3", "is damaged"), ('{"schema_version": 9}', "is damaged")],
)
def test_a_damaged_line_is_refused_with_a_message(run: Path, line: str, told: str) -> None:
    with (run / run_directory.RESULTS).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ConfigError, match=told):
        load(str(run))


def test_results_of_a_later_version_are_refused_by_it(run: Path) -> None:
    path = run / run_directory.RESULTS
    before = path.read_bytes().splitlines()
    line = chain.seal({"schema_version": 9}, before[-1])
    path.write_bytes(b"\n".join([*before, line, b""]))
    with pytest.raises(ConfigError, match="schema 9"):
        load(str(run))


def test_a_torn_last_line_is_what_a_crash_leaves(run: Path) -> None:
    with (run / run_directory.RESULTS).open("a") as file:
        file.write('{"trial_id": "half a li')
    assert len(load(str(run)).run_results().results) == 2


@pytest.mark.parametrize("content", [None, "", "{broken\n"])
def test_without_raw_series_nothing_is_derived(run: Path, content: str | None) -> None:
    series = run / "trials" / EAGER.trial_id / run_directory.OBSERVATIONS
    series.unlink()
    if content is not None:
        series.write_text(content)
    with pytest.raises(ConfigError, match=r"raw series|is damaged"):
        load(str(run))


def test_the_last_of_several_results_counts(run: Path) -> None:
    run_directory.append_result(run, result(EAGER, 3e6, seed=1), {})
    found = load(str(run)).run_results().summaries[EAGER.trial_id].metrics["latency_ms/p50"]
    assert found.value == pytest.approx(3.0, rel=0.01)


def test_stored_and_derived_agree(run: Path) -> None:
    from benchorch.results.compare.load_run import derive

    derived = derive(run, "run")
    assert stored(derived, "run").run_results().summaries == derived.summaries
