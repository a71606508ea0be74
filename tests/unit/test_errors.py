"""Errors of a user's classes: whatever they do, there is a sentence, and it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.errors import BuildError, causes, summary_of, text_of
from benchorch.frameworks.upstream_errors import first_line, wrap_errors
from benchorch.frontends.scripts.discovery_process import _words
from benchorch.models.callables import user_code
from benchorch.stores.disk import disk_full_cause
from benchorch.trial.worker import failure_of


class WordlessError(ValueError):
    """An error whose own text raises."""

    def __str__(self) -> str:
        raise AttributeError("detail")


class FalseError(ValueError):
    """An error that is no true value."""

    def __bool__(self) -> bool:
        raise RuntimeError("ambiguous")


def test_an_error_whose_text_raises_is_named(tmp_path: Path) -> None:
    assert text_of(WordlessError()) == "(its message cannot be read: __str__ raised AttributeError)"
    assert summary_of(WordlessError()).startswith("WordlessError: (its message")
    failure = failure_of("measure", WordlessError())
    assert (failure.kind, failure.message) == ("raised:WordlessError", text_of(WordlessError()))
    assert _words(WordlessError(), tmp_path)[0] == f"it raised {summary_of(WordlessError())}"
    ended, _ = _words(SystemExit(WordlessError()), tmp_path)
    assert ended.startswith("it ended itself with the words '(its message cannot be read")


def test_a_model_whose_error_has_no_text_is_refused_with_its_place() -> None:
    with pytest.raises(BuildError, match=r"f raised WordlessError: \(its.*test_errors"):  # noqa: SIM117
        with user_code("f"):
            raise WordlessError
    with pytest.raises(BuildError, match=r"it refused: \(its message cannot be read"):  # noqa: SIM117
        with wrap_errors(BuildError, "it refused"):
            raise WordlessError


def test_an_error_of_many_lines_is_its_first_and_keeps_its_place() -> None:
    with pytest.raises(BuildError, match=r"f raised ValueError: first \(.*test_errors"):  # noqa: SIM117
        with user_code("f"):
            raise ValueError("\n\nfirst\nsecond")
    assert summary_of(ValueError()) == "ValueError: no message"
    assert len(summary_of(ValueError("x" * 10_000))) < 400


def test_an_error_that_is_its_own_cause_comes_once(tmp_path: Path) -> None:
    error, inner = ValueError("outer"), KeyError("inner")
    error.__cause__, inner.__cause__ = inner, error
    assert list(causes(error)) == [error, inner]
    assert first_line(error) == "'inner'"
    assert failure_of("measure", error).kind == "raised:ValueError"
    assert disk_full_cause(error, tmp_path) is None


def test_a_cause_is_followed_whatever_its_truth() -> None:
    error, false = ValueError("outer"), FalseError()
    error.__cause__, false.__context__ = false, KeyError("first")
    assert list(causes(error)) == [error, false]
    assert [type(one) for one in causes(error, implied=True)] == [ValueError, FalseError, KeyError]
