"""The repository means the same on every machine, and its pages lead to each other."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The stack's own machines have benchorch under that folder.
TOP_DIRECTORIES = ("work", "opt(?!/benchorch)", "root", "home", "mnt", "srv", "Users")
MACHINE_PATH = re.compile(rf"(?<![\w.~$}}/:-])/(?:{'|'.join(TOP_DIRECTORIES)})(?:/\w|\b)")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def files(pattern: str = "*") -> list[Path]:
    """What git has, or would take, of this checkout; everything that is there in an export."""
    # Whoever owns this checkout: else git lists nothing to root of one that is mounted.
    git = ("git", "-c", "safe.directory=*")
    command = [*git, "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["cd /" + "work/main", "'/" + "opt'", "/" + "home/ann/x", "(/" + "root/.cache)"]
)
def test_a_path_of_one_machine_would_be_found(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    "text", ["src/" + "work/x", "https://example.com/" + "home", "$ROOT/" + "opt/x"]
)
def test_other_paths_are_left_alone(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def in_the_locale_s_encoding(source: str) -> list[int]:
    """Lines that read or write a path's text without naming an encoding."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    methods = [(call, call.func) for call in calls if isinstance(call.func, ast.Attribute)]
    return [
        call.lineno
        for call, method in methods
        if (method.attr, len(call.args)) in {("read_text", 0), ("write_text", 1)}
        and ast.unparse(method.value) != "formatter"  # click's
        and all(keyword.arg != "encoding" for keyword in call.keywords)
    ]


def test_texts_are_utf_8_whatever_the_locale() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files("src/*.py")
        for line in in_the_locale_s_encoding(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_text_in_the_locale_s_encoding_would_be_found() -> None:
    assert in_the_locale_s_encoding("a.read_text()\nb.write_text(c, errors='replace')") == [1, 2]
    assert not in_the_locale_s_encoding("a.read_text(encoding='utf-8')\nread_text(b)")


def test_every_page_of_the_documentation_is_on_the_map() -> None:
    mapped = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages - mapped == {"index.md"}


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in files("*.md")
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_a_page_that_code_or_configuration_names_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)} -> {name}"
        for folder in ("src/*", "conf/*", "tests/*", "Makefile", "pyproject.toml")
        for path in files(folder)
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text(errors="replace"))
        if not (ROOT / name).exists()
    ]
    assert missing == []


def test_a_source_file_that_a_page_names_exists() -> None:
    roots = (ROOT, ROOT / "src" / "benchorch")
    named = {
        (page, name)
        for page in files("*.md")
        if page.name != "CHANGELOG.md"
        for name in re.findall(r"`((?:\w+/)+\w+\.(?:py|yaml|txt|sh))`", page.read_text())
    }
    missing = [
        f"{page.relative_to(ROOT)} -> {name}"
        for page, name in sorted(named)
        if not any((root / name).exists() for root in roots)
    ]
    assert len(named) > 20
    assert missing == []
