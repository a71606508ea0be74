"""Known vulnerabilities are found in a database of advisories as OSV writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from audit import findings, is_affected, main
from support.odd_server import Answer, odd_server

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = version("packaging")
NEXT = f"{Version(INSTALLED).major + 1}.0"


def advisory(
    name: str, *events: dict[str, str], id: str = "PYSEC-1", **more: Any
) -> dict[str, Any]:
    package = {"ecosystem": "PyPI", "name": name}
    affected = {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": [*events]}]}
    return {"id": id, "affected": [affected], **more}


OPEN = advisory("Packaging", {"introduced": "0"}, {"fixed": NEXT}, aliases=["CVE-2030-1"])
PAST = advisory("packaging", {"introduced": "0"}, {"fixed": "1.0"}, id="PYSEC-2")


def folder(path: Path, *advisories: dict[str, Any]) -> Path:
    for each in advisories:
        (path / f"{each['id']}.json").write_text(json.dumps(each))
    return path


def zipped(path: Path, *advisories: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path / "all.zip", "w") as archive:
        for each in advisories:
            archive.writestr(f"{each['id']}.json", json.dumps(each))
    return path / "all.zip"


@pytest.mark.parametrize("written", [folder, zipped])
def test_what_is_open_is_found_and_what_is_past_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Any
) -> None:
    assert main(["--database", str(written(tmp_path, OPEN, PAST))]) == 1
    (_, row, end) = capsys.readouterr().out.splitlines()
    assert row.split() == ["packaging", INSTALLED, "PYSEC-1", "(CVE-2030-1)", NEXT]
    assert end.endswith("PyPI advisories: 2, found: 1")


def test_nothing_found_is_said_of_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--database", str(folder(tmp_path, PAST))]) == 0
    assert "PyPI advisories: 1, found: 0" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, b"", b"not a zip", b"{}"])
def test_a_database_that_is_none_never_says_that_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "all.zip").write_bytes(content)
    assert main(["--database", str(tmp_path / "all.zip")]) == 2
    assert "is no database" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"affected": [1]}', '{"id": "GO-1", "affected": []}'])
def test_neither_does_a_folder_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.json").write_text(text)
    assert main(["--database", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    ("installed", "events", "expected"),
    [
        ("1.0", [{"introduced": "0"}], True),
        ("1.9", [{"introduced": "0"}, {"fixed": "1.10"}], True),
        ("1.10", [{"introduced": "0"}, {"fixed": "1.10"}], False),
        ("1.10rc1", [{"introduced": "0"}, {"fixed": "1.10"}], True),
        ("2.0", [{"introduced": "0"}, {"last_affected": "2.0"}], True),
        ("2.1", [{"introduced": "0"}, {"last_affected": "2.0"}], False),
        ("3.5", [{"fixed": "3.6"}, {"introduced": "3"}, {"fixed": "2"}, {"introduced": "0"}], True),
        ("2.5", [{"introduced": "0"}, {"fixed": "2"}, {"introduced": "3"}], False),
        ("1.0", [{"introduced": "0"}, {"fixed": "not-a-version"}], True),
    ],
)
def test_a_range_is_evaluated_as_osv_does(
    installed: str, events: list[dict[str, str]], expected: bool
) -> None:
    (affected,) = advisory("x", *events)["affected"]
    assert is_affected(affected, Version(installed)) is expected


def test_listed_versions_count_besides_ranges() -> None:
    assert is_affected({"versions": ["1.0", "broken"]}, Version("1.0.0"))
    assert not is_affected({"versions": ["1.1"]}, Version("1.0"))
    assert not is_affected({"ranges": [{"type": "GIT", "events": []}]}, Version("1.0"))


def test_one_vulnerability_of_two_databases_is_one_finding() -> None:
    other = {**OPEN, "id": "GHSA-1", "aliases": ["PYSEC-1", "CVE-2030-1"]}
    found, _ = findings([other, OPEN], {"packaging": Version(INSTALLED)})
    assert [each.advisory for each in found] == ["GHSA-1 (CVE-2030-1)"]


def test_withdrawn_advisories_and_other_ecosystems_are_not_findings() -> None:
    withdrawn = {**OPEN, "withdrawn": "2030-01-01T00:00:00Z"}
    npm = advisory("packaging", {"introduced": "0"})
    npm["affected"][0]["package"]["ecosystem"] = "npm"
    found, count = findings([withdrawn, npm], {"packaging": Version(INSTALLED)})
    assert (found, count) == ([], 1)


@pytest.mark.skipif(
    not (ROOT / "build/tools/bin/pip-audit").exists(), reason="make audit has not been run here"
)
@pytest.mark.parametrize(("status", "code", "told"), [(200, 2, "PYSEC-1"), (500, 2, "500 Server")])
def test_without_a_database_osv_is_asked_of_every_package(
    tmp_path: Path, status: int, code: int, told: str
) -> None:
    asked: list[str] = []

    def respond(method: str, path: str, body: bytes) -> Answer:
        name = json.loads(body)["package"]["name"]
        asked.append(name)
        found = {"vulns": [OPEN]} if name == "packaging" else {}
        return Answer(body=json.dumps(found).encode(), status=status)

    with odd_server() as server:
        server.respond = respond
        variables = {"PIP_AUDIT_OSV_URL": server.url, "XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run(
            ["make", "-o", ".venv/.installed", "-o", "build/tools/.installed", "audit"],
            cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == code
    assert told in done.stdout + done.stderr
    assert "packaging" in asked or status == 500
