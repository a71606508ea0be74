"""Damage of a journal: what is sound is read, what is not is named and measured again."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError
from benchorch.journal import chain, reader, registry, run_directory

IDS = ("t1", "t2", "t3")


def a_result(trial_id):
    observations = Observations(
        durations_ns=(5, 6, 7), started_ns=(0, 5, 11), calls_per_block=1, items_per_call=2
    )
    process = ProcessRecord(
        load_s=0.5,
        first_call_s=0.1,
        observations=observations,
        steady_from=1,
        calibration=Calibration(pair_cost_ns=40.0, step_ns=1.0),
        peak_rss_bytes=100,
        facts={},
    )
    return TrialResult(trial_id=trial_id, labels={}, outcome=Outcome.OK, processes=(process,))


PLAN = Plan(
    plan_id="p",
    name="n",
    trials=tuple(Trial(trial_id=one, labels={}, spec={}) for one in IDS),
    skips=(),
    session={},
)


@pytest.fixture
def run(tmp_path):
    return a_run(tmp_path)


def a_run(directory):
    for trial_id in IDS:
        run_directory.append_result(directory, a_result(trial_id), {})
    return directory


def results(run):
    return run / run_directory.RESULTS


def lines(run):
    return results(run).read_bytes().splitlines(keepends=True)


def edited(run, change):
    """Change the second line."""
    found = lines(run)
    found[1] = change(found[1])
    results(run).write_bytes(b"".join(found))


def plain(run):
    """Without digests, as earlier versions wrote it."""
    found = [json.loads(line) for line in lines(run)]
    for line in found:
        for name in ("before", "digest", "series_digest"):
            line.pop(name)
    results(run).write_text("".join(f"{json.dumps(line)}\n" for line in found))


def salvaged(run):
    said = []
    found = [one.trial_id for one in reader.salvage(run, PLAN, said.append)]
    return found, " ".join(said)


DAMAGE = {
    "zeros": lambda line: b"\0" * 40 + b"\n",
    "a cut line": lambda line: line[:30] + b"\n",
    "not an object": lambda _: b"[1]\n",
    "invalid UTF-8": lambda line: line.replace(b'"ok"', b'"\xff\xfe"'),
    "an unknown outcome": lambda line: line.replace(b'"ok"', b'"of"'),
    "an edited number": lambda line: line.replace(b'"load_s":0.5', b'"load_s":0.1'),
    "no digest": lambda line: line.split(b',"before"')[0] + b"}\n",
    "deep nesting": lambda _: b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_is_set_aside_and_its_trial_runs_again(run, change):
    edited(run, change)
    bad = lines(run)[1]
    with pytest.raises(ConfigError, match=r"line 2 is damaged: .*(\n|.)*resume="):
        reader.read_results(run)

    found, said = salvaged(run)
    assert found == ["t1", "t3"]
    assert "line 2 is damaged" in said
    assert (run / "results.damaged.jsonl").read_bytes() == bad

    run_directory.append_result(run, a_result("t2"), {})
    assert sorted(one.trial_id for one in reader.read_results(run)) == list(IDS)


def test_a_deleted_line_is_marked(run):
    edited(run, lambda _: b"")
    journal = reader.read_journal(run)
    assert list(journal.entries) == ["t1", "t3"]
    assert journal.marks == ["A line is missing before line 2 of results.jsonl."]


def test_a_deleted_first_line_is_marked(run):
    results(run).write_bytes(b"".join(lines(run)[1:]))
    journal = reader.read_journal(run)
    assert list(journal.entries) == ["t2", "t3"]
    assert journal.marks == ["A line is missing before line 1 of results.jsonl."]


def test_an_edited_series_is_refused_by_its_name_and_measured_again(run):
    path = run_directory.series_path(run, "t2")
    path.write_text(path.read_text().replace("[5, 6, 7]", "[1, 1, 1]"))
    with pytest.raises(ConfigError, match=r"t2/observations\.jsonl was changed after"):
        reader.read_results(run)
    found, said = salvaged(run)
    assert found == ["t1", "t3"]
    assert "t2/observations.jsonl was changed after it was measured" in said
    assert "[1, 1, 1]" in path.with_name("observations.refused.jsonl").read_text()


@pytest.mark.parametrize("lose", ["unlink", "write_text"])
@pytest.mark.parametrize("version", ["with digests", "of before"])
def test_a_lost_series_is_measured_again(run, lose, version):
    if version == "of before":
        plain(run)
    path = run_directory.series_path(run, "t2")
    getattr(path, lose)(*([""] if lose == "write_text" else []))
    with pytest.raises(ConfigError, match=r"t2/observations\.jsonl"):
        reader.read_results(run)
    assert salvaged(run)[0] == ["t1", "t3"]


def test_a_run_of_before_is_read_and_marked_and_goes_on_with_digests(run):
    plain(run)
    journal = reader.read_journal(run)
    assert list(journal.entries) == list(IDS)
    assert "3 results of an earlier version" in journal.marks[0]
    later = dataclasses.replace(a_result("t2"), attempt=2)
    run_directory.append_result(run, later, {})
    assert not reader.read_journal(run).damaged
    assert reader.read_results(run)[1] == later


def test_a_damaged_round_costs_one_process(run):
    once = dataclasses.replace(a_result("t1"), unfinished=True)
    twice = dataclasses.replace(once, processes=once.processes * 2)
    run_directory.append_round(run, once)
    run_directory.append_round(run, twice)
    path = run_directory.rounds_path(run, "t1")
    path.write_bytes(path.read_bytes().replace(b'"load_s":0.5', b'"load_s":0.1', 1))
    assert run_directory.read_rounds(run, "t1") == once
    salvaged(run)
    run_directory.append_round(run, twice)
    assert run_directory.read_rounds(run, "t1") == twice


def test_a_sealed_line_that_is_no_round_is_set_aside_from_the_rounds(run):
    once = dataclasses.replace(a_result("t1"), unfinished=True)
    run_directory.append_round(run, once)
    path = run_directory.rounds_path(run, "t1")
    other = chain.seal({"else": 1}, path.read_bytes().splitlines()[-1]) + b"\n"
    with path.open("ab") as file:
        file.write(other)
    _, said = salvaged(run)
    assert "1 damaged line set aside" in said
    assert other in path.with_suffix(".damaged.jsonl").read_bytes()
    assert other not in path.read_bytes()
    assert run_directory.read_rounds(run, "t1") == once


def test_reading_reports_what_is_unusual(run):
    edited(run, lambda _: b"")
    said = []
    reader.read_results(run, said.append)
    assert said == ["A line is missing before line 2 of results.jsonl."]


def test_results_of_another_version_are_named_with_their_file(run):
    run_directory.append_result(run, dataclasses.replace(a_result("t1"), schema_version=0), {})
    with pytest.raises(ConfigError, match=r"results\.jsonl: written by another version .*schema 0"):
        reader.read_results(run)


def test_salvage_reports_marks_as_well_as_damage(run):
    edited(run, lambda _: b"")
    assert "A line is missing before line 2" in salvaged(run)[1]


def test_a_clock_set_back_is_marked(tmp_path):
    result = dataclasses.replace(
        a_result("t1"),
        started_at="2026-01-04T00:00:00+00:00",
        ended_at="2026-01-01T00:00:00+00:00",
    )
    run_directory.append_result(tmp_path, result, {})
    (mark,) = reader.read_journal(tmp_path).marks
    assert "Trial t1 ended at 2026-01-01" in mark
    assert "the clock was set back" in mark


def test_a_sound_journal_has_no_marks(run):
    assert reader.read_journal(run).marks == []


def test_a_clock_that_goes_on_is_not_marked(tmp_path):
    moment = "2026-01-04T00:00:00+00:00"
    result = dataclasses.replace(a_result("t1"), started_at=moment, ended_at=moment)
    run_directory.append_result(tmp_path, result, {})
    assert not reader.read_journal(tmp_path).marks


def test_a_series_that_its_trial_goes_on_with_is_left_to_it(run):
    run_directory.append_result(run, dataclasses.replace(a_result("t2"), unfinished=True), {})
    path = run_directory.series_path(run, "t2")
    path.write_bytes(path.read_bytes()[:-10])
    found, said = salvaged(run)
    assert found == ["t1", "t3"]
    assert path.exists()
    assert "runs again" not in said


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_mutation_of_a_journal_gives_a_wrong_result_or_another_error(tmp_path_factory, data):
    run = a_run(tmp_path_factory.mktemp("run"))
    names = [results(run), *(run_directory.series_path(run, one) for one in IDS)]
    if data.draw(st.booleans()):
        plain(run)
    path = data.draw(st.sampled_from(names))
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 60)))
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:])
    sealed = b'"series_digest"' in results(run).read_bytes()
    try:
        found = reader.read_results(run)
        list(reader.salvage(run, PLAN, lambda _: None))
    except ConfigError:
        return
    if sealed:
        assert all(one == a_result(one.trial_id) for one in found)


def test_the_list_of_known_runs_heals_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    registry.remember("p1", tmp_path / "one")
    index = tmp_path / "benchorch" / "invocations.jsonl"
    with index.open("ab") as file:
        file.write(b'garbage\n3\n{"plan_id": 5}\n\xff\n')
    assert registry.newest_invocations(9) == [tmp_path / "one"]
    with pytest.raises(ConfigError, match="neither a run's directory"):
        registry.find_invocation("p2")
    registry.remember("p2", tmp_path / "two")
    assert [json.loads(line)["plan_id"] for line in index.open()] == ["p1", "p2"]
