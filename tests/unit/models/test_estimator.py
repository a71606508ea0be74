"""Fitted estimators: native prediction, the ONNX graph, files that run code, mistakes."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.config.components import make
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Example, Workload
from benchorch.errors import BuildError, ConfigError
from benchorch.interfaces.model import Model
from benchorch.models import trust
from benchorch.models.estimator import EstimatorModel

pytest.importorskip("sklearn", reason="no scikit-learn: benchorch[estimators]")
pytest.importorskip("skl2onnx", reason="no skl2onnx: benchorch[estimators]")

WORKLOAD = Workload(symbols={"batch_size": 8})
INPUTS: dict[str, Json] = {"X": {"shape": ["batch_size", 6], "generator": "normal"}}
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(200, 6)).astype("float32")
CLASSES = (FEATURES[:, 0] + FEATURES[:, 1] > 0).astype(int) + (FEATURES[:, 2] > 1)
TARGETS = FEATURES @ np.arange(6.0)


def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(10, random_state=0).fit(FEATURES, CLASSES * 10)


def labels_of_text() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(FEATURES, np.array(["ant", "bee", "cow"])[CLASSES])


def text_without_probabilities() -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC().fit(FEATURES, np.array(["ant", "bee", "cow"])[CLASSES])


def labels_of(kind: type) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(FEATURES, (CLASSES > 0).astype(kind))


def booleans_without_probabilities() -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC().fit(FEATURES, CLASSES > 0)


def stacked() -> Any:
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    own = SGDClassifier(loss="modified_huber", random_state=0)
    return StackingClassifier([("one", LogisticRegression())], own).fit(FEATURES, CLASSES)


def one_against_the_rest() -> Any:
    from sklearn.linear_model import SGDClassifier
    from sklearn.multiclass import OneVsRestClassifier

    alone = SGDClassifier(loss="modified_huber", random_state=0)
    return OneVsRestClassifier(alone).fit(FEATURES, CLASSES)


def with_a_threshold() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.pipeline import make_pipeline

    strict = FixedThresholdClassifier(LogisticRegression(), threshold=0.95)
    return make_pipeline(strict).fit(FEATURES, CLASSES > 0)


def several_labels() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(5).fit(FEATURES, np.stack([CLASSES, 2 - CLASSES], axis=1))


def without_probabilities() -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC().fit(FEATURES, CLASSES)


def pipeline() -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), Ridge()).fit(FEATURES, TARGETS)


def xgboost_classifier() -> Any:
    made = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return made.XGBClassifier(n_estimators=5, n_jobs=1).fit(FEATURES, CLASSES)


def xgboost_regressor() -> Any:
    made = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return made.XGBRegressor(n_estimators=5, n_jobs=1).fit(FEATURES, TARGETS)


def lightgbm_classifier() -> Any:
    made = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return made.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(FEATURES, CLASSES)


def scaled_lightgbm() -> Any:
    made = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    booster = made.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
    return make_pipeline(StandardScaler(), booster).fit(FEATURES, TARGETS)


def xgboost_booster(objective: str = "multi:softmax") -> Any:
    made = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    chosen: dict[str, Any] = {"objective": objective, "nthread": 1}
    several = objective.startswith("multi")
    labels = CLASSES if several else CLASSES > 0
    rows = made.DMatrix(FEATURES, labels)
    return made.train(chosen | ({"num_class": 3} if several else {}), rows, 5)


def lightgbm_booster(objective: str = "multiclass") -> Any:
    made = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    chosen: dict[str, Any] = {"objective": objective, "verbose": -1, "num_threads": 1}
    several = objective == "multiclass"
    labels = CLASSES if several else TARGETS if objective == "regression" else CLASSES > 0
    rows = made.Dataset(FEATURES, labels)
    return made.train(chosen | ({"num_class": 3} if several else {}), rows, 5)


MAKERS = (
    *(forest, labels_of_text, text_without_probabilities, without_probabilities, pipeline),
    *(partial(labels_of, bool), partial(labels_of, float), booleans_without_probabilities),
    *(xgboost_classifier, xgboost_regressor, lightgbm_classifier, scaled_lightgbm),
    *(xgboost_booster, partial(xgboost_booster, "binary:logistic")),
    *(partial(xgboost_booster, "reg:squarederror"), lightgbm_booster),
    *(partial(lightgbm_booster, "binary"), partial(lightgbm_booster, "regression")),
)


def model(path: Path | str, **rest: object) -> EstimatorModel:
    node = {"_target_": "benchorch.models.estimator.EstimatorModel", "inputs": INPUTS, **rest}
    made = make({**node, "estimator": str(path)}, Model, "model")
    assert isinstance(made, EstimatorModel)
    return made


def stored(fitted: object, folder: Path) -> Path:
    path = folder / "fitted.pkl"
    path.write_bytes(pickle.dumps(fitted))
    return path


@pytest.mark.parametrize("fit", MAKERS)
def test_the_onnx_graph_answers_as_native_prediction_does(
    fit: Callable[[], Any], tmp_path: Path
) -> None:
    import onnxruntime

    fitted = fit()
    loaded = model(stored(fitted, tmp_path))
    assert loaded.problems(WORKLOAD) == []
    module = loaded.load(0)
    rows = FEATURES[:8]
    native: Any = module(X=torch.from_numpy(rows))
    example = Example(arrays={"X": rows}, keywords={}, specs=loaded.specs())
    module.write(tmp_path, example)  # type: ignore[operator]
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    answer = session.run(None, {"X": rows})
    assert len(answer) == len(native)
    for one, other in zip(answer, native.values(), strict=True):
        assert one.shape == other.shape
        assert one.dtype.kind == other.numpy().dtype.kind
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "fit",
    [forest, with_a_threshold, stacked, one_against_the_rest, partial(labels_of, bool)],
)
def test_labels_are_what_predict_says_and_probabilities_what_predict_proba_says(
    fit: Callable[[], Any], tmp_path: Path
) -> None:
    fitted = fit()
    native: Any = model(stored(fitted, tmp_path)).load(0)(X=torch.from_numpy(FEATURES))
    np.testing.assert_array_equal(native["labels"], fitted.predict(FEATURES))
    np.testing.assert_allclose(native["probabilities"], fitted.predict_proba(FEATURES), rtol=1e-6)


def test_a_file_runs_code_only_where_the_user_named_it(tmp_path: Path) -> None:
    path = stored(pipeline(), tmp_path)
    with trust.declared(["model=estimator"]):
        assert any("--trust" in problem for problem in model(path).problems(WORKLOAD))
        with pytest.raises(BuildError, match="may not be loaded"):
            model(path).load(0)
    with trust.declared(["model=estimator", f"model.estimator={path}"]):
        assert model(path).problems(WORKLOAD) == []


def test_another_file_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    path = stored(pipeline(), tmp_path)
    assert "not the estimator" in model(path, digest="0" * 64).problems(WORKLOAD)[0]


def test_mistakes_are_named_before_anything_is_loaded(tmp_path: Path) -> None:
    assert "there is no" in model(tmp_path / "none.joblib").problems(WORKLOAD)[0]
    path = stored(pipeline(), tmp_path)
    inputs: dict[str, Json] = {"y": INPUTS["X"]}
    assert any("takes X alone" in each for each in model(path, inputs=inputs).problems(WORKLOAD))
    np.savez(tmp_path / "rows.npz", x=FEATURES)
    inputs = {"file": str(tmp_path / "rows.npz")}
    assert any("takes X alone" in each for each in model(path, inputs=inputs).problems(WORKLOAD))
    inputs = {"factory": "nowhere:batches", "tensors": {"X": {"shape": ["batch_size", 6]}}}
    assert not any("X alone" in each for each in model(path, inputs=inputs).problems(WORKLOAD))
    assert any("checkpoint" in e for e in model(path, checkpoint="w.pt").problems(WORKLOAD))


LEAVES = """
import os
from sklearn.linear_model import LogisticRegression
os.chdir(os.path.dirname(os.path.abspath(__file__)))
class Mine(LogisticRegression): pass
"""


def test_a_file_is_read_by_its_name_although_its_classes_change_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "leaves_at_import.py").write_text(LEAVES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "sub")
    mine = importlib.import_module("leaves_at_import").Mine()
    stored(mine.fit(FEATURES, CLASSES), tmp_path)
    monkeypatch.delitem(sys.modules, "leaves_at_import")
    monkeypatch.chdir(tmp_path)
    loaded = model("fitted.pkl")
    loaded.load(0)
    assert Path.cwd() == tmp_path / "sub"
    assert loaded.problems(WORKLOAD) == []


@pytest.mark.parametrize("value", [{"weights": 1}, [1, 2]])
def test_a_file_without_an_estimator_fails_with_a_sentence(value: object, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no estimator"):
        model(stored(value, tmp_path)).load(0)


def test_several_labels_for_each_row_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="several labels at once"):
        model(stored(several_labels(), tmp_path)).load(0)


def test_the_api_requires_a_fitted_estimator_and_inputs() -> None:
    from sklearn.linear_model import Ridge

    import benchorch

    with pytest.raises(ConfigError, match="not fitted"):
        benchorch.benchmark(Ridge(), FEATURES, quiet=True)
    with pytest.raises(ConfigError, match="give the tensors"):
        benchorch.benchmark(pipeline(), quiet=True)


@pytest.mark.parametrize("train", [xgboost_booster, lightgbm_booster])
def test_what_a_train_function_returns_predicts_as_it_does_itself(
    train: Callable[[str], Any], tmp_path: Path
) -> None:
    name = "binary:logistic" if train is xgboost_booster else "binary"
    booster = train(name)
    rows: Any = FEATURES
    if train is xgboost_booster:
        import xgboost

        rows = xgboost.DMatrix(FEATURES)
        booster.set_attr(best_iteration="1")  # as early stopping leaves it
    native: Any = model(stored(booster, tmp_path)).load(0)(X=torch.from_numpy(FEATURES))
    expected = booster.predict(rows)
    np.testing.assert_allclose(native["probabilities"][:, 1], expected, rtol=1e-6)
    np.testing.assert_array_equal(native["labels"], expected > 0.5)


@pytest.mark.parametrize("train", [xgboost_booster, lightgbm_booster])
def test_the_api_takes_a_booster_and_names_it(train: Callable[[], Any]) -> None:
    from benchorch.config.composer import Composer, config_loader
    from benchorch.frontends.api.benchmark import _model_of

    found = _model_of(train(), Composer(config_loader()))
    assert (found.choice, found.words[0]) == ("estimator", "name=Booster")
