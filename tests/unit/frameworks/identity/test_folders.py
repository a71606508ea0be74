"""Files that code finds by listing a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchorch.frameworks.identity.folders import listed, listing_digest


def by_pattern() -> list[Path]:
    return sorted(Path("parts").glob("*.json"))


def by_tree() -> list[Path]:
    return [*Path("parts").rglob("*.json")]


def not_at_all() -> str:
    return "parts/*.json"


def emphasised() -> list[str]:
    mark = "**bold**"
    return [mark + str(path) for path in Path("parts").iterdir()]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    for name in ("a.json", "b.txt", "deep/c.json"):
        (tmp_path / "parts" / name).write_text(name)
    return tmp_path


def found(code: Callable[[], object]) -> list[str]:
    texts = [one for one in code.__code__.co_consts if isinstance(one, str)]
    return [file.name for _, files in listed(code.__code__, texts) for file in files]


def test_only_files_that_a_pattern_matches_count() -> None:
    assert found(by_pattern) == ["a.json"]
    assert found(by_tree) == ["a.json", "c.json"]


def test_a_text_that_code_does_not_list_by_is_none() -> None:
    assert found(not_at_all) == []


def test_a_text_that_is_no_pattern_is_no_error() -> None:
    assert found(emphasised) == []


def test_content_and_names_are_in_the_digest(project: Path) -> None:
    folder = project / "parts"
    files = [folder / "a.json", folder / "deep"]
    before = listing_digest(folder, files)
    (folder / "a.json").write_text("other")
    assert listing_digest(folder, files) != before
    assert listing_digest(folder, files[:1]) != listing_digest(folder, files)
