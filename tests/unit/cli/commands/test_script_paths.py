"""Which scripts a pattern means."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.cli.commands.script import _paths

FILES = ("a.py", "inner/b.py", "inner/deep/c.py", ".hidden/d.py", "inner/e.txt", "x[1]/f.py")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of scripts, and links that lead around in a circle."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("inner/loop", "inner/back"):
        (tmp_path / name).symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", ["a.py", "inner/b.py", "inner/deep/c.py", "x[1]/f.py"]),
        ("inner/**/*.py", ["inner/b.py", "inner/deep/c.py"]),
        ("inn*/**/deep/**/*.py", ["inner/deep/c.py"]),
        ("inner/**", ["inner/b.py", "inner/deep/c.py", "inner/e.txt"]),
        ("inner/*/*.py", ["inner/back/a.py", "inner/deep/c.py", "inner/loop/a.py"]),
        ("*.py", ["a.py"]),
    ],
)
def test_a_pattern_of_any_depth_ends_where_links_lead_around(
    pattern: str, found: list[str], place: Path
) -> None:
    for prefix in ("", f"{place}/"):
        paths = [path for path in _paths(f"{prefix}{pattern}") if path.is_file()]
        assert [path.relative_to(place).as_posix() for path in paths] == found
