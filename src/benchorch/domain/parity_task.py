"""What a model's outputs are for, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AUTO, NONE = "auto", "none"
CLASSIFICATION, DETECTION, LANGUAGE_MODEL = "classification", "detection", "language_model"
EMBEDDING, IDS, REGRESSION = "embedding", "ids", "regression"

TASKS = (AUTO, NONE, CLASSIFICATION, DETECTION, LANGUAGE_MODEL, EMBEDDING, IDS, REGRESSION)
"""Values of ``parity.task``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What the baseline's own code calls things.

    Attributes:
        model: the class, e.g. ``BertForSequenceClassification``.
        labels: of outputs by their names here: ``{"0": "logits"}``; without those that have none.
    """

    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
