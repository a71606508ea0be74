"""Slices of long parametrised tests: some cases by default, the others with ``-m slow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def one_in(every: int, cases: Iterable[object]) -> list[Any]:
    """One case in so many by default."""
    return [_case(case, number % every == 0) for number, case in enumerate(cases)]


def only(quick: Callable[[Any], bool] | Sequence[object], cases: Iterable[object]) -> list[Any]:
    """The cases that a function chooses, or that are listed, by default."""
    chosen = quick if callable(quick) else quick.__contains__
    return [_case(case, chosen(case)) for case in cases]


def _case(case: object, quick: bool) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=() if quick else pytest.mark.slow)
