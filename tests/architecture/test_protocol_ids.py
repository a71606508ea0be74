"""Every requirement on the measurement has a test that bears its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
# C clock and accounting, W warm-up, I intervals, A comparisons, Q queues and load, O orchestration.
COUNTS = {"c": 9, "w": 5, "i": 8, "a": 10, "q": 10, "o": 7}
REQUIREMENTS = [f"{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1)]


@pytest.fixture(scope="module")
def numbered() -> set[str]:
    found: set[str] = set()
    for path in (TESTS / "protocol").glob("test_*.py"):
        found.update(re.findall(r"^def test_([a-z]\d+)_", path.read_text(), re.MULTILINE))
    return found


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_a_requirement_has_a_test_that_bears_its_number(
    requirement: str, numbered: set[str]
) -> None:
    assert requirement in numbered


def test_no_test_bears_a_number_that_nothing_requires(numbered: set[str]) -> None:
    assert numbered <= set(REQUIREMENTS)
