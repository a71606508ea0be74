"""Many machines at one bucket, some of which die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.lease import try_lease
from benchorch.stores.s3 import S3Store
from support.s3 import Bucket
from support.slices import only
from support.waiting import until, wait_for

KEY = BuildKey(fields={"model": "mlp"})
LEASE = f"leases/{KEY.digest}"
MANIFEST = f"artifacts/{KEY.digest}/manifest.json"
SIZE = 9 * 2**20  # more than goes into one part

PROLOGUE = f"""
import os, signal, sys, threading, time
from pathlib import Path
from benchorch.domain.artifact import BuildKey, Format
from benchorch.stores.objects import Objects
from benchorch.stores.s3 import S3Store

url, root = os.environ["TEST_BUCKET_URL"], Path(sys.argv[1])
key = BuildKey(fields={KEY.fields!r})

def machine(name, **options):
    return S3Store(url=url, root=str(root / name), **options)

def build(store, make, **options):
    return store.build(key, format=Format.ONNX, name="mlp", make=make, **options)

def write(out):
    (out / "big").write_bytes(b"x" * {SIZE})
    (out / "small").write_bytes(b"y")

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""

Start = Callable[..., "subprocess.Popen[str]"]


def write(out: Path) -> None:
    (out / "big").write_bytes(b"x" * SIZE)
    (out / "small").write_bytes(b"y")


def build(store: S3Store) -> bool:
    artifact, fresh = store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    assert {path.name: path.stat().st_size for path in artifact.path.iterdir()} == {
        "big": SIZE,
        "small": 1,
    }
    return fresh


def unfinished(bucket: Bucket) -> list[object]:
    return bucket.s3.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


RACE = """
def slow(out):
    (out / "small").write_bytes(b"y")
    with open(root / "builds", "a") as log:
        log.write("built\\n")
    time.sleep(0.5)

def run(name):
    artifact, fresh = build(machine(name, lease_s=60), slow)
    size = (artifact.path / "small").stat().st_size
    print(f"{fresh} {size}\\n", end="", flush=True)  # in one piece: four threads print

threads = [threading.Thread(target=run, args=(f"{sys.argv[2]}-{n}",)) for n in range(4)]
(root / f"ready-{sys.argv[2]}").touch()
while not (root / "go").exists():
    time.sleep(0.005)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_of_a_dozen_machines_one_builds(start: Start, tmp_path: Path, bucket: Bucket) -> None:
    processes = [start(RACE, str(number)) for number in range(3)]
    for number in range(3):
        wait_for(tmp_path / f"ready-{number}")
    (tmp_path / "go").touch()
    ended = [process.communicate(timeout=500) for process in processes]
    answers = [line for out, _ in ended for line in out.splitlines()]
    assert sorted(answers) == ["False 1"] * 11 + ["True 1"], "".join(err for _, err in ended)
    assert (tmp_path / "builds").read_text() == "built\n"
    assert bucket.names("leases/") == []


DEATHS = {
    "while building": "build(machine('a'), lambda out: write(out) or die())",
    "before the first file": """
Objects.upload = lambda *_: die()
build(machine('a'), write)
""",
    "in the middle of a file": """
store = machine('a')
client = store.objects._client()
client.meta.events.register('before-call.s3.CompleteMultipartUpload', lambda **_: die())
build(store, write)
""",
    "before the manifest": """
real = Objects.write
def write_object(self, name, *rest, **options):
    return die() if name.endswith('manifest.json') else real(self, name, *rest, **options)
Objects.write = write_object
build(machine('a'), write)
""",
    "before the lease is given back": """
Objects.remove = lambda *_, **__: die()
build(machine('a'), write)
""",
}


# Nothing is to be seen of either of the others, as in the middle of a file.
@pytest.mark.parametrize(
    "moment",
    only(lambda moment: moment not in ("while building", "before the first file"), DEATHS),
)
def test_a_builder_that_dies_leaves_a_whole_entry_or_none(
    start: Start, bucket: Bucket, moment: str
) -> None:
    process = start(DEATHS[moment])
    assert process.wait(timeout=400) == -signal.SIGKILL, process.communicate()[1]
    published = moment == "before the lease is given back"
    assert (MANIFEST in bucket.names()) is published
    assert bool(unfinished(bucket)) is (moment == "in the middle of a file")
    assert bucket.names("leases/") == [LEASE]
    if not published:
        assert bucket.machine("b").find(KEY.digest) is None
        bucket.age(LEASE, 100)

    assert build(bucket.machine("b")) is not published
    assert build(bucket.machine("c")) is False
    assert unfinished(bucket) == []
    assert bucket.names("leases/") == ([LEASE] if published else [])
    assert bucket.names("quarantine/") == []
    assert build(bucket.machine("a")) is False  # the dead one's own disk is usable, too


def test_who_waits_takes_the_place_of_a_dead_builder_by_itself(
    start: Start, tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    process = start("build(machine('a'), lambda out: ((root / 'in').touch(), die()))")
    wait_for(tmp_path / "in")
    process.wait(timeout=400)

    def expire() -> None:
        if until(lambda: "waiting for it" in caplog.text, 400):
            bucket.age(LEASE, 100)

    expiring = threading.Thread(target=expire)
    expiring.start()
    assert build(bucket.machine("b"))
    expiring.join()
    assert "waiting for it" in caplog.text
    assert "is gone" in caplog.text


def test_a_builder_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on(
    start: Start, tmp_path: Path, bucket: Bucket
) -> None:
    still = """
def stop(out):
    write(out)
    (root / 'in').touch()
    os.kill(os.getpid(), signal.SIGSTOP)
print(build(machine('a', lease_s=1), stop)[1])
"""
    process = start(still)
    wait_for(tmp_path / "in")
    assert build(bucket.machine("b", lease_s=1))
    kept = bucket.read(MANIFEST)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=400)[0] == "True\n"
    assert bucket.read(MANIFEST) == kept  # who came first counts
    assert build(bucket.machine("c")) is False


@pytest.mark.slow  # it waits; `test_lease` takes no lease from the living either
def test_a_slow_builder_keeps_its_lease(bucket: Bucket) -> None:
    store, other = bucket.machine("a", lease_s=2), bucket.machine("b", lease_s=2)
    answers: list[bool] = []

    def slow(out: Path) -> None:
        waiting.start()
        time.sleep(6)  # longer than a lease lasts that nobody renews
        write(out)

    waiting = threading.Thread(target=lambda: answers.append(build(other)))
    assert store.build(KEY, format=Format.ONNX, name="mlp", make=slow)[1]
    waiting.join()
    assert answers == [False]


@pytest.mark.parametrize("skew", [timedelta(hours=-3), timedelta(hours=3), timedelta(days=400)])
def test_a_clock_that_is_wrong_takes_no_lease_from_the_living_and_leaves_none_to_the_dead(
    bucket: Bucket, skew: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the service's clock that is moved here; to it, ours is the one that is wrong."""
    from moto.core.utils import utcnow
    from werkzeug.serving import WSGIRequestHandler

    plain = WSGIRequestHandler.date_time_string
    monkeypatch.setattr("moto.s3.models.utcnow", lambda: utcnow() + skew)
    monkeypatch.setattr(
        WSGIRequestHandler,
        "date_time_string",
        lambda self, timestamp=None: plain(self, (datetime.now(UTC) + skew).timestamp()),
    )
    objects = bucket.machine("a").objects
    assert try_lease(objects, KEY.digest, 60)
    written = bucket.s3.head_object(Bucket=bucket.name, Key=f"store/{LEASE}")["LastModified"]
    assert abs(written - datetime.now(UTC) - skew) < timedelta(minutes=5)
    assert try_lease(objects, KEY.digest, 600) is None
    bucket.age(LEASE, 300)
    assert try_lease(objects, KEY.digest, 600) is None
    bucket.age(LEASE, 303)
    lease = try_lease(objects, KEY.digest, 600)
    assert lease is not None
    assert lease.taken_over


def test_what_was_put_there_says_who_built_it_to_nobody(bucket: Bucket) -> None:
    build(bucket.machine("a"))
    said = json.dumps(bucket.manifest(KEY.digest))
    assert os.uname().nodename not in said
    assert str(Path(bucket.machine("a").root).parent) not in said
