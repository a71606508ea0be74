"""Intervals as text."""

from __future__ import annotations

import csv
import io

import pytest

from benchorch.domain.estimate import Estimate
from benchorch.formatting import (
    axes_of,
    cell_name,
    csv_of,
    first_few,
    interval_text,
    varying_labels,
)


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ((0.3, 0.5), "0.4 (0.3 to 0.5 seen, n = 2)"),
        ((0.03, 87.97), "not known yet (0.03 to 87.97 seen, n = 2)"),
    ],
)
def test_the_middle_of_two_distant_values_is_no_figure(
    seen: tuple[float, float], text: str
) -> None:
    estimate = Estimate(
        value=sum(seen) / 2,
        low=None,
        high=None,
        level_ratio=0.95,
        n=2,
        unit="ms",
        method="median",
        seen=seen,
    )
    assert interval_text(estimate) == text


def test_a_sum_that_is_not_known_yet_shows_its_interval() -> None:
    total = Estimate(
        value=0.04, low=0.01, high=0.07, level_ratio=0.95, n=3, unit="ms", method="sum"
    )
    assert interval_text(total) == "not known yet (0.01 to 0.07, n = 3)"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "-1.5.", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_text_of_a_csv_file_is_no_formula(text: str) -> None:
    (header, row) = csv.reader(io.StringIO(csv_of([{text: text}])))
    assert header == row == [f"'{text}".replace("\r", "\n")]


@pytest.mark.parametrize(
    "cell", ["-", "-1.5", "-12", "-1e-05", -1.5, float("-inf"), "1\n2", "", None]
)
def test_numbers_of_a_csv_file_stay_numbers(cell: object) -> None:
    _, (_, read), short = csv.reader(io.StringIO(csv_of([{"a": 1, "b": cell}, {"a": 2}])))
    assert read == ("" if cell is None else str(cell))
    assert short == ["2", ""]


@pytest.mark.parametrize(
    ("kinds", "names"), [("ab", ["a eager", "b eager"]), ("xy", ["a x eager", "b y eager"])]
)
def test_a_machine_that_is_called_like_its_kind_is_named_once(kinds: str, names: list[str]) -> None:
    labels = [
        {"conversion": "eager", "hardware": hardware, "hardware_kind": kind}
        for hardware, kind in zip("ab", kinds, strict=True)
    ]
    varying = varying_labels(labels)
    assert [cell_name(each, varying) for each in labels] == names


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ("", []),
        ("a.b=[1, 2] c.d=True", ["a.b=[1,2]", "c.d=true"]),
        ("a.b=[1,2] c.d=true", ["a.b=[1,2]", "c.d=true"]),
        ("a.b={'c': None} ++a.d=x", ["a.b={c:null}", "a.d=x"]),
        ("a.b={c:null}", ["a.b={c:null}"]),
        (r"model.factory=net.py\:make", ["model.factory=net.py:make"]),
        ("model.factory='net.py:make'", ["model.factory=net.py:make"]),
        ("a.b=two words a.c=Truely", ["a.b=two words", "a.c=Truely"]),
    ],
)
def test_swept_keys_are_alike_however_their_values_are_spelled(axes: str, words: list[str]) -> None:
    assert axes_of({"axes": axes}) == words


@pytest.mark.parametrize(
    ("found", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("a", "b", "c", "d"), "a, b and 2 more")],
)
def test_the_first_few_are_named_and_the_others_counted(found: tuple[str, ...], text: str) -> None:
    assert first_few(found, 2) == text
