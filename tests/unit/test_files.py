"""Reading what may be no file: an error with a sentence, and no wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchorch.config.user_settings import UserSettings, config_directory, user_settings
from benchorch.errors import ConfigError
from benchorch.files import (
    as_bytes,
    home,
    open_regular,
    read_bytes,
    read_json,
    read_small,
    read_text,
    write_text,
)
from benchorch.frameworks.identity.start import Start
from benchorch.host.sandbox import model_caches
from benchorch.journal.registry import state_directory


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and a number that no user of this machine has."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TORCH_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)


def test_without_a_home_only_what_is_kept_in_it_is_refused(homeless: None) -> None:
    assert home() is None
    assert user_settings() == UserSettings()
    assert all(sign != "~" for sign, _ in Start().folders())
    for directory in (config_directory, state_directory):
        with pytest.raises(ConfigError, match=r"HOME is not set.*Set HOME, or XDG_.*, to a folder"):
            directory()


def test_a_folder_of_its_own_needs_no_home(homeless: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_directory() == Path("/state/benchorch")
    assert model_caches()["TORCH_HOME"] == "~/.cache/torch"


NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.timeout(300)
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
