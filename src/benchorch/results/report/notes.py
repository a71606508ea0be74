"""Notes of a run for a terminal: those that say what to do, the gravest first."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from benchorch.domain.estimate import Summary

# Was measured than was asked for, or of some of the queries only.
_ANOTHER_THING = re.compile(r"^rehearsed: | was requested, and| queries had no answer \(")
_ACTION = re.compile(r"\b[Tt]ry |leave the step out")
_NOISE = re.compile(r"a quieter machine|benchorch doctor")
_MOST = 3


@final
class Note(NamedTuple):
    """A warning.

    Attributes:
        trial_ids: the trials that have it.
        alike_ids: trials that have it with other numbers.
    """

    text: str
    trial_ids: list[str]
    alike_ids: list[str]


def notes_of(summaries: Mapping[str, Summary]) -> list[Note]:
    """Every warning, the gravest of each trial first; one where only the numbers differ."""
    of_a_trial = [
        (place, warning, trial_id)
        for trial_id, summary in summaries.items()
        for place, warning in enumerate(summary.warnings)
    ]
    found: dict[str, Note] = {}
    for _, warning, trial_id in sorted(of_a_trial, key=lambda one: one[0]):
        kind = re.sub(r"-?\d[\d.,]*", "#", warning)
        note = found.setdefault(kind, Note(warning, [], []))
        (note.trial_ids if note.text == warning else note.alike_ids).append(trial_id)
    return [*found.values()]


def few(notes: Sequence[Note]) -> list[Note]:
    """All of figures that are of another thing than was asked for, then three at most.

    These are notes with something to do, or the first ones; of a noisy machine one says enough.
    """
    first = [one for one in notes if _ANOTHER_THING.search(one.text)]
    noise = [one for one in notes if _NOISE.search(one.text)]
    told = [one for one in notes if one not in first and one not in noise[1:]]
    return [*first, *([one for one in told if _ACTION.search(one.text)] or told)[:_MOST]]
