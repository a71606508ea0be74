"""Boosters, as the train functions of XGBoost and LightGBM return them, as fitted estimators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PROBABLE = ("binary:logistic", "multi:softprob", "multi:softmax")
"""Objectives of XGBoost from which probabilities of classes follow."""


def is_booster(value: object) -> bool:
    """Whether a train function of XGBoost or LightGBM returned it."""
    kind = type(value)
    return kind.__name__ == "Booster" and kind.__module__.partition(".")[0] in _ESTIMATORS


def as_estimator(value: Any) -> Any:
    """The estimator of a booster; any other value as it is."""
    if not is_booster(value):
        return value
    return _ESTIMATORS[type(value).__module__.partition(".")[0]](value)


def _of_xgboost(booster: Any) -> Any:
    """XGBoost's own estimator with this booster's trees."""
    from xgboost import XGBClassifier, XGBRegressor

    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    if objective == "multi:softmax":  # the same trees, asked for probabilities
        booster = booster.copy()
        booster.set_param({"objective": "multi:softprob"})
    made = XGBClassifier() if objective in _PROBABLE else XGBRegressor()
    made.load_model(booster.save_raw("ubj"))
    # With it an estimator predicts by the trees up to there, where a booster does by all.
    made.get_booster().set_attr(best_iteration=None)
    return made


def _of_lightgbm(booster: Any) -> LightGbm:
    objective = str(booster.dump_model(num_iteration=1).get("objective", ""))
    classifies = objective.startswith(("binary", "multiclass"))
    return LightGbmClassifier(booster) if classifies else LightGbm(booster)


class LightGbm:
    """A booster of LightGBM with the methods of a fitted estimator.

    Attributes:
        booster: LightGBM's own.
        n_features_in_: how many features a row has.
    """

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        self.n_features_in_ = int(booster.num_feature())

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def get_params(self, deep: bool = True) -> Mapping[str, object]:
        """None: it is fitted and not to be fitted again."""
        del deep
        return {}

    def predict(self, features: NDArray[np.generic]) -> NDArray[np.generic]:
        """What the booster predicts for each row."""
        predicted: NDArray[np.generic] = self.booster.predict(features)
        return predicted


class LightGbmClassifier(LightGbm):
    """A booster whose objective is one of classification; classes are numbered.

    Attributes:
        classes_: their numbers.
    """

    def __init__(self, booster: Any) -> None:
        import numpy as np

        super().__init__(booster)
        self.classes_ = np.arange(max(2, int(booster.num_model_per_iteration())))

    def predict_proba(self, features: NDArray[np.generic]) -> NDArray[np.generic]:
        """Probability of each class, of shape (rows, classes)."""
        import numpy as np

        predicted = self.booster.predict(features)
        return np.stack([1 - predicted, predicted], axis=1) if predicted.ndim == 1 else predicted

    def predict(self, features: NDArray[np.generic]) -> NDArray[np.generic]:
        """The most probable class of each row."""
        chosen: NDArray[np.generic] = self.predict_proba(features).argmax(axis=1)
        return chosen


_ESTIMATORS = {"xgboost": _of_xgboost, "lightgbm": _of_lightgbm}
