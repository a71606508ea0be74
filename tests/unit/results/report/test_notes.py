"""Notes for a terminal: those that say what to do, one of a noisy machine, the gravest first."""

from benchorch.domain.estimate import Summary
from benchorch.results.report.notes import few, notes_of

UNSTEADY = "No steady state in 1 of 1 processes: try stopping.window_s=5, or a quieter machine."
GRADE = "This machine's speed varies too much (grade C): try benchorch doctor."
SLOWED = "1 of 1 processes were slowed: try a quieter machine."
ALONE = "No interval from a single process: try stopping=decide."
TAIL = "p99 needs 400 of each: try stopping.calls=400."
FACT = "Whichever of the two came first took 1.02 times as long."


def shown(**warnings: list[str]) -> list[tuple[str, list[str], list[str]]]:
    summaries = {
        name: Summary(metrics={}, speedup=None, control=None, steady=True, warnings=tuple(told))
        for name, told in warnings.items()
    }
    return [tuple(note) for note in few(notes_of(summaries))]


def test_a_noisy_machine_is_one_note_and_what_asks_for_nothing_is_none() -> None:
    busy = [UNSTEADY, SLOWED, GRADE, ALONE, FACT]
    assert shown(eager=busy, fast=busy) == [
        (UNSTEADY, ["eager", "fast"], []),
        (ALONE, ["eager", "fast"], []),
    ]


def test_the_gravest_of_each_trial_comes_first() -> None:
    assert [text for text, *_ in shown(eager=[ALONE, TAIL], fast=[SLOWED, ALONE])] == [
        *(ALONE, SLOWED, TAIL)
    ]


def test_where_nothing_can_be_done_the_fact_is_told() -> None:
    assert shown(eager=[FACT]) == [(FACT, ["eager"], [])]
    assert shown() == []


def test_figures_of_another_thing_than_was_asked_for_always_say_so() -> None:
    rehearsed = "rehearsed: measured on this machine, which only played g5; executor=ec2 measures."
    cast = "float16 was requested, and operators ran in float32: try another conversion."
    many = [rehearsed, *(f"{name}: try more." for name in "abcde"), cast]
    assert [text for text, *_ in shown(eager=many)][:2] == [rehearsed, cast]


def test_no_more_than_three_are_told() -> None:
    assert len(shown(eager=[f"{name}: try more." for name in "abcde"])) == 3


def test_missing_answers_are_always_told() -> None:
    missed = "8.3 % of 24 queries had no answer (503: 2). Look at the server's log."
    others = [f"Of {word}: try more." for word in ("one", "two", "three", "four")]
    assert missed in [text for text, *_ in shown(eager=[*others, missed])]
