"""Steps in which other programs have the processor now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchorch.trace.analysis import Analysis, analyze
from benchorch.trace.critical_path.disturbance import undisturbed
from benchorch.trace.whatif.basis import prepare
from benchorch.trace.whatif.predict import Prediction, predict
from benchorch.trace.whatif.reading import parse
from support.trace_files import event, write

STEPS, MM_US, ADD_US = 12, 600.0, 400.0


def preempted_us(step: int, op: str) -> float:
    """Most interruptions hit one operator, by chance: 8 ms in every third of its calls."""
    return 8_000.0 if op == "aten::add" and step % 3 == 1 else 0.0


def recorded(place: Path, late: dict[int, float] | None = None, once_us: float = 0.0) -> Analysis:
    """Steps of a product and a sum, preempted, or with a save that takes its time in some.

    One of them may have an event that no other has.
    """
    rows: list[dict[str, Any]] = []
    at = 1_000.0
    for step in range(STEPS):
        begin = at
        for op, took in (("aten::mm", MM_US), ("aten::add", ADD_US), ("save", 20.0)):
            took += (late or {}).get(step, 0.0) if op == "save" else 0.0
            took += preempted_us(step, op) if late is None else 0.0
            category = "user_annotation" if op == "save" else "cpu_op"
            rows.append(event(category, op, at + 1, took))
            at += took + 2
        if once_us and step == STEPS // 2:
            rows.append(event("cpu_op", "aten::sort", at, once_us))
            at += once_us
        rows.append(event("user_annotation", f"ProfilerStep#{step}", begin, at - begin))
    return analyze(write(place / "trace.json", rows))


def asked(analysis: Analysis, **change: object) -> Prediction:
    return predict(prepare(analysis), parse({"changes": [change]}).changes)


def test_an_operator_keeps_its_share_of_the_work_where_others_had_the_processor(
    tmp_path: Path,
) -> None:
    analysis = recorded(tmp_path)
    ratio = MM_US / (MM_US + ADD_US)
    said = asked(analysis, op="aten::mm", speedup=2)
    assert said.predicted_ns / said.makespan_ns == pytest.approx(1 - ratio / 2, abs=0.03)
    assert said.low_ns <= said.predicted_ns <= said.high_ns
    assert any("other programs had the processor" in note for note in said.notes)


def test_a_step_with_work_of_its_own_does_not_bound_the_others(tmp_path: Path) -> None:
    """Uneven as recorded, the steps are alike without what disturbed them but for that one."""
    said = asked(recorded(tmp_path, once_us=80_000.0), op="aten::mm", remove=True)
    ratio = ADD_US / (MM_US + ADD_US)
    assert said.predicted_ns / said.makespan_ns == pytest.approx(ratio, abs=0.05)


def test_the_other_reading_is_inside_the_interval(tmp_path: Path) -> None:
    """That the sum took so long itself: then the product hardly matters."""
    said = asked(recorded(tmp_path), op="aten::mm", speedup=2)
    assert said.high_ns / said.makespan_ns > 0.85
    assert said.reasons["other programs"] > 0


def test_without_a_change_the_disturbed_run_comes_out(tmp_path: Path) -> None:
    said = predict(prepare(recorded(tmp_path)), ())
    assert said.predicted_ns == said.makespan_ns
    assert said.moved == ()
    assert said.causes == pytest.approx(said.predicted_causes)


def test_a_thread_spends_as_much_time_in_all(tmp_path: Path) -> None:
    analysis = recorded(tmp_path)
    before = analysis.dag.weight_ns
    after, preempted_ratio = undisturbed(analysis.events, analysis.dag, analysis.steps)
    assert after.sum() == pytest.approx(before.sum(), rel=1e-6)
    assert 0.5 < preempted_ratio < 0.9
    assert not np.array_equal(before, after)


def test_what_takes_its_time_in_some_steps_by_itself_keeps_it(tmp_path: Path) -> None:
    """Nothing else is ever slow, however long it runs: no other program chooses so."""
    analysis = recorded(tmp_path, late=dict.fromkeys(range(0, STEPS, 3), 8_000.0))
    weight_ns, preempted_ratio = undisturbed(analysis.events, analysis.dag, analysis.steps)
    assert np.array_equal(weight_ns, analysis.dag.weight_ns)
    assert preempted_ratio == 0.0


def test_even_steps_are_taken_as_they_are(tmp_path: Path) -> None:
    analysis = recorded(tmp_path, late={})
    weight_ns, _ = undisturbed(analysis.events, analysis.dag, analysis.steps)
    assert weight_ns is analysis.dag.weight_ns


ROWS, BEFORE_NS, AFTER_NS = 400, 150, 50


def many_rows(place: Path, dilation_ratio: float | None, taken: float = 1.0) -> Analysis:
    """In each step 400 pairs of operators, one in the other, and one that takes 300 us.

    The operators need 0.5 us and the caller 0.1 us; recording a row takes 150 ns before it and 50
    after it, or of most a multiple of that.
    """
    rows: list[dict[str, Any]] = []
    at = 1_000.0
    for step in range(STEPS):
        begin = at
        for number in range(ROWS):
            quick = number % 8 == 0  # some do almost nothing, and of those recording is fastest
            before, after = (
                ns / 1_000 * (min(taken, 1.0) if quick else taken) for ns in (BEFORE_NS, AFTER_NS)
            )
            self_us, own_us = (0.0, 0.0) if quick else (0.1, 0.3)
            outer, at = at + before + self_us, at + 2 * before + 2 * self_us
            rows.append(event("cpu_op", "aten::inner", at, own_us))
            at += own_us + after + self_us / 2
            rows.append(event("cpu_op", "aten::outer", outer, at - outer))
            at += after
        rows.append(event("cpu_op", "aten::mm", at + before, 300.0))
        at += 300.0 + before + after
        rows.append(event("user_annotation", f"ProfilerStep#{step}", begin, at - begin))
        at += 0.5
    return analyze(write(place / "trace.json", rows), dilation_ratio=dilation_ratio)


@pytest.mark.parametrize("taken", [1.0, 1.6])
def test_what_recording_takes_is_no_part_of_a_prediction(tmp_path: Path, taken: float) -> None:
    """What the fastest rows show of it, and all where it is known how much slower the run was."""
    recorded_us = many_rows(tmp_path, None, taken).steps.period_ns / 1_000
    plain_us = many_rows(tmp_path, None, 0.0).steps.period_ns / 1_000
    known = many_rows(tmp_path, recorded_us / plain_us, taken)
    said = asked(known, op="aten::mm", speedup=2)
    assert recorded_us > 1.2 * plain_us
    assert said.predicted_ns / said.makespan_ns == pytest.approx(1 - 150 / plain_us, abs=0.01)
    recorded = asked(many_rows(tmp_path, None, taken), op="aten::mm", speedup=2)
    assert recorded.predicted_ns / recorded.makespan_ns < 1 - 150 / recorded_us - 0.02
    assert recorded.high_ns / recorded.makespan_ns >= 1 - 150 / recorded_us
