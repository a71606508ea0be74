"""Whose classes a file of pickle or joblib names, and that their code is in an identity."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from benchorch.errors import BuildError
from benchorch.frameworks.module_fingerprint import content_of
from benchorch.models.estimator import EstimatorModel
from benchorch.models.pickled_names import code_of, names_only

joblib = pytest.importorskip("joblib", reason="no scikit-learn: benchorch[estimators]")
linear = pytest.importorskip("sklearn.linear_model", reason="no scikit-learn")

FEATURES = np.random.default_rng(0).normal(size=(50, 4))
CODE = """
class Scaled:
    def __init__(self, inner): self.inner = inner
    def get_params(self, deep=True): return {}
    def predict(self, rows): return self.inner.predict(rows * 3)
"""
PACKAGES = ("sklearn", "numpy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "users_steps.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("users_steps", None)


def fitted() -> object:
    """A classifier with an array of objects: its labels."""
    labels = np.array(["ant", "bee"], dtype=object)[(FEATURES[:, 0] > 0).astype(int)]
    return linear.LogisticRegression().fit(FEATURES, labels)


def own() -> object:
    import users_steps  # type: ignore[import-not-found]

    return users_steps.Scaled(linear.Ridge().fit(FEATURES, FEATURES @ np.arange(4.0)))


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("write", [pickle.dump, joblib.dump])
def test_names_are_read_between_the_arrays(write, protocol: int, folder: Path) -> None:  # type: ignore[no-untyped-def]
    file = folder / "one.pkl"
    with file.open("wb") as opened:
        write([fitted(), FEATURES.astype("f4"), np.array(3.0)], opened, protocol=protocol)
    assert names_only(file, PACKAGES)
    with file.open("wb") as opened:
        write([fitted(), FEATURES, own()], opened, protocol=protocol)
    assert not names_only(file, PACKAGES)


def test_nothing_of_a_file_runs_and_another_one_names_anything(tmp_path: Path) -> None:
    file, trace = tmp_path / "evil.pkl", tmp_path / "trace"
    file.write_bytes(b"cbuiltins\nopen\n(V" + str(trace).encode() + b"\nVw\ntR.")
    assert names_only(file, ())
    assert not trace.exists()
    file.write_bytes(b"no pickle")
    assert not names_only(file, ())


def test_a_file_with_a_class_of_the_users_is_known_by_its_code_too(folder: Path) -> None:
    file = folder / "fitted.joblib"
    joblib.dump(own(), file)
    model = EstimatorModel(estimator=str(file), inputs={"X": {"shape": [2, 4]}})
    assert model.identity() is None
    before = content_of(model.load(0)).fields
    (folder / "users_steps.py").write_text(CODE.replace("* 3", "* -5"))
    del sys.modules["users_steps"]
    after = content_of(model.load(0)).fields
    assert before["weights"] == after["weights"]
    assert before["code"] != after["code"]


@pytest.mark.parametrize("note", [None, sys, {}.keys(), property(len), memoryview(b"1")])
def test_a_file_that_cloudpickle_wrote_holds_what_pickle_does_not_write(
    note: object, tmp_path: Path
) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="no MLflow")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    steps = FunctionTransformer(lambda rows: rows * 3), linear.Ridge()
    pipeline = make_pipeline(*steps).fit(FEATURES, FEATURES @ np.arange(4.0))
    pipeline.__dict__ = {"note": note, **vars(pipeline)}
    file = tmp_path / "model.pkl"
    file.write_bytes(cloudpickle.dumps(pipeline))
    loaded = EstimatorModel(estimator=str(file), inputs={"X": {"shape": [2, 4]}}).load(0)
    assert [one.__name__ for one in loaded.code] == ["<lambda>"]  # type: ignore[union-attr]


def test_a_file_of_the_libraries_alone_is_known_without_loading(tmp_path: Path) -> None:
    file = tmp_path / "fitted.joblib"
    joblib.dump(fitted(), file)
    model = EstimatorModel(estimator=str(file), inputs={"X": {"shape": [2, 4]}})
    identity = model.identity()
    assert identity is not None
    assert sorted(identity) == ["digest", "packages", "version"]
    assert not hasattr(model.load(0), "code")


def test_code_is_found_in_what_pickle_does_not_write() -> None:
    def first() -> None: ...
    def second() -> None: ...
    def third() -> None: ...

    holder = [property(first), staticmethod(second), sys, MappingProxyType({"one": third})]
    assert [*code_of(holder, ())] == [first, second, third]


def test_an_estimators_request_has_its_callable_or_its_libraries() -> None:
    made = EstimatorModel(estimator="folder/mine.py:fitted", inputs={})
    assert made.requested()["estimator"] == "mine.py:fitted"
    assert "packages" in EstimatorModel(estimator="fitted.pkl", inputs={}).requested()


def test_a_pipeline_that_cannot_be_pickled_is_the_users_to_mend(tmp_path: Path) -> None:
    code = """
from sklearn.linear_model import LinearRegression
def fitted():
    made = LinearRegression().fit([[0.0], [1.0]], [0, 1])
    made.rule = lambda x: x
    return made
"""
    (tmp_path / "lambdas.py").write_text(code)
    made = EstimatorModel(estimator=f"{tmp_path}/lambdas.py:fitted", inputs={})
    with pytest.raises(BuildError, match="pickle") as caught:
        made.load(0)
    assert caught.value.kind == "user_code"
