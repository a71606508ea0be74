"""Task of a model, which selects the parity rules for its outputs."""

AUTO, NONE = "auto", "none"
CLASSIFICATION, DETECTION, LANGUAGE_MODEL = "classification", "detection", "language_model"
EMBEDDING, IDS, REGRESSION = "embedding", "ids", "regression"

TASKS = (AUTO, NONE, CLASSIFICATION, DETECTION, LANGUAGE_MODEL, EMBEDDING, IDS, REGRESSION)
"""Values of ``parity.task``."""
