"""The page about conversions shows what is really there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "conversions.md").read_text()
NAMES = sorted(path.stem for path in (ROOT / "conf" / "conversion").glob("*.yaml"))


def test_every_conversion_is_listed() -> None:
    assert sorted(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)) == NAMES


@pytest.mark.parametrize(
    "path",
    [
        "conf/conversion/channels_last.yaml",
        "conf/conversion/aot_inductor_freezing.yaml",
        "src/benchorch/conversions/memory_format.py",
    ],
)
def test_the_example_is_the_real_file(path: str) -> None:
    language = "yaml" if path.endswith("yaml") else "python"
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert any(block in (ROOT / path).read_text() for block in blocks)
