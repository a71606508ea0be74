"""Several processes at one store, some of which die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchorch.domain.artifact import BuildKey, Format
from benchorch.errors import StoreError
from benchorch.locks import locked
from benchorch.stores import disk
from benchorch.stores.local import LocalStore
from support.waiting import wait_for

KEY = BuildKey(fields={"model": "mlp"})
CONTENT = b"x" * 50_000

PROLOGUE = f"""
import json, os, signal, sys, time
from pathlib import Path
from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.local import LocalStore

root = Path(sys.argv[1])
store = LocalStore(root=str(root / "cache"))
key = BuildKey(fields={KEY.fields!r})

def build(make, **options):
    return store.build(key, format=Format.ONNX, name="mlp", make=make, **options)

def write(out):
    (out / "a").write_bytes(b"x" * {len(CONTENT)})
    (out / "b").write_bytes(b"x" * {len(CONTENT)})

def announce(name):
    (root / name).touch()
"""


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(root=str(tmp_path / "cache"))


def write(out: Path) -> None:
    for name in "ab":
        (out / name).write_bytes(CONTENT)


def build(store: LocalStore) -> bool:
    return store.build(KEY, format=Format.ONNX, name="mlp", make=write)[1]


def staged(store: LocalStore) -> list[Path]:
    return list(Path(store.root, "staging").iterdir())


def assert_whole_or_absent(store: LocalStore) -> None:
    found = store.find(KEY.digest)
    if found:
        assert {path.name: path.read_bytes() for path in found.path.iterdir()} == {
            "a": CONTENT,
            "b": CONTENT,
        }
    assert {entry.state for entry in store.entries()} <= {"complete"}


def test_of_eight_builders_of_one_key_one_builds(start: Start, tmp_path: Path) -> None:
    script = """
def slow(out):
    write(out)
    with open(root / "builds", "a") as log:
        log.write("built\\n")
    time.sleep(0.3)

announce(f"ready-{sys.argv[2]}")
while not (root / "go").exists():
    time.sleep(0.005)
artifact, built = build(slow)
print(built, len((artifact.path / "b").read_bytes()))
"""
    builders = [start(script, str(number)) for number in range(8)]
    for number in range(8):
        wait_for(tmp_path / f"ready-{number}")
    (tmp_path / "go").touch()
    answers = sorted(builder.communicate(timeout=120)[0] for builder in builders)
    assert answers == ["False 50000\n"] * 7 + ["True 50000\n"]
    assert (tmp_path / "builds").read_text() == "built\n"


def test_a_killed_builder_blocks_nobody_and_leaves_nothing_to_see(
    start: Start, tmp_path: Path, store: LocalStore
) -> None:
    script = """
def stuck(out):
    write(out)
    announce("building")
    time.sleep(600)

build(stuck)
"""
    builder = start(script)
    wait_for(tmp_path / "building")
    assert store.find(KEY.digest) is None
    assert store.entries() == []
    with pytest.raises(StoreError, match="being built now"):
        store.delete(KEY.digest)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert len(staged(store)) == 1
    assert build(store)
    assert staged(store) == []
    assert_whole_or_absent(store)


def test_a_waiting_builder_takes_over_from_a_killed_one(start: Start, tmp_path: Path) -> None:
    script = """
def stuck(out):
    announce("building")
    time.sleep(600)

announce("started-" + sys.argv[2])
print(build(stuck if sys.argv[2] == "first" else write)[1])
"""
    first = start(script, "first")
    wait_for(tmp_path / "building")
    second = start(script, "second")
    wait_for(tmp_path / "started-second")
    first.send_signal(signal.SIGKILL)
    assert second.communicate(timeout=400)[0] == "True\n"


def test_a_worker_that_a_killed_builder_forked_blocks_nobody(
    start: Start, tmp_path: Path, store: LocalStore
) -> None:
    script = """
def forking(out):
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    (root / "child.new").write_text(str(child))
    (root / "child.new").rename(root / "child")
    time.sleep(600)

build(forking)
"""
    builder = start(script)
    wait_for(tmp_path / "child")
    child = int((tmp_path / "child").read_text())
    try:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        with locked(Path(store.root, "locks", f"{KEY.digest}.lock"), wait=False) as alone:
            assert alone
    finally:
        os.kill(child, signal.SIGKILL)


def test_another_keys_builder_is_left_alone(
    start: Start, tmp_path: Path, store: LocalStore
) -> None:
    script = """
def slow(out):
    write(out)
    announce("building")
    while not (root / "go").exists():
        time.sleep(0.005)

print(build(slow)[1])
"""
    builder = start(script)
    wait_for(tmp_path / "building")
    other = BuildKey(fields={"model": "another"})
    assert store.build(other, format=Format.ONNX, name="another", make=write)[1]
    (tmp_path / "go").touch()
    assert builder.communicate(timeout=400)[0] == "True\n"
    assert store.find(KEY.digest)


STEPS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "open")

# Forks of a process of its own: those of a worker, which has much in memory, take long.
MORTAL = f"""
def build_or_die(root, calls, force):
    left = iter(range(calls))

    def dying(real):
        def call(*arguments, **keywords):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **keywords)

        return call

    try:
        os.fsync = lambda descriptor: None  # as in every test
        for name in {STEPS}:
            setattr(os, name, dying(getattr(os, name)))
        LocalStore(root=root).build(key, format=Format.ONNX, name="mlp", make=write, force=force)
        os._exit(0)
    finally:
        os._exit(1)

for line in sys.stdin:
    root, calls, force = json.loads(line)
    child = os.fork()
    if not child:
        build_or_die(root, calls, force)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Forks a builder for every line that it reads."""
    command = [sys.executable, "-c", PROLOGUE + MORTAL, str(tmp_path_factory.mktemp("mortal"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def survives(mortal: subprocess.Popen[str], store: LocalStore, calls: int, *, force: bool) -> bool:
    """Whether a builder in a process of its own makes no more calls of the system than these."""
    assert mortal.stdin
    assert mortal.stdout
    mortal.stdin.write(json.dumps([store.root, calls, force]) + "\n")
    mortal.stdin.flush()
    code = int(mortal.stdout.readline())
    assert code in (0, -signal.SIGKILL)
    return code == 0


@pytest.mark.parametrize("force", [False, True], ids=["first", "rebuild"])
def test_a_builder_killed_at_any_step_leaves_a_whole_artifact_or_none(
    store: LocalStore, mortal: subprocess.Popen[str], force: bool
) -> None:
    survived, calls = False, 0
    while not survived:
        if force:
            build(store)
        survived = survives(mortal, store, calls, force=force)
        assert_whole_or_absent(store)
        assert not force or store.find(KEY.digest)
        build(store)
        assert_whole_or_absent(store)
        assert force or staged(store) == []
        store.delete(KEY.digest)
        calls += 1
    assert calls > 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two directories at once")
def test_readers_never_see_a_rebuild_half_done(start: Start, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    if not disk._exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system swaps no two directories at once")
    script = """
build(write)
announce("built")
for _ in range(40):
    build(write, force=True)
announce("done")
"""
    builder = start(script)
    wait_for(tmp_path / "built")
    store = LocalStore(root=str(tmp_path / "cache"))
    misses = 0
    while not (tmp_path / "done").exists():
        misses += store.find(KEY.digest) is None
    assert builder.wait(timeout=400) == 0
    assert misses == 0
    assert [entry.state for entry in store.entries()] == ["complete"]
