from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.readers import source as source_module
from benchorch.trace.readers.source import TraceFile


def read_all(path: Path, size: int = 1000) -> tuple[bytes, dict[str, int]]:
    with TraceFile(path) as source:
        pieces = list(iter(lambda: source.read(size), b""))
        assert all(len(piece) <= size for piece in pieces)
        return b"".join(pieces), dict(source.repairs)


def test_members_of_a_packed_file_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(b"one" * 5000) + gzip.compress(b"two") + b"\0" * 64)
    assert read_all(path) == (b"one" * 5000 + b"two", {})


def test_a_packed_file_that_breaks_off_gives_what_came(tmp_path: Path) -> None:
    path = tmp_path / "t"
    text = bytes(range(256)) * 2000
    path.write_bytes(gzip.compress(text)[:-500])
    found, repairs = read_all(path)
    assert text.startswith(found)
    assert len(found) > 1000
    assert repairs == {"truncated gzip": 1}


def test_a_packed_file_is_damaged_from_some_place_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(b"one") + gzip.compress(b"two")[:8] + b"\xff" * 100)
    assert read_all(path) == (b"one", {"damaged gzip": 1})


def test_one_may_go_on_at_a_later_place(tmp_path: Path) -> None:
    text = bytes(range(256)) * 20
    for name, content in (("plain", text), ("packed", gzip.compress(text))):
        path = tmp_path / name
        path.write_bytes(content)
        with TraceFile(path) as source:
            source.skip_to(300)
            assert source.read(3) == text[300:303]
            source.skip_to(1000)
            assert source.read(2) == text[1000:1002]


def test_a_file_that_unpacks_to_too_much_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(b"\0" * 100_000))
    with TraceFile(path, limit_bytes=50_000) as source:
        source.read(40_000)
        with pytest.raises(TraceError, match="unpacks to"):
            source.read(40_000)


def test_a_bomb_is_rejected_by_its_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_ANY_BYTES", 10_000)
    bomb, sound = tmp_path / "bomb.json.gz", tmp_path / "sound.json.gz"
    bomb.write_bytes(gzip.compress(b" " * 5_000_000, mtime=0))
    sound.write_bytes(gzip.compress(b"".join(b"%d," % i for i in range(10_000)), mtime=0))
    with TraceFile(bomb) as file, pytest.raises(TraceError, match="unpacks to more than"):
        list(iter(partial(file.read, 100_000), b""))
    with TraceFile(sound) as file:
        assert len(file.read(100_000)) == 48_890
