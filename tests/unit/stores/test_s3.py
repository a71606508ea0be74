"""Two machines and one bucket: what one has built the other finds, and believes nothing of."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import TokenRetrievalError

from benchorch.cli.commands import cache
from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import BuildError, StoreError
from benchorch.stores import objects as objects_module
from benchorch.stores.objects import Objects, Unreachable
from benchorch.stores.s3 import S3Store
from support.aws_emulator.traffic import Fault
from support.odd_server import Answer, odd_server
from support.s3 import Bucket
from support.slices import only

KEY = BuildKey(fields={"model": "mlp", "opset": 20})
MANIFEST = f"artifacts/{KEY.digest}/manifest.json"
LEASE = f"leases/{KEY.digest}"
CONTENT = bytes(range(256)) * 40


def weights(out: Path) -> None:
    (out / "weights").mkdir()
    (out / "weights" / "w.bin").write_bytes(CONTENT)
    (out / "config.json").write_text("{}")
    (out / "same.bin").write_bytes(CONTENT)


def refuse(out: Path) -> None:
    raise AssertionError("this build was to be found, not made")


def build(
    store: S3Store, make: Callable[[Path], None] = weights, key: BuildKey = KEY, **options: bool
) -> tuple[Artifact, bool]:
    return store.build(key, format=Format.ONNX, name="mlp onnx", make=make, **options)


_ENTRY: dict[str, bytes] = {}


def put_entry(bucket: Bucket) -> None:
    """What a build by another machine leaves there; made once, as it has nothing of its bucket."""
    if not _ENTRY:
        build(bucket.machine("a"))
        _ENTRY.update({name: bucket.read(name) for name in bucket.names()})
    bucket.fill(_ENTRY)


def whole(artifact: Artifact | None) -> bool:
    assert artifact is not None
    files = {"weights/w.bin": CONTENT, "config.json": b"{}", "same.bin": CONTENT}
    return files == {
        path.relative_to(artifact.path).as_posix(): path.read_bytes()
        for path in artifact.path.rglob("*")
        if path.is_file()
    }


# One builds, all have it


def test_what_one_machine_built_another_finds_with_its_bytes(bucket: Bucket) -> None:
    built, fresh = build(bucket.machine("a"))
    found, rebuilt = build(bucket.machine("b"), refuse)
    assert (fresh, rebuilt) == (True, False)
    assert whole(found)
    assert found.path != built.path
    assert (found.key, found.format, found.build_s) == (built.key, built.format, built.build_s)


def test_what_was_fetched_once_is_found_without_the_bucket(bucket: Bucket) -> None:
    put_entry(bucket)
    other = bucket.machine("b")
    assert whole(other.find(KEY.digest))
    for name in bucket.names():
        bucket.remove(name)
    before = sum(bucket.emulator.traffic.counts.values())
    assert whole(other.find(KEY.digest))
    assert sum(bucket.emulator.traffic.counts.values()) == before


def test_files_lie_under_their_digests_and_equal_ones_once(bucket: Bucket) -> None:
    build(bucket.machine("a"))
    digests = {file["sha256"] for file in bucket.manifest(KEY.digest)["files"]}
    files = f"artifacts/{KEY.digest}/files/"
    assert set(bucket.names(files)) == {f"{files}{digest}" for digest in digests}
    assert len(digests) == 2


def test_a_lease_is_given_back(bucket: Bucket) -> None:
    build(bucket.machine("a"))
    with pytest.raises(AssertionError):
        build(bucket.machine("a"), refuse, force=True)
    assert bucket.names("leases/") == []


def test_a_forced_build_replaces_what_the_others_find(bucket: Bucket) -> None:
    build(bucket.machine("a"))
    build(bucket.machine("b"), lambda out: (out / "new").write_text("new") and None, force=True)
    found = bucket.machine("c").find(KEY.digest)
    assert found
    assert [path.name for path in found.path.iterdir()] == ["new"]


def test_a_failure_stays_where_it_happened(bucket: Bucket) -> None:
    def fail(out: Path) -> None:
        raise BuildError("opset 3 is too old")

    with pytest.raises(BuildError):
        build(bucket.machine("a"), fail)
    assert [entry.state for entry in bucket.machine("a").entries()] == ["failed"]
    assert list(bucket.machine("b").entries()) == []
    assert bucket.names() == []
    assert build(bucket.machine("b"))[1]


def test_a_quota_is_the_directorys_and_what_made_room_comes_again(bucket: Bucket) -> None:
    store = bucket.machine("a", quota_gib=0)
    build(store)
    assert list(store.trim()) == [KEY.digest]
    assert whole(store.find(KEY.digest))


def test_the_newest_of_a_name_is_the_newest_of_all_machines(bucket: Bucket) -> None:
    one, other = bucket.machine("a"), bucket.machine("b")
    build(one)
    later = BuildKey(fields={"version": 2})
    build(other, key=later)
    for store in (one, other, bucket.machine("c")):
        newest = store.newest("mlp onnx")
        assert newest is not None
        assert newest.artifact.key == later.digest
        assert whole(newest.artifact)
    assert bucket.machine("c").newest("mlp") is None


def test_deleting_leaves_nothing_here_or_there(bucket: Bucket) -> None:
    one, other = bucket.machine("a"), bucket.machine("b")
    build(one)
    other.delete(KEY.digest)
    assert bucket.names() == []
    one.delete(KEY.digest)
    assert one.find(KEY.digest) is None
    with pytest.raises(StoreError, match="there is no"):
        one.delete(KEY.digest)


def test_what_is_being_built_elsewhere_is_not_deleted(bucket: Bucket) -> None:
    put_entry(bucket)
    bucket.put(LEASE, b'{"holder": "somebody"}')
    with pytest.raises(StoreError, match="being built now"):
        bucket.machine("b").delete(KEY.digest)
    assert whole(bucket.machine("b").find(KEY.digest))


def test_what_others_have_is_listed_and_explained(bucket: Bucket) -> None:
    build(bucket.machine("a"))
    other = bucket.machine("b")
    [listed] = json.loads(
        json.dumps(cache.run.commands["list"].reply([], {cache.STORE: other}).data)
    )
    assert listed["remote"] == f"{bucket.url}/artifacts/{KEY.digest}"
    assert listed["artifact"]["size_bytes"] == 2 * len(CONTENT) + 2
    assert " s3 " in cache.run.commands["list"].reply([], {cache.STORE: other}).text.splitlines()[1]
    assert (
        " here+s3 "
        in cache.run.commands["list"]
        .reply([], {cache.STORE: bucket.machine("a")})
        .text.splitlines()[1]
    )
    assert (
        listed["remote"]
        in cache.run.commands["show"].reply([KEY.digest[:8]], {cache.STORE: other}).text
    )
    explained = cache.run.commands["explain"].reply([KEY.digest[:8]], {cache.STORE: other})
    assert explained.data["hit"] is True
    assert cache.run.commands["location"].reply([], {cache.STORE: other}).data["url"] == bucket.url


# Entries that nobody should believe


def poison_bytes(bucket: Bucket) -> None:
    name = next(name for name in bucket.names("artifacts/") if len(bucket.read(name)) > 5000)
    bucket.put(name, CONTENT[::-1])


def poison_truncated(bucket: Bucket) -> None:
    name = next(name for name in bucket.names("artifacts/") if len(bucket.read(name)) > 5000)
    bucket.put(name, CONTENT[:-1])


def poison_missing(bucket: Bucket) -> None:
    bucket.remove(next(name for name in bucket.names("artifacts/") if "/files/" in name))


def poison_key(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said.update(key="0" * 64))


def poison_fields(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["fields"].update(opset=21))


def poison_state(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said.update(state="failed"))


def poison_torn(bucket: Bucket) -> None:
    bucket.put(MANIFEST, bucket.read(MANIFEST)[:40])


def poison_empty(bucket: Bucket) -> None:
    bucket.put(MANIFEST, b"")


def poison_nonsense(bucket: Bucket) -> None:
    bucket.put(MANIFEST, b"[" * 100_000)


def poison_size(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["files"][0].update(size_bytes=2**62))


def poison_negative_size(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["files"][0].update(size_bytes=-1))


def poison_digest(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["files"][0].update(sha256="../" * 21 + "x"))


def poison_twice(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["files"].append(said["files"][0]))


def poison_file_and_directory(bucket: Bucket) -> None:
    bucket.rewrite(KEY.digest, lambda said: said["files"][0].update(path="weights/w.bin/x"))


def poison_huge_manifest(bucket: Bucket) -> None:
    bucket.put(MANIFEST, bucket.read(MANIFEST) + b" " * 2**24)


POISONS = [value for name, value in sorted(globals().items()) if name.startswith("poison_")]


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__)
def test_a_poisoned_entry_is_refused_and_set_aside(
    bucket: Bucket, poison: Callable[[Bucket], None]
) -> None:
    put_entry(bucket)
    poison(bucket)
    other = bucket.machine("b")
    assert other.find(KEY.digest) is None
    assert MANIFEST not in bucket.names()
    aside = bucket.names("quarantine/")
    [note] = [name for name in aside if name.endswith("reason.json")]
    assert json.loads(bucket.read(note))["reason"]
    assert [entry.state for entry in other.entries()] == ["quarantined"]
    assert list(Path(other.root, "staging").iterdir()) == []


# What is left of each: files that are wrong, too short or absent, and those of a torn manifest.
@pytest.mark.parametrize(
    "poison",
    only([poison_bytes, poison_truncated, poison_missing, poison_torn], POISONS),
    ids=lambda poison: poison.__name__,
)
def test_a_poisoned_entry_is_built_again(bucket: Bucket, poison: Callable[[Bucket], None]) -> None:
    put_entry(bucket)
    poison(bucket)
    other = bucket.machine("b")
    rebuilt, fresh = build(other)
    assert fresh
    assert whole(rebuilt)
    assert whole(bucket.machine("c").find(KEY.digest))
    assert list(Path(other.root, "staging").iterdir()) == []


PATHS = ["../../x", "/x", "a/../../x", "", ".", "a//b", "..", "nul\0", "n" * 300, "../files2/x"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_elsewhere_is_never_written(
    bucket: Bucket, path: str, tmp_path: Path
) -> None:
    put_entry(bucket)
    bucket.rewrite(KEY.digest, lambda said: said["files"][0].update(path=path))
    before = {found for found in tmp_path.rglob("*") if not found.is_relative_to(tmp_path / "b")}
    other = bucket.machine("b")
    assert other.find(KEY.digest) is None
    assert not any(found.is_file() for found in Path(other.root, "artifacts").rglob("*"))
    after = {found for found in tmp_path.rglob("*") if not found.is_relative_to(tmp_path / "b")}
    assert before == after
    assert "quarantined" in [entry.state for entry in other.entries()]


def test_an_object_that_no_disk_has_room_for_is_left_where_it_is(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_entry(bucket)
    other = bucket.machine("b")
    monkeypatch.setattr("benchorch.stores.remote.free_bytes", lambda path: 100)
    assert other.find(KEY.digest) is None
    assert "10240 bytes" in caplog.text
    assert bucket.names("quarantine/") == []
    assert build(other)[1]


def test_links_and_pickles_are_bytes_like_any_others(bucket: Bucket, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    put_entry(bucket)
    for number, name in enumerate(bucket.names("artifacts/")):
        bucket.put(name, pickle.dumps(Trap()))
        assert bucket.machine(f"m{number}").find(KEY.digest) is None
        put_entry(bucket)
    with pytest.raises(StoreError, match="not a plain file"):
        build(
            bucket.machine("c"), lambda out: (out / "link").symlink_to(tmp_path) or None, force=True
        )
    assert not (tmp_path / "sprung").exists()
    pickle.loads(pickle.dumps(Trap()))
    assert (tmp_path / "sprung").exists()  # it was a real one


def test_a_name_that_lists_what_is_not_its_own_finds_nothing(bucket: Bucket) -> None:
    put_entry(bucket)
    [listed] = bucket.names("names/")
    bucket.put(listed.replace(KEY.digest, "0" * 64), b"")
    bucket.put(listed.replace(KEY.digest, "../../x"), b"")
    other = BuildKey(fields={"other": 1})
    bucket.machine("a").build(other, format=Format.ONNX, name="another", make=weights)
    bucket.put(listed.replace(KEY.digest, other.digest), b"")
    newest = bucket.machine("b").newest("mlp onnx")
    assert newest is not None
    assert newest.artifact.key == KEY.digest


def test_an_entry_that_was_replaced_meanwhile_is_not_set_aside(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_entry(bucket)
    poison_bytes(bucket)
    other = bucket.machine("b")
    real = Objects.download

    def and_meanwhile(self: Any, name: str, path: Path) -> bool:
        bucket.put(MANIFEST, bucket.read(MANIFEST) + b"\n")
        return real(self, name, path)

    monkeypatch.setattr(Objects, "download", and_meanwhile)
    assert other.find(KEY.digest) is None
    assert MANIFEST in bucket.names()
    assert bucket.names("quarantine/") == []


# A bucket that does not answer, or not to us


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_four_refusals_for_being_busy_are_not_noticed(
    bucket: Bucket, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    bucket.emulator.break_it(Fault(f"s3:{method}", "SlowDown", status=503, times=4))
    build(bucket.machine("a"))
    assert caplog.text == ""
    assert whole(bucket.machine("b").find(KEY.digest))


def test_a_machine_whose_clock_is_wrong_builds_for_itself_and_names_the_clock(
    bucket: Bucket, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket.emulator, "ahead_s", 3600.0)
    artifact, fresh = build(bucket.machine("a"))
    assert fresh
    assert whole(artifact)
    assert "RequestTimeTooSkewed" in caplog.text
    assert "timedatectl set-ntp true" in caplog.text
    assert "on this machine only" in caplog.text


def test_a_machine_whose_credentials_have_expired_builds_for_itself_and_names_the_remedy(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.emulator.break_it(Fault("s3:.*", "ExpiredToken", status=400))
    artifact, fresh = build(bucket.machine("a"))
    assert fresh
    assert whole(artifact)
    assert "ExpiredToken" in caplog.text
    assert "aws sso login" in caplog.text
    assert "on this machine only" in caplog.text


@pytest.mark.usefixtures("bucket")
def test_a_login_that_has_expired_is_like_a_token_that_has() -> None:
    expired = TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed")

    def ended(_: Any) -> None:
        raise expired

    with pytest.raises(Unreachable, match=r"Token has expired.*aws sso login"):
        Objects(name="lab", prefix="")._request(ended)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    once = {"mode": "standard", "total_max_attempts": 1}
    monkeypatch.setattr(objects_module, "_CLIENT", {**objects_module._CLIENT, "retries": once})


@pytest.mark.usefixtures("impatient")
def test_a_bucket_that_stays_away_costs_a_warning_and_no_build(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.emulator.break_it(Fault("s3:.*", "ServiceUnavailable", status=503))
    store = bucket.machine("a")
    before = sum(bucket.emulator.traffic.counts.values())
    artifact, fresh = build(store)
    assert fresh
    assert whole(artifact)
    assert whole(build(store, refuse)[0])
    assert [entry.name for entry in store.entries()] == ["mlp onnx"]
    assert store.newest("mlp onnx") is not None
    assert "on this machine only" in caplog.text
    assert "ServiceUnavailable" in caplog.text
    # Who was silent is not asked again at every turn.
    assert sum(bucket.emulator.traffic.counts.values()) == before + 1
    assert "a moment ago" in caplog.text


WHERE = list(
    itertools.product(
        ["s3:PUT", "s3:GET", "s3:HEAD", "s3:DELETE"],
        ["/manifest.json", "/files/", "/leases/", "/names/"],
    )
)
OF_A_BUILD = [*WHERE[:4], ("s3:GET", "/manifest.json"), ("s3:DELETE", "/leases/")]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("call", "path"), only(OF_A_BUILD, WHERE))
def test_wherever_it_goes_away_the_build_is_whole_and_nothing_partial_is_seen(
    bucket: Bucket, call: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects_module, "_PAUSE_S", 0.0)
    fault = Fault(call, "InternalError", status=500, path=path, times=10**6)
    bucket.emulator.break_it(fault)
    assert whole(build(bucket.machine("a"))[0])
    assert (fault.times < 10**6) is ((call, path) in OF_A_BUILD)
    bucket.emulator.traffic.faults.clear()
    bucket.remove(LEASE)
    assert whole(build(bucket.machine("b"))[0])
    assert whole(build(bucket.machine("a"), refuse)[0])


@pytest.mark.usefixtures("impatient")
def test_who_may_only_read_builds_for_itself(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.emulator.break_it(Fault("s3:PUT", "AccessDenied", status=403))
    assert whole(build(bucket.machine("a"))[0])
    assert "AccessDenied" in caplog.text
    assert bucket.names() == []


@pytest.mark.usefixtures("impatient")
def test_who_may_not_read_is_told_so(bucket: Bucket) -> None:
    bucket.emulator.break_it(Fault("s3:GET", "AccessDenied", status=403))
    with pytest.raises(StoreError, match="get-caller-identity"):
        build(bucket.machine("a"))


def test_a_denial_that_hides_an_absence_is_a_miss(bucket: Bucket) -> None:
    denial = Fault("s3:GET", "AccessDenied", status=403, path="/manifest.json")
    bucket.emulator.break_it(denial)
    assert bucket.machine("a").find(KEY.digest) is None


def test_a_bucket_that_is_not_there_is_named_with_what_to_do(
    bucket: Bucket, tmp_path: Path
) -> None:
    store = S3Store(url="s3://nowhere-at-all/store", root=str(tmp_path / "a"))
    for ask in (lambda: build(store), lambda: build(store, force=True), store.entries):
        with pytest.raises(StoreError, match=r"no bucket 'nowhere-at-all'.*make provision"):
            ask()


def test_missing_credentials_are_named_with_what_to_do(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    with pytest.raises(StoreError, match=r"credentials.*aws sts get-caller-identity"):
        build(bucket.machine("a"))


@pytest.mark.parametrize(
    "url", ["bucket/x", "http://bucket", "s3://", "s3://B", "s3://ab", "s3://bucket?x", "???"]
)
def test_an_address_that_names_no_bucket_is_a_problem_before_anybody_is_asked(
    tmp_path: Path, url: str
) -> None:
    store = S3Store(url=url, root=str(tmp_path / "a"))
    [problem] = store.problems()
    assert repr(url) in problem
    assert "s3://bucket/prefix" in problem
    with pytest.raises(StoreError, match="names no bucket"):
        store.find(KEY.digest)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/", "s3://my.bucket-1/a/b/"])
def test_an_address_may_have_any_prefix_or_none(tmp_path: Path, url: str) -> None:
    assert list(S3Store(url=url, root=str(tmp_path / "a")).problems()) == []


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda objects: objects.write("x", b""), {}),
        (lambda objects: objects.read("x", 9), {"Last-Modified": "Sun, 29 Nov 2026 17:15:08 GMT"}),
        (lambda objects: objects.read("x", 9), {"ETag": '"1"'}),
    ],
    ids=["a write without an ETag", "a read without an ETag", "a read without a date"],
)
def test_a_success_that_lacks_what_the_store_needs_is_shown(
    call: Callable[[Objects], object], said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with odd_server() as server:
        server.respond = lambda *_: Answer(body=b"", headers=said)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(Unreachable, match=r"response 200 about 'x' lacks '\w+'.*headers are"):
            call(Objects(name="lab", prefix="p"))


def test_a_success_whose_date_is_none_is_shown(bucket: Bucket) -> None:
    def spoil(parsed: dict[str, Any], **_: Any) -> None:
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = "a while ago"

    bucket.put("x", b"")
    objects = bucket.machine("a").objects
    objects._client().meta.events.register("after-call.s3.GetObject", spoil)
    with pytest.raises(Unreachable, match=r"response 200 about 'x' cannot be read: .*a while ago"):
        objects.read("x", 9)


def test_writes_without_an_etag_cost_a_warning_and_no_build(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    def forget(parsed: dict[str, Any], **_: Any) -> None:
        parsed.pop("ETag", None)

    store = bucket.machine("a")
    store.objects._client().meta.events.register("after-call.s3.PutObject", forget)
    artifact, fresh = build(store)
    assert fresh
    assert whole(artifact)
    assert "lacks 'ETag'" in caplog.text
    assert "on this machine only" in caplog.text


@pytest.mark.parametrize("lease_s", [0, -1, float("nan"), 1e9])
def test_a_lease_that_makes_no_sense_is_refused(tmp_path: Path, lease_s: float) -> None:
    with pytest.raises(ValueError, match="lease_s"):
        S3Store(url="s3://bucket", root=str(tmp_path), lease_s=lease_s)


@pytest.mark.parametrize("at_once", [0, 60], ids=["its head", "its body"])
@pytest.mark.parametrize("pause_s", [0.1, 60], ids=["trickles", "hangs"])
def test_a_bucket_that_hangs_or_trickles_is_given_up(
    pause_s: float, at_once: int, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries = {"mode": "standard", "total_max_attempts": 2}
    impatient = {**objects_module._CLIENT, "read_timeout": 0.5, "retries": retries}
    monkeypatch.setattr(objects_module, "_CLIENT", impatient)
    with odd_server() as server:
        server.respond = lambda *_: Answer(body=b" " * 500, pause_s=pause_s, at_once=at_once)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        objects = Objects(name="b", prefix="p")
        with pytest.raises(Unreachable, match=r"(?i)timed? ?out|trickle"):
            objects.read("x", 1000)
        with pytest.raises(Unreachable, match="a moment ago"):  # it is left alone for a while
            objects.read("x", 1000)
