"""Lines with digests: what each kind of damage is called."""

from __future__ import annotations

import json

import pytest

from benchorch.journal.chain import checked, mapping_of, seal

FIRST = seal({"event": "one"}, b"")
SECOND = seal({"event": "two"}, FIRST)
HASH = "0" * 64


def plain(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_sound_lines_have_no_problem_and_follow_each_other() -> None:
    first, second = checked([FIRST, SECOND])
    for number, line, event in (1, first, "one"), (2, second, "two"):
        assert (line.number, line.problem, line.is_sealed, line.follows) == (number, "", True, True)
        assert line.content["event"] == event


def test_a_line_that_follows_another_one_is_sound_but_does_not_follow() -> None:
    (alone,) = checked([SECOND])
    assert (alone.problem, alone.follows) == ("", False)


@pytest.mark.parametrize(
    ("raw", "problem", "is_sealed"),
    [
        (FIRST.replace(b"one", b"0ne"), "its digest differs", True),
        (FIRST[:-1], "it is not JSON", False),
        (b"[1]", "it is not a JSON object", False),
        (plain({"event": "one", "before": ""}), "its digest is damaged", False),
        (plain({"event": "one", "digest": HASH[1:]}), "its digest is damaged", False),
    ],
)
def test_a_damaged_line_is_empty_and_says_how(raw: bytes, problem: str, is_sealed: bool) -> None:
    (line,) = checked([raw])
    assert (line.content, line.problem, line.is_sealed) == ({}, problem, is_sealed)


def test_a_line_without_a_digest_after_one_with_it_is_damaged() -> None:
    _, line = checked([FIRST, plain({"event": "two"})])
    assert line.problem == "it has no digest, which lines before it have"


@pytest.mark.parametrize("more", [{}, {"more": 1}])
def test_a_digest_among_the_values_is_not_the_lines_own(more: dict[str, int]) -> None:
    value = {"file": {"size": 1, "digest": HASH}, **more}
    (sealed,) = checked([seal(value, b"")])
    assert (sealed.problem, sealed.is_sealed) == ("", True)
    (before,) = checked([plain(value)])
    assert (before.problem, before.is_sealed, before.content) == ("", False, value)


@pytest.mark.parametrize("raw", [b"{", b"[" * 100_000, b"\xff"])
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it is not JSON$"):
        mapping_of(raw)
