"""A stack's bucket at the stack's end: its runs are fetched, then it is emptied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchorch.stores.objects import Objects


def download_all(place: Objects, folder: Path) -> list[Path]:
    """Download every archived run that this folder lacks or has in part; their directories.

    ConfigError and StoreError as for `download_run`.
    """
    from benchorch.journal.run_directory import RESULTS
    from benchorch.run.archive import archived_runs, download_run

    downloaded = []
    for plan_id in archived_runs(place):
        directory = folder / plan_id
        if directory.exists():
            here, there = directory / RESULTS, place.look(f"{plan_id}/{RESULTS}")
            size_bytes = here.stat().st_size if here.exists() else 0
            if size_bytes == (there.size_bytes if there else 0):
                continue
            directory = folder / f"{plan_id}-later"
        download_run(place, plan_id, directory)
        downloaded.append(directory)
    return downloaded


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
