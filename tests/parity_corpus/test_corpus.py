"""Verdicts on cases whose authors knew the specification of the parity gate and not its code.

`pairs`, `models` and `architectures` were visible while the limits were being set; those in
`unseen/` were first judged when the gate was finished.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from parity_corpus import (
    architectures,
    eighth_review,
    fifth_review,
    fourth_review,
    hostile,
    models,
    ninth_review,
    pairs,
    second_review,
    seventh_review,
    sixth_review,
    third_review,
)
from parity_corpus.unseen import architectures as unseen_architectures
from parity_corpus.unseen import models as unseen_models
from parity_corpus.unseen import pairs as unseen_pairs
from support.parity_lab import judge_arrays, judge_model
from support.slices import one_in

PAIRS = {"seen": pairs, "unseen": unseen_pairs, "hostile": hostile}
MODELS = {
    "seen": {**models.MODELS, **architectures.ARCHITECTURES},
    "unseen": {**unseen_models.MODELS, **unseen_architectures.ARCHITECTURES},
    "hostile": hostile.MODELS,
    "second review": second_review.MODELS,
    "third review": third_review.MODELS,
    "fourth review": fourth_review.MODELS,
    "fifth review": fifth_review.MODELS,
    "sixth review": sixth_review.MODELS,
    "seventh review": seventh_review.MODELS,
    "eighth review": eighth_review.MODELS,
    "ninth review": ninth_review.MODELS,
}
# The lab builds, judges and verifies in one process, so what only differs between processes
# cannot show in it.
OF_A_PROCESS = ("ProcessNumber", "HashOfString")


def built(corpus: ModuleType, name: str) -> pairs.Case:
    case: pairs.Case = corpus.BUILDERS[name]()
    return case


@pytest.mark.parametrize(
    ("part", "name"),
    one_in(4, [(part, name) for part, corpus in PAIRS.items() for name in corpus.BUILDERS]),
)
def test_arrays_get_the_verdict_that_they_deserve(part: str, name: str) -> None:
    case = built(PAIRS[part], name)
    verdict = judge_arrays(
        case.outputs,
        case.references,
        tolerance=case.tolerance,
        inputs=case.inputs,
        task=case.task,
        references_again=case.references_again,
        referees=case.referees,
    )
    assert verdict.kind == case.expected, (case.why, verdict.reasons)
    assert bool(verdict.reasons) == (verdict.kind != "agrees")


def _triples(part: str, corpus: dict[str, Any]) -> list[tuple[str, str, str]]:
    names = [name for name in corpus if name not in OF_A_PROCESS]
    return [(part, name, conversion) for name in names for conversion in corpus[name].expected]


@pytest.mark.parametrize(
    ("part", "name", "conversion"),
    [
        case
        for part, corpus in MODELS.items()
        for case in one_in(124, _triples(part, corpus))  # so that each part has one by default
    ],
)
def test_models_get_the_verdict_that_they_deserve(part: str, name: str, conversion: str) -> None:
    case = MODELS[part][name]
    try:
        verdict = judge_model(case.make, case.example, conversion, task=case.task)
        kind, reasons = verdict.kind, verdict.reasons
    except Exception as error:  # some refusals are an upstream's own
        kind, reasons = "refused", (str(error),)
    assert kind in case.expected[conversion], (case.why, reasons)
