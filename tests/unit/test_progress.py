from types import SimpleNamespace

import pytest

from benchorch import progress
from benchorch.progress import counted, silent


@pytest.fixture
def clock(monkeypatch):
    """Every look at it is a second later than the one before."""
    looks = iter(range(1000))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(looks))))


def test_what_takes_long_says_how_far_it_is_now_and_then(clock):
    said = []
    assert list(counted(range(20), "reading results", said.append)) == list(range(20))
    assert said == ["reading results: 1 of 20", "reading results: 11 of 20"]


def test_what_is_done_at_once_says_nothing():
    said = []
    assert list(counted({"a": 1}.items(), "reading", said.append)) == [("a", 1)]
    assert list(counted([], "reading", silent)) == []
    assert said == []
