"""Changes to a project that must, or must not, be another build: written without reading the code.

`cases` were visible while identity was being built; those in `unseen/` were first judged when it
was finished.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from identity_corpus import (
    cases,
    fifth_review,
    fourth_review,
    held_out,
    hostile,
    second_review,
    sixth_review,
    third_review,
)
from identity_corpus.unseen import cases as unseen
from support.identity_lab import Identity, identity_of
from support.slices import only

CASES = {
    f"{part}-{case.name}": case
    for part, corpus in (
        ("seen", cases),
        ("unseen", unseen),
        ("hostile", hostile),
        ("held-out", held_out),
        ("second review", second_review),
        ("third review", third_review),
        ("fourth review", fourth_review),
        ("fifth review", fifth_review),
        ("sixth review", sixth_review),
    )
    for case in corpus.CASES
    if not case.debatable
}
LEFT = ("clock_in_forward", "process_in_forward", "random_bytes_in_forward")
"""Clocks, process ids and random sources: the parity gate finds that outputs differ."""

IN_CALLS = (
    "date_in_helper",
    "file_in_home",
    "module_by_name_from_data",
    "wheel_imported_by_name_in_forward",
)
"""Modules under a name, and files at a place, that forward puts together: its calls show them."""


def chosen(every: int) -> list[object]:
    """One case in so many, compiled ones not, for the default suite; all for the slow one."""
    return [
        pytest.param(
            name,
            marks=() if number % every == 0 and case.conversion == "eager" else pytest.mark.slow,
        )
        for number, (name, case) in enumerate(CASES.items())
        if case.name not in LEFT + IN_CALLS
    ]


@pytest.mark.parametrize("name", chosen(12))
def test_a_change_is_a_miss_or_a_hit_as_it_should_be(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for package in case.needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folder = tmp_path / "project"
    folder.mkdir()
    case.before(folder)
    stamps = tmp_path / "stamps"
    first = identity(case, folder, changed=False, stamps=stamps)
    if case.expected == "never":
        again = identity(case, folder, changed=False, stamps=stamps)
        assert first.key is None or first.key != again.key, case.why
        return
    if case.expected == "miss":  # two loads that agree are believed without a third
        assert identity(case, folder, changed=False, stamps=stamps).key == first.key
    second_folder = folder
    if case.moved:
        second_folder = tmp_path / "elsewhere" / "copy"
        shutil.copytree(folder, second_folder, symlinks=True)
    if case.linked:
        second_folder = tmp_path / "link"
        second_folder.symlink_to(folder)
    case.after(second_folder)
    second = identity(case, second_folder, changed=True, stamps=stamps)
    hit = first.key is not None and first.key == second.key
    assert hit == (case.expected == "hit"), (case.why, first.why, second.why)


SHOWN_BY_CALLS = {
    case.name: case
    for case in (*CASES.values(), *sixth_review.CALLS)
    if case.name in IN_CALLS or case in sixth_review.CALLS
}

ALIKE = (
    *("file_of_a_spelled_name", "file_that_appears", "folder_of_a_spelled_name"),
    *("precision_of_decimals", "date_in_helper"),
)
"""Of a kind with cases of `unit/frameworks/identity/test_calls.py`: with ``-m slow``."""


@pytest.mark.parametrize("name", only(lambda name: name not in ALIKE, SHOWN_BY_CALLS))
def test_what_only_calls_show_is_a_miss(name: str, tmp_path: Path) -> None:
    case = SHOWN_BY_CALLS[name]
    folder = tmp_path / "project"
    folder.mkdir()
    case.before(folder)
    store = tmp_path / "store"
    first = identity(case, folder, changed=False, store=store)
    again = identity(case, folder, changed=False, store=store)
    assert (again.key == first.key) == (case.expected != "never"), (first.why, again.why)
    case.after(folder)
    second = identity(case, folder, changed=True, store=store)
    hit = second.key == first.key
    assert hit == (case.expected == "hit"), (case.why, first.why, second.why)


def identity(
    case: cases.Case,
    folder: Path,
    *,
    changed: bool,
    stamps: Path | None = None,
    store: Path | None = None,
) -> Identity:
    arguments = case.arguments
    if changed and case.arguments_after is not None:
        arguments = case.arguments_after
    site = folder / "site"
    return identity_of(
        folder,
        case.target,
        arguments=dict(arguments),
        env=case.environment(folder, changed=changed),
        site=site if site.is_dir() else None,
        conversion=case.conversion,
        stamps=stamps,
        store=store,
        server=int(changed),
    )
