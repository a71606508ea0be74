from __future__ import annotations

from benchorch.trace.analysis import analyze
from benchorch.trace.comparison.diff import PeriodDifference, difference
from support.handmade_traces import note, op, trace
from support.traces_with_arguments import operands, told

MS = 1_000_000


def program(mm_ns: int, shape: int, pause_ns: int = 10_000, name: str = "aten::addmm"):
    step = 2 * MS + mm_ns + pause_ns
    rows = []
    for number in range(4):
        at = number * step
        rows += [
            note(f"ProfilerStep#{number}", at, at + step),
            op(name, at, at + mm_ns),
            op("aten::softmax", at + mm_ns + pause_ns, at + step),
        ]
    events = trace(*rows)
    shapes = {
        at: operands([shape, shape]) for at in range(len(rows)) if rows[at].name.startswith("aten")
    }
    return analyze(told(events, shapes))


def compared(one, other) -> PeriodDifference:
    found = difference(one, other)
    assert sum(found.causes.values()) == found.second_ns - found.first_ns
    return found


def test_operators_on_smaller_operands_are_other_work() -> None:
    found = compared(program(8 * MS, 4096), program(2 * MS, 1024))
    assert max(found.causes, key=lambda cause: abs(found.causes[cause])) == "work"


def test_the_same_operators_on_the_same_shapes_are_at_another_speed() -> None:
    found = compared(program(8 * MS, 1024), program(2 * MS, 1024))
    assert set(found.causes) == {"same kernels"}
    assert found.causes["same kernels"] == -6 * MS


def test_longer_pauses_between_operators_are_not_work() -> None:
    found = compared(program(2 * MS, 64, 10_000), program(2 * MS, 64, 150_000))
    assert set(found.causes) == {"overhead"}
    unclear = compared(program(2 * MS, 64, 10_000), program(2 * MS, 64, 5 * MS))
    assert "unknown" in unclear.causes


def test_without_shapes_the_sentence_says_what_is_missing() -> None:
    bare = analyze(trace(op("aten::mm", 0, 5 * MS)))
    other = analyze(trace(op("aten::mm", 0, 7 * MS)))
    assert "record_shapes" in compared(bare, other).sentence
