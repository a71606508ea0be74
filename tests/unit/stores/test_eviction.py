"""What a store keeps under a quota, and what it never drops."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchorch.domain.artifact import BuildKey, Format
from benchorch.locks import locked
from benchorch.stores import manifest
from benchorch.stores.local import LocalStore
from support.waiting import wait_for

MIB = 2**20
Start = Callable[..., "subprocess.Popen[str]"]

PROLOGUE = f"""
import sys, time
from pathlib import Path
from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.local import LocalStore

root = Path(sys.argv[1])

def obtain(store, name):
    key = BuildKey(fields={{"name": name}})
    write = lambda out: (out / "file").write_bytes(bytes({MIB}))
    return store.build(key, format=Format.ONNX, name=name, make=write)

def announce(name):
    (root / name).touch()

def wait_for(name):
    while not (root / name).exists():
        time.sleep(0.005)
"""


def store(tmp_path: Path, mib: float | None = None) -> LocalStore:
    return LocalStore(root=str(tmp_path / "cache"), quota_gib=None if mib is None else mib / 1024)


def key(name: str) -> BuildKey:
    return BuildKey(fields={"name": name})


def obtain(of: LocalStore, name: str) -> bool:
    def write(out: Path) -> None:
        (out / "file").write_bytes(bytes(MIB))

    return of.build(key(name), format=Format.ONNX, name=name, make=write)[1]


def age(of: LocalStore, name: str, seconds: float) -> None:
    """As if it had been used that long ago."""
    used = Path(of.root, "artifacts", key(name).digest, "used")
    used.touch()
    then = used.stat().st_mtime - seconds
    os.utime(used, (then, then))


def kept(of: LocalStore) -> set[str]:
    return {entry.name for entry in of.entries() if entry.state == "complete"}


def test_without_a_quota_nothing_is_dropped(tmp_path: Path) -> None:
    mine = store(tmp_path)
    obtain(mine, "a")
    age(mine, "a", 1e6)
    assert mine.trim() == []
    assert kept(mine) == {"a"}


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    mine = store(tmp_path, 2.5)
    for number, name in enumerate("abcd"):
        obtain(mine, name)
        age(mine, name, 100 - number)
    assert mine.find(key("a").digest) is not None  # used again, and so the newest
    assert set(mine.trim()) == {key("b").digest, key("c").digest}
    assert kept(mine) == {"a", "d"}
    assert mine.trim() == []


def test_of_what_is_dropped_it_is_remembered_that_it_was_built(tmp_path: Path) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "a")
    scratch = mine.scratch(key("a").digest)
    (scratch / "cache").write_bytes(b"x")
    mine.trim()

    (entry,) = mine.entries()
    assert (entry.name, entry.state, entry.artifact.size_bytes) == ("a", "dropped", 0)
    assert entry.artifact.build_s > 0
    assert "quota" in entry.detail
    assert not scratch.exists()
    assert mine.find(key("a").digest) is None
    assert mine.newest("a") is None
    assert obtain(mine, "a")
    assert [entry.state for entry in mine.entries()] == ["complete"]


def test_an_eviction_by_a_process_that_can_open_no_more_files_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    mine = store(tmp_path, 0)
    for name in "ab":
        obtain(mine, name)
    with monkeypatch.context() as short:
        short.setattr(manifest, "read_small", refused)
        assert set(mine.trim()) == {key("a").digest, key("b").digest}
    assert not any((tmp_path / "cache" / "staging").iterdir())


def test_a_failed_builds_cache_makes_room_first(tmp_path: Path) -> None:
    mine = store(tmp_path, 1.5)
    obtain(mine, "a")
    orphan = mine.scratch(key("failed").digest)
    (orphan / "cache").write_bytes(bytes(MIB))
    mine.trim()
    assert kept(mine) == {"a"}
    assert not orphan.exists()


def test_what_is_found_while_the_store_is_in_use_stays_until_then(tmp_path: Path) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "old")
    age(mine, "old", 100)
    with mine.in_use():
        obtain(mine, "new")
        mine.trim()
        assert kept(mine) == {"new"}
    assert kept(mine) == set()


def test_what_is_found_or_built_after_the_clock_was_set_back_stays(tmp_path: Path) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "old")
    obtain(mine, "found")
    with mine.in_use():
        (use,) = Path(mine.root, "uses").glob("*.lock")
        later = use.stat().st_mtime + 60
        os.utime(use, (later, later))
        assert mine.find(key("found").digest)
        obtain(mine, "built")
        mine.trim()
        assert kept(mine) == {"found", "built"}
    assert kept(mine) == set()


def test_room_is_made_after_a_failure_too(tmp_path: Path) -> None:
    mine = store(tmp_path, 0)

    def fail() -> None:
        with mine.in_use():
            obtain(mine, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert kept(mine) == set()


def test_what_is_being_built_again_is_left_alone(tmp_path: Path) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "a")
    with locked(Path(mine.root, "locks", f"{key('a').digest}.lock")):
        assert mine.trim() == []
    assert kept(mine) == {"a"}


@pytest.mark.parametrize("quota", [-1.0, float("nan"), float("inf")])
def test_a_quota_that_is_none_is_refused(tmp_path: Path, quota: float) -> None:
    with pytest.raises(ValueError, match="quota_gib"):
        LocalStore(root=str(tmp_path), quota_gib=quota)


USER = """
store = LocalStore(root=str(root / "cache"))
with store.in_use():
    artifact = store.find(BuildKey(fields={"name": "a"}).digest)
    announce("found")
    wait_for("go")
    print(len((artifact.path / "file").read_bytes()))
"""


def test_no_other_process_drops_what_one_is_using(tmp_path: Path, start: Start) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "a")
    age(mine, "a", 100)
    user = start(USER)
    wait_for(tmp_path / "found")
    obtain(mine, "b")
    age(mine, "b", 100)

    assert mine.trim() == [key("b").digest]
    (tmp_path / "go").touch()

    assert user.communicate(timeout=400)[0] == f"{MIB}\n"
    assert mine.trim() == [key("a").digest]


def test_a_killed_user_holds_nothing(tmp_path: Path, start: Start) -> None:
    mine = store(tmp_path, 0)
    obtain(mine, "a")
    user = start(USER)
    wait_for(tmp_path / "found")
    user.send_signal(signal.SIGKILL)
    user.wait(timeout=400)
    assert mine.trim() == [key("a").digest]


def test_looking_at_who_uses_a_store_leaves_nothing_behind(tmp_path: Path) -> None:
    gone = tmp_path / "1-a.lock"
    with pytest.raises(FileNotFoundError), locked(gone, wait=False, make=False):
        pass
    assert not gone.exists()


MANY = """
store = LocalStore(root=str(root / "cache"), quota_gib=2.5 / 1024)
announce(f"ready-{sys.argv[2]}")
wait_for("go")
for turn in range(12):
    with store.in_use():
        artifact, _ = obtain(store, f"n{(turn * 7 + int(sys.argv[2])) % 5}")
        time.sleep(0.01)
        again = store.find(artifact.key)
        assert again == artifact, again
        assert len((artifact.path / "file").read_bytes()) == 2**20
print("whole")
"""


def test_processes_that_drop_each_others_artifacts_never_lose_one_in_use(
    tmp_path: Path, start: Start
) -> None:
    users = [start(MANY, str(number)) for number in range(4)]
    for number in range(4):
        wait_for(tmp_path / f"ready-{number}")
    (tmp_path / "go").touch()
    assert [user.communicate(timeout=120)[0] for user in users] == ["whole\n"] * 4

    mine = store(tmp_path, 2.5)
    mine.trim()
    assert len(kept(mine)) == 2
    assert {entry.state for entry in mine.entries()} <= {"complete", "dropped"}
    assert list(Path(mine.root, "staging").iterdir()) == []
    assert list(Path(mine.root, "uses").glob("*.lock")) == []
