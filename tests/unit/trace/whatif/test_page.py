"""The page about what-ifs lists what a file may say, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchorch.trace.dag import Class
from benchorch.trace.whatif.reading import CHANGES, SELECTING, read

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "analysis" / "what-if.md").read_text()


def test_its_example_can_be_read(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert len(read(path).changes) == 4


@pytest.mark.parametrize("key", [*SELECTING, *CHANGES])
def test_every_key_stands_in_its_tables(key: str) -> None:
    assert re.search(rf"^\|[^|]*`{key}[:`]", PAGE, re.MULTILINE)


def test_the_classes_it_names_exist() -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith("| `class`")]
    assert set(re.findall(r"`(\w+)`", line)) - {"class"} <= {one.value for one in Class}
