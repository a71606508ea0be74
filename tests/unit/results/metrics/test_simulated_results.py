"""What a rehearsal measured says so, and stands for no real machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.results.metrics.summary import summarise

RESULT = TrialResult(trial_id="t", labels={"hardware_kind": "r6i.large"}, outcome=Outcome.OK)


@pytest.mark.parametrize("rehearsed", [True, False])
def test_a_rehearsed_result_has_a_note_that_names_the_machine_it_played(rehearsed: bool) -> None:
    result = replace(RESULT, environment={"rehearsed": True} if rehearsed else {})
    notes = [text for text in summarise(result, None).warnings if text.startswith("rehearsed")]
    assert len(notes) == rehearsed
    assert all("only played r6i.large" in text for text in notes)
