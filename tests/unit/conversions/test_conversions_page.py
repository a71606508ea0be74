"""The pages about conversions show what is really there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXTENDING = (ROOT / "docs" / "developing" / "extending.md").read_text()
WRITTEN = (ROOT / "docs" / "reference" / "conversions-table.md").read_text()


def test_the_example_of_a_variant_is_the_real_file() -> None:
    (variant,) = re.findall(r"```yaml\n(.*?)```", EXTENDING, re.DOTALL)
    assert variant == (ROOT / "conf/conversion/aot_inductor_freezing.yaml").read_text()


def test_the_written_page_names_only_what_there_is() -> None:
    overview = WRITTEN.partition("## Overview")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([\w+]+)`", overview, re.MULTILINE))
    files = {path.stem for path in (ROOT / "conf" / "conversion").glob("*.yaml")}
    assert named
    assert {part for name in named for part in name.split("+")} <= files
