"""What is kept of a runtime's own profile."""

from typing import Any

from benchorch.profilers.own import last_calls


def events(calls: int, steps: int = 1) -> list[dict[str, Any]]:
    """A session's: its loading, then runs of 100 us and of 10 us after each call's first."""
    found: list[dict[str, Any]] = [{"name": "session_initialization", "cat": "Session", "ts": 0}]
    for number in range(calls * steps):
        took_us = 10 if number % steps else 100
        run = {"ph": "X", "cat": "Session", "pid": 1, "tid": 2, "ts": 1000 + 200 * number}
        found.append({**run, "name": "model_run", "dur": took_us, "number": number})
        found.append({**run, "cat": "Node", "name": "Gemm_kernel_time", "dur": 5, "number": number})
    return found


def test_the_calls_before_the_last_ones_are_left_out() -> None:
    kept = last_calls(events(5), 2)
    assert [each.get("number") for each in kept] == [None, 3, 3, 4, 4]
    assert last_calls(events(2), 2) == events(2)


def test_calls_of_several_runs_are_kept_whole_and_marked() -> None:
    kept = last_calls(events(calls=5, steps=4), 2, steps=4)
    marks = [each for each in kept if each["name"] == "benchorch:call"]
    runs = [each["number"] for each in kept if each["name"] == "model_run"]
    assert runs == [*range(12, 20)]
    assert [(each["ts"], each["dur"]) for each in marks] == [(3400, 610), (4200, 610)]
    assert {(each["cat"], each["pid"], each["tid"]) for each in marks} == {
        ("user_annotation", 1, 2)
    }
    assert kept[0]["name"] == "session_initialization"


def test_calls_of_several_runs_are_marked_where_nothing_was_left_out() -> None:
    kept = last_calls(events(calls=2, steps=3), 2, steps=3)
    assert [each["ts"] for each in kept if each["name"] == "benchorch:call"] == [1000, 1600]
    assert kept[: len(events(2, 3))] == events(2, 3)
