"""The pages about conversions show what is really there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXTENDING = (ROOT / "docs" / "extending.md").read_text()
WRITTEN = (ROOT / "docs" / "conversions.md").read_text()


@pytest.mark.parametrize(
    "path",
    [
        "conf/conversion/channels_last.yaml",
        "conf/conversion/aot_inductor_freezing.yaml",
        "src/benchorch/conversions/memory_format.py",
        "tests/e2e/extension/src/halved_extension/weights.py",
        "tests/e2e/extension/src/halved_extension/conf/conversion/halved.yaml",
    ],
)
def test_an_example_is_the_real_file(path: str) -> None:
    language = "yaml" if path.endswith("yaml") else "python"
    blocks = re.findall(rf"```{language}\n(.*?)```", EXTENDING, re.DOTALL)
    assert any(block in (ROOT / path).read_text() for block in blocks)


def test_the_written_page_names_only_what_there_is() -> None:
    overview = WRITTEN.partition("## Overview")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([\w+]+)`", overview, re.MULTILINE))
    files = {path.stem for path in (ROOT / "conf" / "conversion").glob("*.yaml")}
    assert named
    assert {part for name in named for part in name.split("+")} <= files
