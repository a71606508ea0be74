import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.errors import ConfigError
from benchorch.files import write_text
from benchorch.journal import reader, run_directory


def a_result(trial_id="t1", durations=(5, 6, 7)):
    observations = Observations(
        durations_ns=durations,
        started_ns=(0, 5, 11)[: len(durations)],
        calls_per_block=1,
        items_per_call=2,
        preempted=(False,) * len(durations),
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
    return TrialResult(
        trial_id=trial_id, labels={}, outcome=Outcome.OK, processes=(process, process)
    )


def without_digests(text):
    """Lines as earlier versions wrote them."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        for name in ("before", "digest", "series_digest"):
            line.pop(name, None)
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_a_result_comes_back_with_its_raw_series(tmp_path):
    run_directory.append_result(tmp_path, a_result(), {"metrics": {"latency_ms/p50": 1.0}})
    assert reader.read_results(tmp_path) == [a_result()]


def test_series_of_the_first_schema_are_still_read(tmp_path):
    run_directory.append_result(tmp_path, a_result(), {})
    path = tmp_path / "trials" / "t1" / run_directory.OBSERVATIONS
    lines = [json.loads(line)["observations"] for line in path.read_text().splitlines()]
    results = tmp_path / run_directory.RESULTS
    results.write_text(without_digests(results.read_text()))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert reader.read_results(tmp_path) == [a_result()]


def going_on(processes):
    whole = a_result()
    return dataclasses.replace(whole, processes=whole.processes[:1] * processes, unfinished=True)


def test_a_trial_that_goes_on_comes_back_with_all_its_processes(tmp_path):
    for count in (1, 2, 3):
        run_directory.append_round(tmp_path, going_on(count))
    assert run_directory.read_rounds(tmp_path, "t1") == going_on(3)
    assert run_directory.read_rounds(tmp_path, "other") is None


def test_a_torn_round_loses_no_other(tmp_path):
    for count in (1, 2):
        run_directory.append_round(tmp_path, going_on(count))
    path = run_directory.rounds_path(tmp_path, "t1")
    path.write_bytes(path.read_bytes()[:-20])
    assert run_directory.read_rounds(tmp_path, "t1") == going_on(1)
    run_directory.append_round(tmp_path, going_on(2))
    assert run_directory.read_rounds(tmp_path, "t1") == going_on(2)


def test_a_finished_trial_leaves_no_rounds_and_an_interrupted_one_does(tmp_path):
    run_directory.append_round(tmp_path, going_on(1))
    run_directory.append_result(tmp_path, going_on(1), {})
    assert run_directory.read_rounds(tmp_path, "t1") == going_on(1)
    run_directory.append_result(tmp_path, a_result(), {})
    assert run_directory.read_rounds(tmp_path, "t1") is None


def test_a_trial_that_failed_by_no_fault_of_its_own_keeps_its_rounds(tmp_path):
    run_directory.append_round(tmp_path, going_on(1))
    failure = Failure(stage="build", kind="disk_full", message="no space left")
    failed = dataclasses.replace(going_on(1), unfinished=False, failure=failure)
    run_directory.append_result(tmp_path, failed, {})
    assert run_directory.read_rounds(tmp_path, "t1") == going_on(1)


def test_programs_find_the_metrics_in_the_line(tmp_path):
    run_directory.append_result(tmp_path, a_result(), {"metrics": {"latency_ms/p50": 1.0}})
    line = json.loads((tmp_path / run_directory.RESULTS).read_text())
    assert line["metrics"] == {"latency_ms/p50": 1.0}
    assert line["processes"][0]["observations"]["durations_ns"] == []


def test_of_two_results_for_a_trial_the_last_one_counts(tmp_path):
    run_directory.append_result(tmp_path, a_result(), {})
    later = dataclasses.replace(a_result(), attempt=2)
    run_directory.append_result(tmp_path, later, {})
    assert reader.read_results(tmp_path) == [later]


@pytest.mark.parametrize("keep", [0, 1, 7, 30])
def test_a_torn_last_line_is_ignored_and_then_cut_off(tmp_path, keep):
    path = tmp_path / "lines.jsonl"
    run_directory.append_line(path, {"n": 1})
    with path.open("a") as file:
        file.write('{"n": 2, "text": "a line that was never finished'[:keep])

    assert [line["n"] for line in run_directory.read_lines(path)] == [1]
    run_directory.append_line(path, {"n": 3})
    assert [line["n"] for line in run_directory.read_lines(path)] == [1, 3]


def test_a_torn_line_longer_than_a_page_is_cut_off(tmp_path):
    path = tmp_path / "lines.jsonl"
    run_directory.append_line(path, {"n": 1})
    with path.open("a") as file:
        file.write("x" * 10_000)
    run_directory.append_line(path, {"n": 2})
    assert [line["n"] for line in run_directory.read_lines(path)] == [1, 2]


def test_a_missing_journal_holds_nothing(tmp_path):
    assert reader.read_results(tmp_path) == []


def test_a_plan_comes_back(tmp_path):
    plan = Plan(
        plan_id="p",
        name="n",
        trials=(Trial(trial_id="t", labels={"model": "m"}, spec={"a": [1, 2]}),),
        skips=(Skip(labels={}, reason="because"),),
        session={"rebuild": "never"},
    )
    run_directory.write_plan(tmp_path, plan)
    assert run_directory.read_plan(tmp_path) == plan


def test_trials_and_skips_are_stored_with_the_nodes_that_they_share():
    model = {"widths": [8, 4]}
    plan = Plan(
        plan_id="p",
        name="n",
        trials=(Trial(trial_id="t", labels={}, spec={"model": model}),),
        skips=(Skip(labels={}, reason="because", spec={"model": model}),),
        session={},
    )
    content = run_directory.plan_content(plan)
    assert all(cell["spec"]["model"] is model for cell in content["trials"] + content["skips"])


def test_a_directory_without_a_plan_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"is not a run's directory: it has no plan\.json"):
        run_directory.read_plan(tmp_path)


def test_writing_to_a_full_disk_leaves_the_journal_whole(tmp_path, monkeypatch):
    path = tmp_path / "lines.jsonl"
    run_directory.append_line(path, {"n": 1})
    real = os.pwrite

    def full_after_ten_bytes(descriptor, data, offset):
        if len(data) <= 10:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", full_after_ten_bytes)
    with pytest.raises(OSError, match="No space left"):
        run_directory.append_line(path, {"n": 2, "longer": "than ten bytes"})
    monkeypatch.undo()
    assert path.read_text() == '{"n":1}\n'


GROUP = [(a_result(f"t{number}"), {"metrics": {}}) for number in range(4)]


def test_results_that_came_together_are_read_as_if_they_had_come_one_by_one(tmp_path):
    (tmp_path / "alone").mkdir()
    run_directory.append_results(tmp_path, GROUP[:1])
    run_directory.append_results(tmp_path, GROUP[1:])
    for result, extra in GROUP:
        run_directory.append_result(tmp_path / "alone", result, extra)
    texts = [(each / run_directory.RESULTS).read_text() for each in (tmp_path, tmp_path / "alone")]
    assert texts[0] == texts[1]
    assert reader.read_results(tmp_path) == [result for result, _ in GROUP]


def test_one_fsync_makes_all_lines_of_a_group_durable(tmp_path, monkeypatch):
    results, synced = tmp_path / run_directory.RESULTS, []
    real = os.fsync

    def sync(descriptor):
        if results.exists() and os.path.samestat(os.fstat(descriptor), results.stat()):
            synced.append(results.read_bytes().count(b"\n"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    run_directory.append_results(tmp_path, GROUP)
    assert synced == [4]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_a_group_that_a_crash_has_torn_keeps_its_whole_lines(tmp_path, share):
    run_directory.append_results(tmp_path, GROUP)
    path = tmp_path / run_directory.RESULTS
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    left = [result.trial_id for result in reader.read_results(tmp_path)]
    assert left == [f"t{number}" for number in range(path.read_bytes().count(b"\n"))]
    run_directory.append_results(tmp_path, GROUP[len(left) :])
    assert path.read_bytes() == whole


def test_lines_of_a_group_that_fit_on_a_full_disk_stay(tmp_path, monkeypatch):
    run_directory.append_results(tmp_path, GROUP)
    path, real = tmp_path / run_directory.RESULTS, os.pwrite
    room = path.read_bytes()[: int(0.6 * path.stat().st_size)]
    path.unlink()

    def full(descriptor, data, offset):
        fits = data[: len(room) - offset]
        if not fits:
            raise OSError(28, "No space left on device")
        return real(descriptor, fits, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        run_directory.append_results(tmp_path, GROUP)
    assert path.read_bytes() == room[: room.rfind(b"\n") + 1]
    assert [result.trial_id for result in reader.read_results(tmp_path)] == ["t0", "t1"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("lost", ["the line", "the line and the series"])
def test_a_result_stands_until_the_line_of_the_next_is_durable(tmp_path, monkeypatch, lost, plain):
    plan = Plan(
        plan_id="p",
        name="n",
        trials=(Trial(trial_id="t1", labels={}, spec={}),),
        skips=(),
        session={},
    )
    run_directory.append_result(tmp_path, a_result(), {})
    results = tmp_path / run_directory.RESULTS
    if plain:
        results.write_text(without_digests(results.read_text()))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_directory, "_append" if lost == "the line" else "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            run_directory.append_result(tmp_path, a_result(durations=(8, 9)), {})
    assert reader.read_results(tmp_path) == [a_result()]
    assert list(reader.salvage(tmp_path, plan, print)) == [a_result()]
    run_directory.append_result(tmp_path, a_result(durations=(8, 9)), {})
    assert reader.read_results(tmp_path) == [a_result(durations=(8, 9))]
    assert [path.name for path in (tmp_path / "trials" / "t1").iterdir()] == ["observations.jsonl"]


def test_a_series_that_was_left_beside_the_next_ones_line_goes(tmp_path):
    plan = Plan(plan_id="p", name="n", trials=(), skips=(), session={})
    run_directory.append_result(tmp_path, a_result(), {})
    path = run_directory.series_path(tmp_path, "t1")
    path.with_name(".observations.jsonl.earlier").write_bytes(b"{}\n")
    assert list(reader.salvage(tmp_path, plan, print)) == [a_result()]
    assert list(path.parent.iterdir()) == [path]


def test_results_before_one_that_cannot_be_written_are_durable(tmp_path):
    blocked = tmp_path / "trials" / "t2"
    blocked.parent.mkdir()
    blocked.write_text("a file in its folder's place")
    with pytest.raises(FileExistsError):
        run_directory.append_results(tmp_path, GROUP)
    assert [result.trial_id for result in reader.read_results(tmp_path)] == ["t0", "t1"]


def test_writers_of_one_file_with_one_process_number_do_not_disturb_each_other(tmp_path):
    """Two machines that share a directory may well be process 209 both."""
    path = tmp_path / "note.json"
    texts = [f"{writer} " * 1000 for writer in range(8)]

    def write(text):
        for _ in range(20):
            write_text(path, text)

    with ThreadPoolExecutor(len(texts)) as writers:
        list(writers.map(write, texts))
    assert path.read_text() in texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["note.json"]


def test_a_line_that_is_too_long_is_cut_and_damaged(tmp_path, monkeypatch):
    for number in range(3):
        run_directory.append_result(tmp_path, a_result(f"t{number}"), {})
    path = tmp_path / run_directory.RESULTS
    lines = path.read_bytes().splitlines()
    monkeypatch.setattr(run_directory, "_MOST_OF_A_LINE", len(lines[0]) + 100)
    for content in (b"x" * 10**6, lines[1] + b" " * 10**5):
        path.write_bytes(b"\n".join([lines[0], content, lines[2], b"torn"]))
        journal = reader.read_journal(tmp_path)
        assert [*journal.entries] == ["t0", "t2"]
        assert [(one.number, len(one.raw)) for one in journal.damaged] == [(2, len(lines[0]) + 100)]


def test_a_journal_of_more_bytes_than_a_run_has_is_refused(tmp_path):
    run_directory.append_result(tmp_path, a_result(), {})
    os.truncate(tmp_path / run_directory.RESULTS, 2**40)
    with pytest.raises(ConfigError, match="it has more than 8 GiB"):
        reader.read_journal(tmp_path)
