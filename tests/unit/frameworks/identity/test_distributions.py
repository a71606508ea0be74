"""A distribution is known by its list of files, and by changes in those that are loaded."""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from benchorch import files
from benchorch.files import file_digest
from benchorch.frameworks.identity import distributions
from benchorch.frameworks.identity.distributions import describe
from benchorch.host import environment

TEXT = "SCALE = 2\n"


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only module of an installed distribution that lists 40 MiB."""
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "large_of_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: large-of-lab\nVersion: 1.0\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(TEXT.encode()).digest()).decode().rstrip("=")
    listed = f"large_of_lab.py,sha256={digest},{len(TEXT)}\nlarge_of_lab.bin,,{40 * 2**20}\n"
    (info / "RECORD").write_text(listed)
    module = tmp_path / "large_of_lab.py"
    module.write_text(TEXT)
    yield module
    sys.modules.pop("large_of_lab", None)


def described(*, is_loaded: bool) -> str:
    return describe(Distribution.from_name("large-of-lab"), (), is_loaded=is_loaded)


def test_a_loaded_file_that_was_edited_in_place_counts(large: Path) -> None:
    importlib.import_module("large_of_lab")
    as_installed = described(is_loaded=True)
    assert as_installed == described(is_loaded=False)
    large.write_text("SCALE = 3\n")
    edited = described(is_loaded=True)
    assert edited != as_installed
    large.write_text("SCALE = 4\n")
    assert described(is_loaded=True) not in (edited, as_installed)
    large.write_text(TEXT)
    assert described(is_loaded=True) == as_installed


def test_a_file_that_nothing_loaded_does_not(large: Path) -> None:
    as_installed = described(is_loaded=True)
    large.write_text("SCALE = 3\n")
    assert described(is_loaded=True) == as_installed


def installed(name: str) -> str | None:
    return distributions.installed.__wrapped__((name,))[name]  # without what it found before


def test_a_file_of_a_declared_models_package_counts_whether_or_not_it_is_loaded(
    large: Path,
) -> None:
    record = large.with_name("large_of_lab-1.0.dist-info") / "RECORD"
    later_ns = record.stat().st_mtime_ns + 10**9
    as_installed = described(is_loaded=False)
    assert installed("large-of-lab") == as_installed
    large.write_text("SCALE = 33\n")
    os.utime(large, ns=(1, 1))
    assert installed("large-of-lab") != as_installed
    large.write_text("SCALE = 3\n")
    os.utime(large, ns=(later_ns, later_ns))
    assert installed("large-of-lab") != as_installed
    large.write_text(TEXT)
    os.utime(large, ns=(later_ns, later_ns))
    assert installed("large-of-lab") == as_installed


@pytest.mark.parametrize("says_so", [True, False])
def test_an_editable_package_is_known_by_its_files(
    says_so: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, sources = tmp_path / "site", tmp_path / "src"
    info = site / "editable_of_lab-1.0.dist-info"
    for folder in (info, sources / "editable_of_lab" / "inner"):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: editable-of-lab\nVersion: 1.0\n")
    (info / "RECORD").write_text("__editable__.editable_of_lab-1.0.pth,,\n")
    if says_so:
        (info / "direct_url.json").write_text('{"url": "file:///", "dir_info": {"editable": true}}')
    (sources / "editable_of_lab" / "__init__.py").write_text("")
    module = sources / "editable_of_lab" / "inner" / "layers.py"
    module.write_text(TEXT)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(sources))
    before = installed("editable-of-lab")
    module.write_text("SCALE = 3\n")
    assert installed("editable-of-lab") != before
    module.write_text(TEXT)
    assert installed("editable-of-lab") == before


def test_a_loaded_file_that_has_not_changed_for_a_while_is_read_once(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("large_of_lab")
    monkeypatch.setattr(environment, "_STEADY_NS", 600 * 10**9)
    read: list[Path] = []

    def digest(path: Path) -> str:
        read.append(path)
        return file_digest(path)

    for module in (distributions, files):
        monkeypatch.setattr(module, "file_digest", digest)
    as_installed = [described(is_loaded=True) for _ in range(2)]
    assert read == [large] * 2  # a further change might leave the same time
    monkeypatch.setattr(environment, "_STEADY_NS", 0)
    as_installed += [described(is_loaded=True) for _ in range(3)]
    assert read == [large] * 3
    assert len({*as_installed}) == 1
    large.write_text("SCALE = 3\n")
    os.utime(large, ns=(1, 1))
    assert described(is_loaded=True) != as_installed[0]
    assert read == [large] * 4


def test_a_mapped_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"7f0000000000-7f0000001000 r--p 00000000 08:01 42    %s\n"
    names = (b"/data/gr\xf6\xdfe.bin", b"/data/two\x0bparts", b"[heap]", b"")
    (tmp_path / "maps").write_bytes(b"".join(line % name for name in names))
    monkeypatch.setattr(distributions, "_MAPPED", tmp_path / "maps")
    assert distributions.mapped_files() == {os.fsdecode(name) for name in names[:2]}
