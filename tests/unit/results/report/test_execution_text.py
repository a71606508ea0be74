"""Precision in a table's cell and among the facts of a page."""

from __future__ import annotations

import pytest

from benchorch.domain.execution import Execution
from benchorch.domain.result import Outcome, TrialResult
from benchorch.results.metrics.warnings import _executed
from benchorch.results.report.execution_text import (
    execution_facts,
    execution_matters,
    precision_text,
)

CASES = [
    (Execution(executed="float32", executed_ratio=1.0), "float32", False),
    (
        Execution(requested="bfloat16", executed="bfloat16", executed_ratio=0.92),
        "bfloat16 92 %",
        True,
    ),
    (
        Execution(requested="float16", executed="float32", executed_ratio=1.0, casts=58),
        "float32, not float16",
        True,
    ),
    (Execution(executed="float32", no_effect=("x: y",)), "float32; no effect", True),
    (Execution(), "–", False),
]


def result(execution: Execution | None) -> TrialResult:
    return TrialResult(trial_id="t", labels={}, outcome=Outcome.OK, execution=execution)


@pytest.mark.parametrize(("execution", "text", "matters"), CASES)
def test_a_cell_states_what_ran(execution: Execution, text: str, matters: bool) -> None:
    assert precision_text(result(execution)) == text
    assert execution_matters(result(execution)) is matters


def test_results_of_former_versions_have_none() -> None:
    assert precision_text(result(None)) == "–"
    assert not execution_matters(result(None))


def test_a_page_states_counts_and_reasons() -> None:
    execution = Execution(
        requested="int8",
        executed="int8",
        executed_ratio=0.975,
        delegate="XNNPACK",
        delegated_subgraphs=2,
        packed_layers=1,
        no_effect=("channels_last: nothing to lay out",),
    )
    assert dict(execution_facts(execution)) == {
        "ran in": "int8 (97.5 % of the operators); requested: int8",
        "of it": "1 packed layer, 2 subgraphs in XNNPACK",
        "no effect": "channels_last: nothing to lay out",
    }


def test_a_warning_names_the_precision_that_was_requested_and_the_casts() -> None:
    (warning,) = _executed(CASES[2][0])
    assert warning.startswith("float16 was requested, and 100 % of the operators ran in float32")
    assert "58 casts" in warning
