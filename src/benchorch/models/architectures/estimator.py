"""A fitted scikit-learn, XGBoost or LightGBM estimator as a module, and as an ONNX graph."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import write_graph
from benchorch.frameworks.opaque_module import OpaqueModule
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.models.boosters import LightGbm

LABELS, PROBABILITIES, PREDICTION = "labels", "probabilities", "prediction"
_OPSET = {"": 18, "ai.onnx.ml": 3}
_BY_PROBABILITY = frozenset(
    {
        *("DecisionTreeClassifier", "ExtraTreeClassifier"),
        *("RandomForestClassifier", "ExtraTreesClassifier", "BaggingClassifier"),
        *("GradientBoostingClassifier", "HistGradientBoostingClassifier"),
        *("XGBClassifier", "LGBMClassifier", "LightGbmClassifier"),
        *("LogisticRegression", "MLPClassifier", "GaussianNB", "KNeighborsClassifier"),
        *("CalibratedClassifierCV", "VotingClassifier"),
    }
)
"""Classifiers whose label is that of the largest probability; others have rules of their own."""


@final
class Estimator(OpaqueModule):
    """Calls a fitted estimator with its features as ``X``, of shape (rows, features).

    A classifier returns ``labels``, those of text by their place in ``classes_`` and those of
    booleans and whole floats as int64, and ``probabilities`` where it has them; every other
    estimator ``prediction``.

    Args:
        fitted: the estimator; it keeps its own threads (``n_jobs``).
        digest: SHA-256 of the bytes that it is known by.
        code: classes and functions that those bytes name, where the digest does not cover theirs.
    """

    not_content = frozenset({"fitted"})  # a buffer has its digest

    def __init__(self, fitted: Any, digest: bytes, code: Sequence[object] = ()) -> None:
        super().__init__()
        self.fitted = fitted
        if code:
            self.code = tuple(code)
        self.has_own_rule = _has_own_rule(fitted)
        self.provider = f"{type(fitted).__module__.partition('.')[0]} predict"
        self.register_buffer("content", torch.tensor(list(digest), dtype=torch.uint8))

    def answer(self, X: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]  # noqa: N803 scikit-learn's name
        """Prediction for each row."""
        features, classes = X.numpy(), getattr(self.fitted, "classes_", None)
        if classes is None:
            return {PREDICTION: _tensor(self.fitted.predict(features))}
        if not hasattr(self.fitted, "predict_proba"):
            labels = self.fitted.predict(features)
            return {LABELS: _tensor(_numbered(labels, np.asarray(classes)))}
        probabilities = np.asarray(self.fitted.predict_proba(features))
        if self.has_own_rule:
            labels = _numbered(self.fitted.predict(features), np.asarray(classes))
        else:  # as predict does, without a second pass over the features
            chosen = probabilities.argmax(axis=1)
            labels = chosen if _are_text(classes) else _whole(np.take(classes, chosen), classes)
        return {LABELS: _tensor(labels), PROBABILITIES: _tensor(probabilities)}

    def write(self, directory: Path, example: Example) -> None:
        """The graph of skl2onnx, with onnxmltools' operators for boosted trees."""
        with wrap_errors(BuildError, "skl2onnx refused the model", *_refusals()):
            model = _converted(self.fitted, example.specs[0].name, example.arrays["X"])
        classes = getattr(self.fitted, "classes_", None)
        if not hasattr(self.fitted, "predict_proba"):
            del model.graph.output[1:]  # the scores of a classifier without probabilities
        if classes is None and self.fitted.predict(example.arrays["X"]).ndim == 1:
            _flatten(model)
        if classes is not None and _are_text(classes):
            _number_labels(model, classes)
        write_graph(model, directory, large=False)


def _tensor(values: Any) -> torch.Tensor:
    array = np.ascontiguousarray(values)
    if array.dtype.kind == "f":
        array = array.astype(np.float32)
    return torch.from_numpy(array.reshape(-1) if array.shape[1:] == (1,) else array)


def _are_text(classes: Any) -> bool:
    return np.asarray(classes).dtype.kind in "OUS"


def _numbered(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    return np.searchsorted(classes, labels) if _are_text(classes) else _whole(labels, classes)


def _whole(labels: NDArray[Any], classes: Any) -> NDArray[Any]:
    """Labels as the ONNX graph has them: booleans and whole floats as int64."""
    kind = np.asarray(classes).dtype.kind
    is_whole = kind == "b" or (kind == "f" and not (classes % 1).any())
    return labels.astype(np.int64) if is_whole else labels


def _has_own_rule(fitted: Any) -> bool:
    if hasattr(fitted, "best_estimator_"):
        return _has_own_rule(fitted.best_estimator_)
    if hasattr(fitted, "steps"):
        return _has_own_rule(fitted.steps[-1][1])
    return type(fitted).__name__ not in _BY_PROBABILITY


def _refusals() -> tuple[type[Exception], ...]:
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    return (MissingConverter, MissingShapeCalculator)


def _converted(fitted: Any, name: str, features: NDArray[Any]) -> Any:
    if isinstance(fitted, LightGbm):
        return _of_lightgbm(fitted.booster, name, features)
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    _know_boosters(fitted)
    wide = features.dtype == np.float64
    kind = (DoubleTensorType if wide else FloatTensorType)([None, features.shape[1]])
    plain = {id(fitted): {"zipmap": False}} if hasattr(fitted, "predict_proba") else None
    return to_onnx(fitted, initial_types=[(name, kind)], options=plain, target_opset=dict(_OPSET))


def _of_lightgbm(booster: Any, name: str, features: NDArray[Any]) -> Any:
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [(name, FloatTensorType([None, features.shape[1]]))]
    return convert_lightgbm(booster, initial_types=types, zipmap=False)


def _know_boosters(fitted: Any) -> None:
    """Register onnxmltools' converters, also for pipelines that end in boosted trees."""
    kinds = {type(part).__module__.partition(".")[0] for part in _parts(fitted)}
    if not kinds & {"xgboost", "lightgbm"}:
        return
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator

    classes = shape_calculator.calculate_linear_classifier_output_shapes
    values = shape_calculator.calculate_linear_regressor_output_shapes
    choices = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    if "xgboost" in kinds:
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
        from xgboost import XGBClassifier, XGBRegressor

        update_registered_converter(
            XGBClassifier, "XGBClassifier", classes, convert_xgboost, options=choices
        )
        update_registered_converter(XGBRegressor, "XGBRegressor", values, convert_xgboost)
    if "lightgbm" in kinds:
        from lightgbm import LGBMClassifier, LGBMRegressor
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

        update_registered_converter(
            LGBMClassifier, "LgbmClassifier", classes, convert_lightgbm, options=choices
        )
        update_registered_converter(LGBMRegressor, "LgbmRegressor", values, convert_lightgbm)


def _parts(fitted: Any) -> list[Any]:
    """The estimator and those that it is made of."""
    made_of = fitted.get_params().values() if hasattr(fitted, "get_params") else ()
    inside = [each for each in made_of if hasattr(each, "get_params")]
    return [fitted, *inside]


def _flatten(model: Any) -> None:
    """Give one number for each row, as predict does, where the converter gives a column."""
    from onnx import helper

    (column,) = model.graph.output
    model.graph.initializer.append(helper.make_tensor("one_axis", 7, [1], [-1]))
    model.graph.node.append(helper.make_node("Reshape", [column.name, "one_axis"], ["flat"]))
    kind = column.type.tensor_type.elem_type
    column.CopyFrom(helper.make_tensor_value_info("flat", kind, [None]))


def _number_labels(model: Any, classes: Any) -> None:
    """Give the place of each label of text, which no tensor of torch holds."""
    from onnx import TensorProto, helper

    label, domain = model.graph.output[0], "ai.onnx.ml"
    table = {"keys_strings": [*map(str, classes)], "values_int64s": [*range(len(classes))]}
    place = helper.make_node("LabelEncoder", [label.name], ["label_place"], domain=domain, **table)
    model.graph.node.append(place)
    others = [each for each in model.opset_import if each.domain != domain]
    del model.opset_import[:]  # a graph of older operators alone has a release before these keys
    model.opset_import.extend([*others, helper.make_opsetid(domain, _OPSET[domain])])
    label.CopyFrom(helper.make_tensor_value_info("label_place", TensorProto.INT64, [None]))
