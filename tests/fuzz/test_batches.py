"""Cases that are tried in batches: what has passed is not tried again, what failed is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import mutations
from support.mutations import fuzzed, passed_cases

NAME = "test_numbers"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Batches of ten, 25 cases in all, counted in a folder of the test's."""
    monkeypatch.setenv("FUZZ", "25")
    monkeypatch.setattr(mutations, "BATCH", 10)
    monkeypatch.setattr(mutations, "KEPT", tmp_path)
    monkeypatch.setattr(mutations, "COUNTS", tmp_path / "fuzz")
    return tmp_path


def test_a_run_that_was_stopped_goes_on_with_what_is_left(kept: Path) -> None:
    seen: list[int] = []

    @fuzzed(3)
    @given(number=st.integers())
    def test_numbers(number: int) -> None:
        seen.append(number)
        if len(seen) == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        test_numbers()
    assert passed_cases(NAME) == 10
    test_numbers()
    assert passed_cases(NAME) == 30
    assert len(seen) >= 15 + 20
    test_numbers()
    assert len(seen) < 15 + 30


def test_a_case_that_failed_is_tried_first_the_next_time(kept: Path) -> None:
    seen: list[int] = []
    most = 10**6

    @fuzzed(3)
    @given(number=st.integers(10**5, 10**9))
    def test_numbers(number: int) -> None:
        seen.append(number)
        assert number < most

    with pytest.raises(AssertionError):
        test_numbers()
    assert passed_cases(NAME) == 0
    seen.clear()
    with pytest.raises(AssertionError):
        test_numbers()
    assert seen[0] == most
