"""Changes to a project that must, or must not, be another build: written without reading the code.

`cases` were visible while identity was being built; those in `unseen/` were first judged when it
was finished.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.config.overrides import spelled
from identity_corpus import (
    cases,
    eighth_review,
    fifth_review,
    fourth_review,
    held_out,
    hostile,
    ninth_review,
    second_review,
    seventh_review,
    sixth_review,
    third_review,
)
from identity_corpus.unseen import cases as unseen
from support.identity_lab import Identity, command, identity_of
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
        ("seventh review", seventh_review),
        ("eighth review", eighth_review),
        ("ninth review", ninth_review),
    )
    for case in corpus.CASES
    if not case.debatable
}
LEFT = ("clock_in_forward", "process_in_forward", "random_bytes_in_forward")
"""Clocks, process ids and random sources: the parity gate finds that outputs differ."""

UNTRACKED = ("database_read_by_forward",)
"""What its calls do cannot be compared, so that it is never a hit."""


KINDS = (
    *("seen-wheel_constant_upgraded", "seen-plain_tensor_middle", "seen-lru_cache"),
    *("seen-environment_newly_set", "seen-program_run_by_factory", "seen-permissions"),
    *("unseen-closure_cell", "unseen-weights_file_same_size_and_time", "unseen-file_recreated"),
    *("unseen-unpicklable_counter", "hostile-autocast_left_on", "hostile-extension_rebuilt_alike"),
    *("second review-data_file_of_package_read_in_forward", "fifth review-source_with_comments"),
    *("third review-negative_zero_in_a_tuple", "fifth review-file_that_a_variable_names"),
    "eighth review-implementation_of_a_generic_function",
)
"""One case of each kind of change, for the default suite; all for the slow one."""


@pytest.mark.parametrize(
    "name", only(KINDS, (name for name, case in CASES.items() if case.name not in LEFT))
)
def test_a_change_is_a_miss_or_a_hit_as_it_should_be(name: str, tmp_path: Path) -> None:
    """By what can be reached of the model, or else by what its calls consult."""
    case = CASES[name]
    for package in case.needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    is_hit, why = judged(case, tmp_path / "walked", stamps=tmp_path / "stamps")
    if is_hit and case.expected != "hit":
        case = replace(case, expected="never") if case.name in UNTRACKED else case
        is_hit, why = judged(case, tmp_path / "called", store=tmp_path / "store")
    assert is_hit == (case.expected == "hit"), (case.why, why)


CALLS = {
    case.name: case
    for review in (sixth_review, seventh_review, eighth_review, ninth_review)
    for case in review.CALLS
}
ALIKE = (
    *("file_of_a_spelled_name", "file_that_appears", "folder_of_a_spelled_name"),
    *("precision_of_decimals", "comment_in_a_module_of_a_spelled_name", "storage_mapped_by_torch"),
    *("library_behind_a_library", "name_behind_a_link_of_the_factory", "newest_file"),
    *("file_in_memory_of_the_factory", "tokenizer_of_a_file", "package_data_by_pkgutil"),
    *("file_of_a_spelled_name_in_place", "spawned_process_of_forward"),
    *(case.name for number, case in enumerate(ninth_review.CALLS) if number % 6),
)
"""Of a kind with cases of `unit/frameworks/identity/test_calls.py`: with ``-m slow``."""


@pytest.mark.parametrize("name", only(lambda name: name not in ALIKE, CALLS))
def test_what_only_calls_show_is_a_miss(name: str, tmp_path: Path) -> None:
    case = CALLS[name]
    for package in case.needs:
        pytest.importorskip(package)
    try:
        is_hit, why = judged(case, tmp_path, store=tmp_path / "store")
    finally:
        ninth_review.memory_path(tmp_path / "project").unlink(missing_ok=True)
    assert is_hit == (case.expected == "hit"), (case.why, why)


HITS = {name: case for name, case in CASES.items() if case.expected == "hit" and not case.needs}
COMMAND = (
    *("model=factory", "conversion=[eager,torchscript]", "workload.batch_size=2", "stopping=fixed"),
    *("stopping.processes=1", "stopping.calls=2", "stopping.window_s=0.01", "control=false"),
    *("executor=inline", "recorder=none", "profiler=none", "profile=[]", "protocol.pairing=none"),
    *("protocol.canary_tolerance_ratio=null", "model.inputs={x:{shape:[batch_size,4]}}"),
)


# That comments change no identity is in `unit/trial/test_identity_stamps.py`.
@pytest.mark.parametrize("name", only(("seen-checkout_moved",), HITS))
def test_the_command_builds_nothing_again_where_nothing_changed_that_counts(
    name: str, tmp_path: Path
) -> None:
    """What the walk and the calls agree on is still one build in three invocations."""
    case, folder = HITS[name], tmp_path / "project"
    folder.mkdir()
    case.before(folder)
    run(case, folder, tmp_path, "first", changed=False)
    folder = changed_folder(case, folder, tmp_path)
    for number in ("second", "third"):
        run(case, folder, tmp_path, number, changed=True)
    said = tmp_path / "explained.json"
    words = ("cache", "explain", "--json")
    assert command(folder, words, said, env=places(tmp_path), server=1) == 0
    builds = json.loads(said.read_text())["builds"]
    again = {one["name"]: one["differences"] for one in builds if len(one["keys"]) > 1}
    assert builds
    assert not again, case.why


def run(case: cases.Case, folder: Path, place: Path, name: str, *, changed: bool) -> None:
    """One invocation; the conversion of any but the first comes from the store."""
    arguments = case.arguments
    if changed and case.arguments_after is not None:
        arguments = case.arguments_after
    given = spelled(dict(arguments)) if arguments else ""
    words = [*COMMAND, f"model.factory={case.target}", f"hydra.run.dir={place / name}"]
    words += [f"+model.arguments={given}"] if given else []
    site = folder / "site"
    said = place / f"{name}.txt"
    code = command(
        folder,
        words,
        said,
        env={**case.environment(folder, changed=changed), **places(place)},
        site=site if site.is_dir() else None,
        server=int(changed),
    )
    assert code == 0, said.read_text()
    lines = map(json.loads, (place / name / "results.jsonl").read_text().splitlines())
    states = {one["labels"]["conversion"]: one["build"]["cache"] for one in lines}
    assert states["torchscript"] == ("hit" if changed else "miss"), (case.why, states)


def places(place: Path) -> dict[str, str]:
    """Variables that lead to a store and a state of this test's own."""
    return {"BENCHORCH_CACHE_DIR": str(place / "store"), "XDG_STATE_HOME": str(place / "state")}


def judged(case: cases.Case, place: Path, **kept: Path) -> tuple[bool, tuple[str, str]]:
    """Whether the second build is served from the first's cache, and what each was."""
    folder = place / "project"
    folder.mkdir(parents=True)
    case.before(folder)
    first = identity(case, folder, changed=False, **kept)
    if case.expected != "hit":  # two loads that agree are believed without a third
        again = identity(case, folder, changed=False, **kept)
        if case.expected == "never":
            return first.key is not None and first.key == again.key, (first.why, again.why)
        assert first.key == again.key, (first.why, again.why)  # both None for what is never a hit
    second_folder = changed_folder(case, folder, place)
    second = identity(case, second_folder, changed=True, **kept)
    return first.key is not None and first.key == second.key, (first.why, second.why)


def changed_folder(case: cases.Case, folder: Path, place: Path) -> Path:
    """The project after the change, which may be elsewhere."""
    changed = folder
    if case.moved:
        changed = place / "elsewhere" / "copy"
        shutil.copytree(folder, changed, symlinks=True)
    if case.linked:
        changed = place / "link"
        changed.symlink_to(folder)
    case.after(changed)
    return changed


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
