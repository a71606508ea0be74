"""Reading what may be no file: an error with a sentence, and no wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchorch.files import (
    as_bytes,
    open_regular,
    read_bytes,
    read_json,
    read_small,
    read_text,
    write_text,
)

NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("read", [open_regular, read_bytes, read_json, read_small, read_text])
def test_what_is_no_file_is_refused_at_once(
    kind: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    NO_FILES[kind](path)
    with pytest.raises(OSError, match="file") as refused:
        read(path)
    assert refused.value.strerror
    assert refused.value.filename == str(path)


def test_a_text_that_no_encoding_has_is_written_with_escapes(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "a\ud800b\u00e9")
    assert read_text(tmp_path / "file") == "a\\ud800b\u00e9"
    assert as_bytes("a\udcffb") == b"a\\udcffb"


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "x"
    with pytest.raises(OSError, match="link"):
        read_small(tmp_path / "link")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 2**40)
    for read in (read_small, read_bytes, read_json):
        with pytest.raises(OSError, match="MiB"):
            read(path)


@pytest.mark.parametrize("content", [b"[" * 10**6, b"{", b"\xff", b"", b"1" * 10**5])
def test_what_is_no_json_is_a_value_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        read_json(path)
