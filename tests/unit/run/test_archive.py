"""A run outlives the disk it was written to: it lies in a bucket, and comes back from there."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.cli.commands import archive as command
from benchorch.domain.result import Outcome, TrialResult, UploadedFile
from benchorch.errors import ConfigError
from benchorch.journal import registry, run_directory, uploads
from benchorch.run import archive
from benchorch.run.archive import archive_run, archived_runs, download_run
from benchorch.stores.attempt_bucket import AttemptBucket
from benchorch.stores.objects import Objects, bucket_at
from support.aws_emulator.traffic import Fault
from support.s3 import Bucket, bucket
from support.synthetic_runs import result, trial, write_run

__all__ = ["bucket"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one trial, with files of the trial's own and some that are nobody else's."""
    directory = tmp_path / "run"
    one = trial("eager")
    write_run(directory, (one, result(one)))
    (directory / "trials" / one.trial_id).mkdir(parents=True, exist_ok=True)
    (directory / "trials" / one.trial_id / "log.txt").write_text("said")
    (directory / "lock").touch()
    (directory / ".half").write_text("half")
    (directory / "notes").mkdir()
    (directory / "notes" / "identity.json").write_text("{}")
    return directory


def files(directory: Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def plan_id(run: Path) -> str:
    return run_directory.read_plan(run).plan_id


def test_a_run_comes_back_as_it_was_without_what_was_nobody_elses(
    run: Path, bucket: Bucket, tmp_path: Path
) -> None:
    (run / "elsewhere").symlink_to("/etc/passwd")
    place = bucket_at(bucket.url)
    kept = archive_run(run, place)
    assert kept.reason == ""
    assert archived_runs(place) == [plan_id(run)]
    back = tmp_path / "elsewhere" / "back"
    assert download_run(place, plan_id(run), back) == kept.files
    gone = {"lock", ".half", "notes/identity.json", "elsewhere"}
    assert files(back) == {k: v for k, v in files(run).items() if k not in gone}
    assert [path.name for path in back.parent.iterdir()] == ["back"]


def test_what_a_run_writes_is_copied_while_it_goes_on_and_nothing_twice(
    run: Path, bucket: Bucket
) -> None:
    results = run / "results.jsonl"
    whole = results.read_bytes()
    results.write_bytes(b"")
    turns: list[int] = []

    def wait(pause_s: float) -> bool | None:
        turns.append(bucket.emulator.traffic.counts["s3:PUT"])
        if len(turns) == 2:
            results.write_bytes(whole)
        return True if len(turns) == 3 else None

    kept = archive_run(run, bucket_at(bucket.url), wait)
    assert kept.reason == ""
    assert bucket.read(f"{plan_id(run)}/results.jsonl") == whole
    first, second, third = turns
    assert (second - first, third - second) == (0, 1)


class Follower:
    """A bucket that somebody follows: looks at it after each file, as the executor of a stack does.

    The run ends while its first file is being copied.
    """

    def __init__(self, place: Objects, run: Path) -> None:
        self.place, self.run, self.ends_seen = place, run, 0
        self.results = (run / "results.jsonl").read_bytes()

    def upload(self, name: str, path: Path) -> None:
        self.place.upload(name, path)
        (self.run / "results.jsonl").write_bytes(self.results)
        (self.run / "driver.json").write_text(json.dumps({"ended_at": "now"}))
        self.look(name.partition("/")[0])

    def write(self, name: str, data: bytes) -> None:
        self.place.write(name, data)
        self.look(name.partition("/")[0])

    def look(self, plan: str) -> None:
        status = self.place.read(f"{plan}/driver.json", 1000)
        if status is not None and json.loads(status.data)["ended_at"]:
            results = self.place.read(f"{plan}/results.jsonl", 2**20)
            assert results is not None
            assert results.data == self.results
            self.ends_seen += 1


@pytest.mark.parametrize("begun", [b"", None], ids=["file without a line", "no file"])
def test_a_status_with_an_end_is_copied_after_every_result(
    run: Path, bucket: Bucket, begun: bytes | None
) -> None:
    """Whoever follows a run takes a trial without a result at its end for lost."""
    place: Any = Follower(bucket_at(bucket.url), run)
    (run / "results.jsonl").unlink()
    if begun is not None:
        (run / "results.jsonl").write_bytes(begun)
    (run / "driver.json").write_text(json.dumps({"ended_at": None}))
    archive_run(run, place)
    archive_run(run, place)
    assert place.ends_seen


class Late:
    """A bucket during whose first upload a trial of the run ends."""

    def __init__(self, place: Objects, run: Path) -> None:
        self.place, self.late = place, [run]

    def upload(self, name: str, path: Path) -> None:
        if self.late:
            run_directory.append_result(self.late.pop(), result(trial("late")), {})
        self.place.upload(name, path)

    def write(self, name: str, data: bytes) -> None:
        self.place.write(name, data)


def test_the_files_of_every_copied_result_are_copied_before_it(run: Path, bucket: Bucket) -> None:
    """Whoever follows a run fetches a trial's files once, when its result is there."""
    place: Any = Late(bucket_at(bucket.url), run)
    for trials in ({trial().trial_id}, {trial().trial_id, trial("late").trial_id}):
        archive_run(run, place)
        lines = bucket.read(f"{plan_id(run)}/results.jsonl").splitlines()
        assert {json.loads(line)["trial_id"] for line in lines} == trials
        series = {f"{plan_id(run)}/trials/{one}/observations.jsonl" for one in trials}
        assert series <= {*bucket.names()}


def refused(path: Path, **_: object) -> Any:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


class Unreadable:
    """A bucket to which one file of the run cannot be copied, as where it is another user's."""

    def __init__(self, place: Objects, name: str) -> None:
        self.place, self.name, self.address = place, name, place.address

    def upload(self, name: str, path: Path) -> None:
        if path.name == self.name:
            refused(path)
        self.place.upload(name, path)

    def write(self, name: str, data: bytes) -> None:
        self.place.write(name, data)


@pytest.mark.parametrize("name", ["log.txt", "results.jsonl"])
def test_a_file_that_cannot_be_read_is_named_and_delays_no_other(
    run: Path, bucket: Bucket, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run is not copied without its results."""
    if name == "results.jsonl":
        monkeypatch.setattr(archive, "open_regular", refused)
    (run / "driver.json").write_text(json.dumps({"ended_at": "now"}))
    place: Any = Unreadable(bucket_at(bucket.url), name)
    kept = archive_run(run, place)
    assert f"{name} cannot be read: {os.strerror(errno.EACCES)}" in kept.reason
    copied = {each.name.rpartition("/")[2] for each in place.place.listed(plan_id(run))}
    assert {"plan.json", "log.txt", "results.jsonl"} - copied == {name}
    assert ("driver.json" in copied) == (name == "log.txt")


def test_a_file_that_cannot_be_read_delays_no_later_copy(run: Path, bucket: Bucket) -> None:
    pauses: list[float] = []

    def wait(pause_s: float) -> bool | None:
        pauses.append(pause_s)
        return True if len(pauses) == 3 else None

    place: Any = Unreadable(bucket_at(bucket.url), "log.txt")
    assert "log.txt cannot be read" in archive_run(run, place, wait).reason
    assert pauses == [5, 5, 5]


def test_of_many_files_that_cannot_be_read_the_first_are_named(run: Path, bucket: Bucket) -> None:
    for number in range(7):
        (run / "trials" / f"t{number}").mkdir()
        (run / "trials" / f"t{number}" / "log.txt").touch()
    place: Any = Unreadable(bucket_at(bucket.url), "log.txt")
    reason = archive_run(run, place).reason
    assert reason.count("log.txt cannot be read") == 5
    assert reason.endswith(" and 3 more")


def test_a_folder_that_cannot_be_listed_is_named(
    run: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may list everything."""
    real, (folder,) = os.scandir, (run / "trials").iterdir()

    def listed(path: Any) -> Any:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", listed)
    reason = archive_run(run, bucket_at(bucket.url)).reason
    assert reason == f"{folder} cannot be read: {os.strerror(errno.EACCES)}"
    assert f"{plan_id(run)}/results.jsonl" in bucket.names()


def test_a_bucket_that_is_away_costs_nothing_and_has_it_all_later(
    run: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.emulator.break_it(Fault("s3:PUT", "AccessDenied", status=403))
    turns: list[float] = []

    def wait(pause_s: float) -> bool | None:
        turns.append(pause_s)
        if len(turns) == 3:
            bucket.emulator.traffic.faults.clear()
        return True if len(turns) == 4 else None

    kept = archive_run(run, bucket_at(bucket.url), wait)
    assert kept.reason == ""
    assert turns == [10, 20, 40, 5]
    assert f"{plan_id(run)}/results.jsonl" in bucket.names()
    assert len([r for r in caplog.records if "stay on this disk" in r.getMessage()]) == 1


def test_what_could_not_be_copied_is_told_with_the_command_that_does(
    run: Path, bucket: Bucket
) -> None:
    bucket.emulator.break_it(Fault("s3:PUT", "AccessDenied", status=403))
    reply = command.run_keep.reply([str(run), "--at", bucket.url])
    assert reply.exit_code == 1
    assert "AccessDenied" in reply.text
    assert f"python -m benchorch keep {run}" in reply.text


def test_files_that_nodes_uploaded_come_home_and_those_of_lost_attempts_do_not(
    bucket: Bucket, tmp_path: Path
) -> None:
    one, directory, node = trial("eager"), tmp_path / "run", tmp_path / "node"
    node.mkdir()
    place = bucket_at(bucket.url)
    (node / "trace.json").write_text("of an attempt whose node was lost")
    AttemptBucket(url=f"{bucket.url}/plan").add(node, ["trace.json"], one.trial_id)
    (node / "trace.json").write_text("counted")
    added = AttemptBucket(url=f"{bucket.url}/plan").add(node, ["trace.json"], one.trial_id)
    write_run(directory, (one, replace(result(one), uploads=added)))
    plan = run_directory.read_plan(directory)
    run_directory.write_plan(directory, replace(plan, plan_id="plan"))
    archive_run(directory, place)
    back = tmp_path / "back"
    download_run(place, "plan", back)
    assert (back / "trials" / one.trial_id / "trace.json").read_text() == "counted"
    assert not (back / "attempts").exists()
    copied = download_run(place, "plan", tmp_path / "again")
    assert copied == len(files(directory))


def test_rounds_come_home_for_a_trial_that_goes_on_and_for_no_finished_one(
    bucket: Bucket, tmp_path: Path
) -> None:
    directory, place = tmp_path / "run", bucket_at(bucket.url)
    done, open_ = trial("eager"), trial("torchscript")
    unfinished = replace(result(open_), unfinished=True)
    write_run(directory, (done, result(done)), (open_, unfinished))
    for one in (result(done), unfinished):
        run_directory.append_round(directory, one)
    archive_run(directory, place)
    back = tmp_path / "back"
    download_run(place, plan_id(directory), back)
    assert run_directory.read_rounds(back, done.trial_id) is None
    assert run_directory.read_rounds(back, open_.trial_id) is not None


@pytest.mark.parametrize("state", ["missing", "unfinished", "final"])
def test_a_winner_comes_home_where_every_trial_of_the_plan_has_its_result(
    bucket: Bucket, tmp_path: Path, state: str
) -> None:
    """A run that goes on with more trials removes it, and what is removed stays in the bucket."""
    directory, place = tmp_path / "run", bucket_at(bucket.url)
    done, added = trial("eager"), trial("torchscript")
    found = None if state == "missing" else replace(result(added), unfinished=state == "unfinished")
    write_run(directory, (done, result(done)), (added, found))
    (directory / run_directory.WINNER).write_text("{}")
    archive_run(directory, place)
    back = tmp_path / "back"
    download_run(place, plan_id(directory), back)
    assert (back / run_directory.WINNER).exists() == (state == "final")


def test_a_run_that_is_not_there_is_refused_with_those_that_are(
    run: Path, bucket: Bucket, tmp_path: Path
) -> None:
    place = bucket_at(bucket.url)
    with pytest.raises(ConfigError, match=r"has no run '20990101'; available: none\."):
        download_run(place, "20990101", tmp_path / "back")
    archive_run(run, place)
    place.write("20250101/files/zoo.py", b"")  # of a sweep that was not sent whole
    with pytest.raises(ConfigError, match=r"/20250101 has no plan\.json: it was not copied whole"):
        download_run(place, "20250101", tmp_path / "back")
    with pytest.raises(ConfigError, match=f"available: {plan_id(run)}"):
        download_run(place, "20990101", tmp_path / "back")


def test_nothing_is_written_over(run: Path, bucket: Bucket) -> None:
    place = bucket_at(bucket.url)
    archive_run(run, place)
    with pytest.raises(ConfigError, match="exists already"):
        download_run(place, plan_id(run), run)


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/etc/outside"])
def test_a_name_that_leads_out_of_the_run_is_refused(
    run: Path, bucket: Bucket, tmp_path: Path, name: str
) -> None:
    place = bucket_at(bucket.url)
    archive_run(run, place)
    bucket.put(f"{plan_id(run)}/{name}", b"evil")
    with pytest.raises(ConfigError, match="outside of the run"):
        download_run(place, plan_id(run), tmp_path / "deep" / "back")
    assert not list(tmp_path.rglob("outside"))


def test_folders_that_a_console_made_are_left_out(
    run: Path, bucket: Bucket, tmp_path: Path
) -> None:
    place = bucket_at(bucket.url)
    kept = archive_run(run, place)
    for name in ("", "trials/", "more/"):
        bucket.put(f"{plan_id(run)}/{name}", b"")
    assert download_run(place, plan_id(run), tmp_path / "back") == kept.files


def test_a_name_that_is_a_file_and_a_folder_is_refused(
    run: Path, bucket: Bucket, tmp_path: Path
) -> None:
    place = bucket_at(bucket.url)
    archive_run(run, place)
    bucket.put(f"{plan_id(run)}/results.jsonl/x", b"")
    with pytest.raises(ConfigError, match=r"'results\.jsonl', a file and a folder"):
        download_run(place, plan_id(run), tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", ["../../outside", "/etc/outside", ".", ""])
def test_an_uploaded_file_of_a_name_elsewhere_is_left_where_it_is(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = UploadedFile(name=name, key=f"attempts/t1/x/{name}", sha256="0" * 64)
    result = TrialResult(trial_id="t1", labels={}, outcome=Outcome.OK, uploads=(one,))
    uploads.complete(tmp_path / "run", result, lambda key, path: path.write_bytes(b"evil"))
    assert "the result stands without it" in caplog.text
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "trials", "t1"]


def test_a_fetched_run_is_known_by_its_plan(
    run: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BENCHORCH_RESULTS_URL", bucket.url)
    command.run_keep.reply([str(run)])
    assert command.run_fetch.reply([]).text == plan_id(run)
    reply = command.run_fetch.reply([plan_id(run)])
    assert reply.exit_code == 0
    assert "1 of 1 trials have a result" in reply.text
    told = json.loads(json.dumps(reply.data))
    assert (tmp_path / told["directory"] / "results.jsonl").is_file()
    from benchorch.journal.registry import find_invocation

    assert find_invocation(plan_id(run)) == (tmp_path / told["directory"])


@pytest.mark.parametrize("made_here", [True, False])
def test_the_next_commands_of_a_fetched_run_that_was_made_elsewhere_trust_it(
    run: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_here: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BENCHORCH_RESULTS_URL", bucket.url)
    if made_here:
        registry.remember_plan(plan_id(run), run)
    command.run_keep.reply([str(run)])
    told = command.run_fetch.reply([plan_id(run)]).text.splitlines()
    trusted = "" if made_here else f" --trust runs/{plan_id(run)}"
    assert told[-2:] == [
        f"  MLflow   python -m benchorch record runs/{plan_id(run)}{trusted}",
        f"  resume   python -m benchorch resume {plan_id(run)}{trusted}",
    ]


@pytest.mark.parametrize(
    ("url", "told"), [(None, "No bucket is named"), ("http://x", "names no bucket")]
)
def test_without_a_bucket_nothing_is_begun(
    run: Path, url: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCHORCH_RESULTS_URL", raising=False)
    with pytest.raises(ConfigError, match=told):
        command.run_keep.reply([str(run), *(["--at", url] if url else [])])
