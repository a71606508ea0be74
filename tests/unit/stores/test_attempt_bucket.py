"""Large files of a trial go from the node where it ran to the bucket, and count by the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.domain.result import Outcome, TrialResult, UploadedFile
from benchorch.errors import StoreError
from benchorch.journal import uploads
from benchorch.stores.attempt_bucket import AttemptBucket
from benchorch.stores.objects import bucket_at
from support.aws_emulator.traffic import Fault
from support.s3 import Bucket, bucket

__all__ = ["bucket"]
TRACE = "profile/trace.json"


def attempt(bucket: Bucket, tmp_path: Path, content: str) -> tuple[UploadedFile, ...]:
    """What one node uploads of trial t."""
    folder = tmp_path / content
    (folder / "profile").mkdir(parents=True)
    (folder / TRACE).write_text(content)
    return AttemptBucket(url=f"{bucket.url}/plan").add(folder, [TRACE], "t")


def result(files: tuple[UploadedFile, ...]) -> TrialResult:
    return TrialResult(trial_id="t", labels={}, outcome=Outcome.OK, uploads=files)


def come_home(bucket: Bucket, directory: Path, files: tuple[UploadedFile, ...]) -> Path:
    """The trace in the run's directory, perhaps absent."""
    uploads.complete(directory, result(files), bucket_at(f"{bucket.url}/plan").download)
    return directory / "trials" / "t" / TRACE


def test_each_attempt_has_a_place_of_its_own_and_the_journal_says_which_counts(
    bucket: Bucket, tmp_path: Path
) -> None:
    lost, counted = (attempt(bucket, tmp_path, text) for text in ("lost", "counted"))
    assert len(bucket.names("plan/attempts/t/")) == 2
    trace = come_home(bucket, tmp_path / "run", counted)
    assert trace.read_text() == "counted"
    assert [path.name for path in trace.parent.iterdir()] == ["trace.json"]
    assert lost[0].key != counted[0].key


def test_a_file_of_an_earlier_attempt_does_not_pass_for_that_of_the_next(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (attempt(bucket, tmp_path, text) for text in ("first", "second"))
    come_home(bucket, tmp_path / "run", first)
    trace = come_home(bucket, tmp_path / "run", second)
    assert trace.read_text() == "second"
    bucket.remove(f"plan/{first[0].key}")
    assert not come_home(bucket, tmp_path / "run", first).exists()
    assert "is gone from the bucket" in caplog.text


def test_a_file_that_has_come_home_is_not_downloaded_again(bucket: Bucket, tmp_path: Path) -> None:
    files = attempt(bucket, tmp_path, "sound")
    come_home(bucket, tmp_path / "run", files)
    bucket.remove(f"plan/{files[0].key}")
    assert come_home(bucket, tmp_path / "run", files).read_text() == "sound"


def test_a_file_that_is_there_is_never_replaced(bucket: Bucket, tmp_path: Path) -> None:
    [file] = attempt(bucket, tmp_path, "first")
    (tmp_path / "second").write_text("second")
    bucket_at(f"{bucket.url}/plan").add(file.key, tmp_path / "second")
    assert bucket.read(f"plan/{file.key}") == b"first"


def test_a_file_that_was_changed_or_removed_does_not_come_home(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [file] = attempt(bucket, tmp_path, "sound")
    bucket.put(f"plan/{file.key}", b"changed")
    assert not come_home(bucket, tmp_path / "run", (file,)).exists()
    assert "was changed in the bucket" in caplog.text
    bucket.remove(f"plan/{file.key}")
    assert not come_home(bucket, tmp_path / "run", (file,)).exists()
    assert "is gone from the bucket" in caplog.text


@pytest.mark.parametrize("name", ["../../../x", "/etc/x"])
def test_a_name_that_leads_out_of_the_trials_folder_is_refused(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    [file] = attempt(bucket, tmp_path, "sound")
    bad = UploadedFile(name=name, key=file.key, sha256=file.sha256)
    come_home(bucket, tmp_path / "run", (bad,))
    assert not (tmp_path / "run" / "trials" / "t" / name).exists()
    assert "leads out of" in caplog.text


def test_only_files_of_the_trials_own_attempts_are_read(bucket: Bucket, tmp_path: Path) -> None:
    [file] = attempt(bucket, tmp_path, "sound")
    bucket.put("plan/results.jsonl", b"sound")
    other = UploadedFile(name=file.name, key="results.jsonl", sha256=file.sha256)
    assert not come_home(bucket, tmp_path / "run", (other,)).exists()


def test_a_bucket_that_refuses_is_a_store_error(bucket: Bucket, tmp_path: Path) -> None:
    fault = Fault("s3:PUT", code="AccessDenied", status=403)
    bucket.emulator.traffic.faults.append(fault)
    try:
        with pytest.raises(StoreError, match="AccessDenied"):
            attempt(bucket, tmp_path, "x")
    finally:
        bucket.emulator.traffic.faults.remove(fault)
