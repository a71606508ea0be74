from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.artifact import BuildKey, Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError, StoreError
from benchorch.stores import manifest as manifests
from benchorch.stores.artifact_directory import MARKER
from benchorch.stores.local import LocalStore

KEY = BuildKey(fields={"model": "mlp", "steps": [{"_target_": "x.Y", "opset": 20}], "lr": 0.1})


def weights(out: Path) -> None:
    (out / "weights").mkdir()
    (out / "weights" / "w.bin").write_bytes(bytes(range(256)) * 40)
    (out / "config.json").write_text("{}")


def refuse(out: Path) -> None:
    raise AssertionError("this build was to be found, not made")


def build(store: LocalStore, make: Callable[[Path], None] = weights, **options: bool) -> Path:
    artifact, _ = store.build(KEY, format=Format.ONNX, name="mlp onnx", make=make, **options)
    return artifact.path


def entry_directory(store: LocalStore) -> Path:
    return Path(store.root, "artifacts", KEY.digest)


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    with path.open("r+b") as file:  # in place: same inode, same size
        file.write(content)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(root=str(tmp_path / "cache"))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose bytes were read again, in order."""
    seen: list[str] = []
    real = manifests.file_digest

    def noting(path: Path) -> str:
        seen.append(path.name)
        return real(path)

    monkeypatch.setattr(manifests, "file_digest", noting)
    return seen


# What is where


def test_an_artifact_lies_under_its_key_with_its_manifest(store: LocalStore) -> None:
    path = build(store)
    assert path == entry_directory(store) / "files"
    assert (path / "weights" / "w.bin").stat().st_size == 10240
    written = json.loads((path.parent / "manifest.json").read_text())
    assert written["fields"] == KEY.fields
    assert [file["path"] for file in written["files"]] == ["config.json", "weights/w.bin"]


def test_only_the_owner_may_look_in(store: LocalStore) -> None:
    build(store)
    store.scratch(KEY.digest)
    directories = [Path(store.root), *(path for path in Path(store.root).glob("*/*"))]
    assert {path.stat().st_mode & 0o077 for path in directories if path.is_dir()} == {0}


@pytest.mark.parametrize("name", [".", "artifacts", "scratch"])
def test_a_directory_that_others_may_write_is_no_store(store: LocalStore, name: str) -> None:
    build(store)
    (Path(store.root) / name).chmod(0o777)
    with pytest.raises(StoreError, match="can be written by others") as error, store.in_use():
        pass
    assert list(store.problems()) == [f"store.root: {error.value}"]
    (Path(store.root) / name).chmod(0o755)
    with store.in_use():
        build(store)
    assert not store.problems()


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root gives files away")
@pytest.mark.parametrize("name", [".", "artifacts"])
def test_a_directory_of_anothers_is_no_store(store: LocalStore, name: str) -> None:
    build(store)
    os.chown(Path(store.root) / name, 1234, -1)
    with pytest.raises(StoreError, match="can be written by others") as error, store.in_use():
        pass
    assert "chmod" not in str(error.value)  # only the owner could


def test_a_home_directory_is_meant_by_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build(LocalStore(root="~/kept")).is_relative_to(tmp_path / "kept")


@pytest.mark.parametrize("root", ["", "~nobody-of-that-name/cache"])
def test_a_root_that_names_no_directory_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="root"):
        LocalStore(root=root)


@pytest.mark.parametrize("key", ["../../etc", "", "abc", "A" * 64, "0" * 63 + "/"])
def test_what_is_not_a_key_never_becomes_a_path(store: LocalStore, key: str) -> None:
    build(store)
    assert store.find(key) is None
    with pytest.raises(StoreError, match="not a key"):
        store.scratch(key)
    with pytest.raises(StoreError, match="not a key"):
        store.delete(key)


# Verification


def test_unchanged_files_are_not_read_again(store: LocalStore, hashed: list[str]) -> None:
    build(store)
    hashed.clear()
    assert store.find(KEY.digest)
    assert build(store, refuse)
    assert hashed == []


def test_a_touched_file_is_read_once_more_and_is_still_a_hit(
    store: LocalStore, hashed: list[str]
) -> None:
    path = build(store)
    os.utime(path / "config.json", ns=(1, 1))
    time.sleep(2 * manifests.SETTLE_S)
    hashed.clear()
    build(store, refuse)
    assert sorted(hashed) == ["config.json", "w.bin"]
    hashed.clear()
    build(store, refuse)
    assert hashed == []


def test_how_a_file_looks_is_not_believed_while_it_may_still_be_changing(
    store: LocalStore, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build(store)
    monkeypatch.setattr(manifests, "SETTLE_S", 600)  # nothing settles, however busy the machine is
    os.utime(path / "config.json")
    store.find(KEY.digest)
    hashed.clear()
    store.find(KEY.digest)
    assert hashed


def test_a_copied_store_is_verified_before_it_is_believed(
    store: LocalStore, tmp_path: Path, hashed: list[str]
) -> None:
    build(store)
    shutil.copytree(store.root, tmp_path / "copy")
    hashed.clear()
    assert LocalStore(root=str(tmp_path / "copy")).find(KEY.digest)
    assert hashed


def damage_byte(entry: Path) -> None:
    flip_a_byte(entry / "files/weights/w.bin")


def damage_byte_and_hide_it(entry: Path) -> None:
    path = entry / "files/weights/w.bin"
    before = path.stat()
    flip_a_byte(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def damage_length(entry: Path) -> None:
    os.truncate(entry / "files/weights/w.bin", 5000)


def damage_missing(entry: Path) -> None:
    (entry / "files/config.json").unlink()


def damage_extra(entry: Path) -> None:
    (entry / "files/extra.pkl").write_bytes(b"x")


def damage_link(entry: Path) -> None:
    target = entry.parent / "elsewhere"
    (entry / "files/config.json").rename(target)
    (entry / "files/config.json").symlink_to(target)


def damage_files_gone(entry: Path) -> None:
    shutil.rmtree(entry / "files")


def damage_manifest_gone(entry: Path) -> None:
    (entry / "manifest.json").unlink()


def damage_manifest_torn(entry: Path) -> None:
    os.truncate(entry / "manifest.json", 40)


def damage_manifest_shape(entry: Path) -> None:
    (entry / "manifest.json").write_text('["not", "a", "manifest"]')


def damage_manifest_digest(entry: Path) -> None:
    text = (entry / "manifest.json").read_text()
    written = json.loads(text)
    written["files"][0]["sha256"] = "0" * 64
    (entry / "manifest.json").write_text(json.dumps(written))


def damage_fields(entry: Path) -> None:
    path = entry / "manifest.json"
    path.write_text(path.read_text().replace('"opset": 20', '"opset": 21'))


def damage_state(entry: Path) -> None:
    path = entry / "manifest.json"
    path.write_text(path.read_text().replace('"complete"', '"failed"'))


DAMAGES = [value for name, value in sorted(globals().items()) if name.startswith("damage_")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_entry_is_set_aside_and_built_again(
    store: LocalStore, damage: Callable[[Path], None]
) -> None:
    build(store)
    damage(entry_directory(store))
    assert store.find(KEY.digest) is None
    [aside] = Path(store.root, "quarantine").iterdir()
    assert aside.name == f"{KEY.digest}-1"
    assert json.loads((aside / "reason.json").read_text())["reason"]
    path = build(store)
    assert (path / "weights/w.bin").read_bytes() == bytes(range(256)) * 40
    assert sorted(entry.state for entry in store.entries()) == ["complete", "quarantined"]


@pytest.mark.parametrize("read", ["read_small", "file_digest"])
def test_an_entry_stays_where_it_is_while_a_process_can_open_no_more_files(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    def refused(path: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    build(store)
    (entry_directory(store) / "verified.json").unlink(missing_ok=True)
    with monkeypatch.context() as short:
        short.setattr(manifests, read, refused)
        with pytest.raises(StoreError, match=os.strerror(errno.EMFILE)):
            store.find(KEY.digest)
    assert store.find(KEY.digest)


def test_an_entry_under_another_key_is_no_hit(store: LocalStore) -> None:
    build(store)
    other = "0" * 64
    shutil.copytree(entry_directory(store), entry_directory(store).with_name(other))
    assert store.find(other) is None
    assert store.find(KEY.digest)
    assert "another key" in next(e.detail for e in store.entries() if e.state == "quarantined")


def test_entries_set_aside_are_numbered(store: LocalStore) -> None:
    for _ in range(3):
        build(store)
        damage_byte(entry_directory(store))
        assert store.find(KEY.digest) is None
    names = sorted(path.name for path in Path(store.root, "quarantine").iterdir())
    assert names == [f"{KEY.digest}-{number}" for number in (1, 2, 3)]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = ["key", "name", "format", "fields", "created_at", "build_s", "state", "detail", "files"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's directory with an entry, to be copied: that takes less than a build."""
    directory = tmp_path_factory.mktemp("kept") / "cache"
    build(LocalStore(root=str(directory)))
    return directory


@given(field=st.sampled_from(FIELDS), value=JSON_VALUES)
def test_a_manifest_that_makes_no_sense_is_never_an_exception(
    tmp_path_factory: pytest.TempPathFactory, kept: Path, field: str, value: Json
) -> None:
    store = LocalStore(root=str(tmp_path_factory.mktemp("store") / "cache"))
    shutil.copytree(kept, store.root)
    path = entry_directory(store) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    list(store.entries())
    found = store.find(KEY.digest)
    assert found is None or found.key == KEY.digest
    assert {entry.artifact.key for entry in store.entries()} == {KEY.digest}


class Trap:
    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.sprung,))


def test_a_planted_pickle_is_never_opened(store: LocalStore, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    entry = entry_directory(store)
    for name in ("manifest.json", "verified.json", "files/model.pkl", "files/config.json"):
        build(store, force=True)
        (entry / name).write_bytes(trap)
        store.find(KEY.digest)
        list(store.entries())
    assert not sprung.exists()
    pickle.loads(trap)
    assert sprung.exists()  # it was a real one


# Failures


def test_a_failure_is_remembered_for_people_and_is_never_a_hit(store: LocalStore) -> None:
    def fail(out: Path) -> None:
        (out / "half").write_text("half")
        raise BuildError("opset 3 is too old", kind="too_old", remedy="opset=18")

    with pytest.raises(BuildError, match="too old") as caught:
        build(store, fail)
    assert caught.value.kind == "too_old"
    assert store.find(KEY.digest) is None
    assert store.newest("mlp onnx") is None
    [entry] = store.entries()
    assert (entry.state, entry.name) == ("failed", "mlp onnx")
    assert "opset 3 is too old" in entry.detail
    assert list(Path(store.root).rglob("half")) == []


def test_a_success_forgets_the_failure(store: LocalStore) -> None:
    with pytest.raises(AssertionError):
        build(store, refuse)
    build(store)
    assert [entry.state for entry in store.entries()] == ["complete"]


def test_a_failed_rebuild_leaves_the_artifact_that_was_there(store: LocalStore) -> None:
    build(store)
    with pytest.raises(AssertionError):
        build(store, refuse, force=True)
    assert store.find(KEY.digest)
    assert sorted(entry.state for entry in store.entries()) == ["complete", "failed"]


def test_an_interrupted_build_leaves_nothing(store: LocalStore) -> None:
    def interrupt(out: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(store, interrupt)
    assert store.entries() == []
    assert list(Path(store.root, "staging").iterdir()) == []


def test_a_link_in_an_artifact_is_refused(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a plain file"):
        build(store, lambda out: (out / "link").symlink_to(tmp_path))
    assert store.find(KEY.digest) is None


def test_what_make_raises_on_the_file_system_is_its_own_affair(store: LocalStore) -> None:
    with pytest.raises(FileNotFoundError, match="checkpoint"):
        build(store, lambda out: Path("/no/such/checkpoint").read_bytes() and None)


def test_a_build_whose_directory_was_taken_away_fails_for_its_own_reason(store: LocalStore) -> None:
    def vanish(out: Path) -> None:
        shutil.rmtree(out.parent)
        raise BuildError("no such operator")

    with pytest.raises(BuildError, match="no such operator"):
        build(store, vanish)
    with pytest.raises(StoreError):
        build(store, lambda out: shutil.rmtree(store.root))
    assert build(store)


# Rebuilding


def test_a_forced_build_replaces_all_files(store: LocalStore) -> None:
    build(store)
    path = build(store, lambda out: (out / "new").write_text("new") and None, force=True)
    assert [file.name for file in path.iterdir()] == ["new"]
    assert store.find(KEY.digest)
    assert list(Path(store.root, "staging").iterdir()) == []


def test_where_a_swap_is_impossible_two_moves_do(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchorch.stores.disk._exchange", lambda first, second: False)
    test_a_forced_build_replaces_all_files(store)


def test_a_file_in_the_place_of_an_entry_does_not_block_it(store: LocalStore) -> None:
    build(store)
    shutil.rmtree(entry_directory(store))
    entry_directory(store).write_text("")
    assert build(store)
    assert store.find(KEY.digest)


# Roots that will not do


def test_a_new_or_empty_root_has_no_problems_and_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for root in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert LocalStore(root=str(root)).problems() == []
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_used_root_has_no_problems(store: LocalStore) -> None:
    build(store)
    assert store.problems() == []


@pytest.mark.parametrize("below", ["", "/cache", "/a/b/c"])
def test_a_root_at_or_below_a_file_is_a_problem(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    [problem] = LocalStore(root=f"{tmp_path / 'file'}{below}").problems()
    assert f"{tmp_path / 'file'} is not a directory" in problem


def test_somebody_elses_directory_is_neither_used_nor_emptied(tmp_path: Path) -> None:
    thesis = tmp_path / "artifacts" / KEY.digest / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    store = LocalStore(root=str(tmp_path))
    [problem] = store.problems()
    assert MARKER in problem
    with pytest.raises(StoreError, match="not a store"):
        build(store)
    with pytest.raises(StoreError, match="not a store"):
        store.delete(KEY.digest)
    with pytest.raises(StoreError, match="not a store"):
        store.scratch(KEY.digest)
    assert store.find(KEY.digest) is None
    assert thesis.read_text() == "years of work"


@pytest.mark.parametrize("name", ["artifacts", "staging", "scratch", "failed", "uses", MARKER])
def test_a_store_that_holds_a_link_empties_and_fills_nothing_elsewhere(
    name: str, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    build(LocalStore(root=str(place)))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / f"{KEY.digest}-old").write_text("years of work")
    shutil.rmtree(place / name) if name != MARKER else (place / name).unlink()
    (place / name).symlink_to(victim if name != MARKER else victim / "new")
    store = LocalStore(root=str(place), quota_gib=0)
    for attempt in (lambda: build(store), store.trim, lambda: store.delete(KEY.digest)):
        with suppress(StoreError):
            attempt()
    [problem] = store.problems()
    assert f"{place / name} is a link" in problem
    assert [path.name for path in victim.iterdir()] == [f"{KEY.digest}-old"]


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("odd", [os.mkfifo, endless, sparse])
def test_notes_of_others_that_have_no_end_are_not_read(
    odd: Callable[[Path], None], tmp_path: Path
) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    build(store)
    for name in ("quarantine", "artifacts"):
        entry = tmp_path / "store" / name / ("ab" * 32 + "-1" * (name == "quarantine"))
        entry.mkdir()
        odd(entry / "manifest.json")
        odd(entry / "reason.json")
    states = sorted(entry.state for entry in store.entries())
    assert states == ["complete", "quarantined", "quarantined"]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A directory that nobody can write to, the superuser included where that can be had."""
    place = tmp_path / "read-only"
    place.mkdir()
    if os.geteuid() != 0:
        place.chmod(0o500)
        yield place
        return
    mount(place, "ro")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def mount(place: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


@pytest.mark.parametrize("below", ["", "new"])
def test_a_root_that_cannot_be_written_is_a_problem(read_only: Path, below: str) -> None:
    store = LocalStore(root=str(read_only / below))
    [problem] = store.problems()
    assert "not writable" in problem
    with pytest.raises(StoreError):
        build(store)


# A disk without space


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    mount(place, "size=1m")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(out: Path) -> None:
    (out / "big").write_bytes(bytes(4 << 20))


def fill_without_saying_why(out: Path) -> None:
    with suppress(OSError):
        fill(out)
    raise RuntimeError("write failed")


@pytest.mark.parametrize("make", [fill, fill_without_saying_why])
def test_a_full_disk_is_named_and_leaves_nothing_torn(
    small_disk: Path, make: Callable[[Path], None]
) -> None:
    store = LocalStore(root=str(small_disk / "cache"))
    with pytest.raises(StoreError, match=r"disk full: .*cache has \d+ bytes .* free") as caught:
        build(store, make)
    assert isinstance(caught.value.__cause__, OSError)
    assert store.find(KEY.digest) is None
    assert [entry.state for entry in store.entries()] == ["failed"]
    assert list(small_disk.rglob("big")) == []
    assert build(store)


def test_a_disk_that_is_full_before_the_first_file_is_named(small_disk: Path) -> None:
    store = LocalStore(root=str(small_disk / "cache"))
    build(store)
    for name in ("ballast", "rest"):
        with (small_disk / name).open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
    with pytest.raises(StoreError, match="disk full"):
        build(store, force=True)
    assert store.find(KEY.digest)
    (small_disk / "ballast").unlink()
    assert build(store, force=True)


# Looking around


def test_the_newest_of_a_name_is_told_and_a_damaged_one_passed_over(store: LocalStore) -> None:
    keys = [BuildKey(fields={"version": number}) for number in range(3)]
    for key in keys:
        store.build(key, format=Format.ONNX, name="mlp onnx", make=weights)
    flip_a_byte(Path(store.root, "artifacts", keys[2].digest, "files/weights/w.bin"))
    newest = store.newest("mlp onnx")
    assert newest is not None
    assert newest.fields == {"version": 1}
    assert store.newest("another") is None


def test_entries_come_newest_first(store: LocalStore) -> None:
    for number in range(3):
        key = BuildKey(fields={"version": number})
        store.build(key, format=Format.ONNX, name="mlp", make=weights)
    assert [entry.fields["version"] for entry in store.entries()] == [2, 1, 0]


def test_a_store_that_was_never_used_is_empty(store: LocalStore) -> None:
    assert store.entries() == []
    assert store.newest("mlp") is None
    assert store.find(KEY.digest) is None
    assert not Path(store.root).exists()


def test_deleting_takes_everything_of_that_key_and_nothing_else(store: LocalStore) -> None:
    other = BuildKey(fields={"other": True})
    store.build(other, format=Format.ONNX, name="other", make=weights)
    build(store)
    damage_byte(entry_directory(store))
    build(store)
    (store.scratch(KEY.digest) / "compiled").write_text("")
    store.delete(KEY.digest)
    assert [entry.name for entry in store.entries()] == ["other"]
    left = [path for path in Path(store.root).rglob("*") if KEY.digest in path.name]
    assert [path.suffix for path in left] == [".lock"]


def test_only_what_exists_is_deleted(store: LocalStore) -> None:
    build(store)
    store.scratch("0" * 64)
    with pytest.raises(StoreError, match="there is no 0000"):
        store.delete("0" * 64)
