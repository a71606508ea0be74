"""A stack's bucket at the stack's end: its runs are fetched, then it is emptied."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchorch.stores.objects import Objects


def download_all(place: Objects, folder: Path, say: Callable[[str], None]) -> list[Path]:
    """Download every archived run that this folder lacks or has in part; their directories.

    What has no plan is no run: files of a sweep that was interrupted while it was sent.
    ConfigError and StoreError as for `download_run`.
    """
    from benchorch.journal.run_directory import PLAN
    from benchorch.run.archive import archived_runs, download_run

    downloaded = []
    for plan_id in archived_runs(place):
        if place.look(f"{plan_id}/{PLAN}") is None:
            say(f"not downloaded: {place.address}/{plan_id} has no {PLAN}; it was not sent whole")
            continue
        directory = _directory_of(place, plan_id, folder)
        if directory is not None:
            download_run(place, plan_id, directory)
            downloaded.append(directory)
    return downloaded


def _directory_of(place: Objects, plan_id: str, folder: Path) -> Path | None:
    """The first of PLAN, PLAN-later, PLAN-later-2 and so on that is free; None if one is whole."""
    endings = chain(("", "-later"), (f"-later-{number}" for number in count(2)))
    directories = (folder / f"{plan_id}{ending}" for ending in endings)
    directory = next(
        one for one in directories if not one.exists() or _has_every_result(place, plan_id, one)
    )
    return None if directory.exists() else directory


def _has_every_result(place: Objects, plan_id: str, directory: Path) -> bool:
    from benchorch.journal.run_directory import RESULTS

    here, there = directory / RESULTS, place.look(f"{plan_id}/{RESULTS}")
    size_bytes = here.stat().st_size if here.exists() else 0
    return size_bytes == (there.size_bytes if there else 0)


def empty_place(url: str, say: Callable[[str], None]) -> int:
    """Remove every version of what is below ``s3://bucket/prefix``; their number.

    A bucket that holds something cannot be removed. For what can be had again: artifacts, which are
    built, and results that have been fetched.
    """
    import boto3

    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    client, removed = boto3.client("s3"), 0
    listing = client.get_paginator("list_object_versions")
    pages = list(listing.paginate(Bucket=bucket, Prefix=f"{prefix}/"))
    for page in pages:  # of a thousand at most, which is what one call may remove
        marked = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        found = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in marked]
        if found:
            client.delete_objects(Bucket=bucket, Delete={"Objects": found, "Quiet": True})
        removed += len(found)
    if removed:
        say(f"removed {removed} object version(s) from {url}")
    return removed
