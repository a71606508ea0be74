"""Who built an entry decides whether it is loaded as code."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchorch.config.user_settings import config_directory
from benchorch.domain.artifact import BuildKey, Format
from benchorch.errors import StoreError
from benchorch.stores import manifest, signing
from benchorch.stores.local import LocalStore
from benchorch.stores.manifest import SETTLE_S
from support.s3 import Bucket

KEY = BuildKey(fields={"model": "mlp"})
CODE = Format.AOTI_PACKAGE
BUILT_ELSEWHERE, BUILT_HERE = b"\x7fELF from elsewhere", b"\x7fELF"


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    signing._warn.cache_clear()
    yield
    signing._warn.cache_clear()


@pytest.fixture
def become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Turn this process into the user of another machine; its public key."""

    def other(name: str) -> str:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
        return signing.public_key()

    return other


def build(store, content: bytes, format: Format = CODE) -> tuple[bytes, bool]:
    def make(out: Path) -> None:
        (out / "model.so").write_bytes(content)

    artifact, built = store.build(KEY, format=format, name="mlp aoti", make=make)
    return (artifact.path / "model.so").read_bytes(), built


def forged(entry: Path, content: bytes) -> None:
    """What somebody does who may write here and has no key: a file with a note that it is sound."""
    from benchorch.domain.artifact import digest_of
    from benchorch.domain.codec import encode
    from benchorch.stores.manifest import read_manifest

    path = entry / "files" / "model.so"
    old = path.stat()
    assert len(content) == old.st_size
    path.write_bytes(content)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    now = path.stat()
    status = [now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns]
    note = {"manifest": digest_of(encode(read_manifest(entry))), "files": {"model.so": status}}
    (entry / "verified.json").write_text(json.dumps(note))


def test_a_verification_that_somebody_else_wrote_spares_no_comparison(tmp_path: Path) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    assert build(store, BUILT_HERE) == (BUILT_HERE, True)
    (entry,) = (tmp_path / "store" / "artifacts").iterdir()
    time.sleep(2 * SETTLE_S)
    forged(entry, b"\x7fEVI")
    assert build(store, BUILT_HERE) == (BUILT_HERE, True)


def test_files_are_compared_once_by_who_has_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    build(store, BUILT_HERE)
    read: list[Path] = []
    monkeypatch.setattr(manifest, "file_digest", lambda path: read.append(path) or "")
    assert build(store, BUILT_HERE) == (BUILT_HERE, False)
    assert not read


def trust(*keys: str) -> None:
    path = config_directory() / "settings.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"keys": keys}))


def test_a_machine_that_can_make_a_key_has_no_problem() -> None:
    assert signing.problem() == ""


def test_the_machines_key_is_made_once_and_readable_by_its_owner_alone() -> None:
    first = signing.public_key()
    path = config_directory() / "signing.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    signing._read.cache_clear()
    assert signing.public_key() == first
    assert list(path.parent.iterdir()) == [path]


def test_code_of_this_machine_is_found_and_names_its_key(tmp_path: Path) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    assert build(store, BUILT_HERE) == (BUILT_HERE, True)
    assert build(store, BUILT_ELSEWHERE) == (BUILT_HERE, False)
    assert store.entries()[0].signed_by == signing.public_key()


def test_code_from_another_machine_is_built_again_with_one_line_that_tells_why(
    tmp_path: Path, become: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    theirs = become("theirs")
    build(store, BUILT_ELSEWHERE)
    become("mine")
    assert store.find(KEY.digest, CODE) is None
    assert build(store, BUILT_HERE) == (BUILT_HERE, True)
    [line] = [record.getMessage() for record in caplog.records]
    assert theirs in line
    assert "is not a trusted key" in line


def test_a_key_in_the_users_settings_is_trusted(
    tmp_path: Path, become: Callable[[str], str]
) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    theirs = become("theirs")
    build(store, BUILT_ELSEWHERE)
    become("mine")
    trust(theirs)
    assert build(store, BUILT_HERE) == (BUILT_ELSEWHERE, False)


def test_data_from_another_machine_is_used(tmp_path: Path, become: Callable[[str], str]) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    become("theirs")
    build(store, BUILT_ELSEWHERE, Format.ONNX)
    become("mine")
    assert build(store, BUILT_HERE, Format.ONNX) == (BUILT_ELSEWHERE, False)


FORGERIES: dict[str, Callable[[dict], object]] = {
    "unsigned": lambda manifest: manifest.update(signature=None),
    "a wrong value": lambda manifest: manifest["signature"].update(value="00" * 64),
    "no hexadecimal digits": lambda manifest: manifest["signature"].update(value="zz"),
    "another time": lambda manifest: manifest.update(created_at="2020-01-01"),
    "called data": lambda manifest: manifest.update(format="onnx"),
    "of no known format": lambda manifest: manifest.update(format="text"),
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_entry_is_no_hit(
    tmp_path: Path, forged: Callable[[dict], object], become: Callable[[str], str]
) -> None:
    store = LocalStore(root=str(tmp_path / "store"))
    build(store, BUILT_HERE)
    path = Path(store.root, "artifacts", KEY.digest, "manifest.json")
    content = json.loads(path.read_text())
    forged(content)
    path.write_text(json.dumps(content))
    assert store.find(KEY.digest, CODE) is None


def test_other_files_under_a_good_signature_are_no_hit(tmp_path: Path) -> None:
    """The signature holds every file's digest, so a replaced manifest of files shows."""
    store = LocalStore(root=str(tmp_path / "store"))
    build(store, BUILT_HERE)
    entry = Path(store.root, "artifacts", KEY.digest)
    (entry / "files" / "model.so").write_bytes(b"\x7fEVL")
    (entry / "verified.json").unlink(missing_ok=True)
    assert store.find(KEY.digest, CODE) is None


def test_a_compilers_cache_that_came_with_a_directory_is_not_its_scratch(
    tmp_path: Path, become: Callable[[str], str]
) -> None:
    theirs = LocalStore(root=str(tmp_path / "their store"))
    become("theirs")
    (theirs.scratch(KEY.digest) / "generated.py").write_text("import os")
    shutil.copytree(theirs.root, tmp_path / "my store")
    become("mine")
    mine = LocalStore(root=str(tmp_path / "my store")).scratch(KEY.digest)
    assert list(mine.iterdir()) == []


def test_a_secret_that_machines_share_makes_them_one(
    tmp_path: Path, become: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the machines of a stack do, with the secret that lets them join it."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    monkeypatch.setenv(signing.VARIABLE, str(token))
    assert become("one") == become("other")
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [("x" * 40, 0o644, "chmod 600"), ("short", 0o600, "5 characters"), (None, 0, "No such file")],
)
def test_a_secret_that_is_none_is_a_problem_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, mode: int, why: str
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    monkeypatch.setenv(signing.VARIABLE, str(token))
    [problem] = LocalStore(root=str(tmp_path / "store")).problems()
    assert why in problem
    assert str(token) in problem
    with pytest.raises(StoreError, match="token"):
        signing.public_key()


def test_a_bucket_that_a_stranger_wrote_to_gives_no_code(
    bucket: Bucket, become: Callable[[str], str]
) -> None:
    become("stranger")
    build(bucket.machine("s"), BUILT_ELSEWHERE)
    become("mine")
    mine = bucket.machine("m")
    assert mine.find(KEY.digest, CODE) is None
    assert build(mine, BUILT_HERE) == (BUILT_HERE, True)
    assert build(mine, BUILT_ELSEWHERE) == (BUILT_HERE, False)


def test_machines_of_one_key_share_code_through_a_bucket(bucket: Bucket) -> None:
    build(bucket.machine("a"), BUILT_HERE)
    assert build(bucket.machine("b"), BUILT_ELSEWHERE) == (BUILT_HERE, False)
