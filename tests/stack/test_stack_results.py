"""A stack's bucket is emptied and nothing else, once its runs are at home."""

from __future__ import annotations

from pathlib import Path

from benchorch.journal.run_directory import read_plan
from benchorch.run.archive import archive_run
from benchorch.stores.objects import bucket_at
from stack_results import download_all, empty_place
from support.s3 import Bucket, bucket
from support.synthetic_runs import result, trial, write_run

__all__ = ["bucket"]  # a fixture


def test_all_that_is_not_at_home_yet_is_brought_there(bucket: Bucket, tmp_path: Path) -> None:
    run, home, one = tmp_path / "run", tmp_path / "home", trial("eager")
    write_run(run, (one, result(one)))
    place, plan_id = bucket_at(bucket.url), read_plan(run).plan_id
    archive_run(run, place)
    assert download_all(place, home, print) == [home / plan_id]
    assert download_all(place, home, print) == []
    (home / plan_id / "results.jsonl").write_text("")  # fetched before the run had ended
    (later,) = download_all(place, home, print)
    assert later.name == f"{plan_id}-later"
    assert (later / "results.jsonl").read_bytes() == (run / "results.jsonl").read_bytes()
    assert download_all(place, home, print) == []
    (later / "results.jsonl").write_text("")
    (last,) = download_all(place, home, print)
    assert last.name == f"{plan_id}-later-2"


def test_a_sweep_that_was_interrupted_while_it_was_sent_is_named_and_keeps_nothing(
    bucket: Bucket, tmp_path: Path
) -> None:
    run, home, one = tmp_path / "run", tmp_path / "home", trial("eager")
    write_run(run, (one, result(one)))
    place, plan_id = bucket_at(bucket.url), read_plan(run).plan_id
    archive_run(run, place)
    place.write("20261128-b/files/home/me/my_zoo.py", b"x = 1")
    said: list[str] = []
    assert download_all(place, home, said.append) == [home / plan_id]
    assert said == [
        f"not downloaded: {bucket.url}/20261128-b has no plan.json; it was not sent whole"
    ]


def test_every_version_below_the_stores_prefix_is_removed_and_nothing_else(bucket: Bucket) -> None:
    name = bucket.name
    bucket.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    bucket.fill({f"artifacts/{number}": b"" for number in range(1005)})  # more than one page
    bucket.put("artifacts/1", b"another version")
    bucket.remove("artifacts/2")  # leaves a marker
    bucket.s3.put_object(Bucket=name, Key="artifacts/of-mlflow", Body=b"")
    bucket.s3.put_object(Bucket=name, Key="store-of-others/x", Body=b"")
    said: list[str] = []
    assert empty_place(bucket.url, said.append) == 1007
    assert said == [f"removed 1007 object version(s) from {bucket.url}"]
    left = bucket.s3.list_object_versions(Bucket=name)
    kept = [*left["Versions"], *left.get("DeleteMarkers", ())]
    assert [one["Key"] for one in kept] == ["artifacts/of-mlflow", "store-of-others/x"]
    assert empty_place(bucket.url, said.append) == 0
    assert len(said) == 1
