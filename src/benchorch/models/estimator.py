"""A fitted scikit-learn, XGBoost or LightGBM estimator, from a file or a user's own callable."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.domain.trial import ConfigNode
from benchorch.errors import BuildError
from benchorch.files import file_digest
from benchorch.frameworks.identity.distributions import installed
from benchorch.models import trust
from benchorch.models.boosters import as_estimator
from benchorch.models.callables import callable_problems, resolve_callable, user_code
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.pickled_names import code_of, names_only
from benchorch.models.seeding import frozen, seeded
from benchorch.models.start_folder import from_start

if TYPE_CHECKING:
    import torch

_LIBRARIES = ("scikit-learn", "xgboost", "lightgbm")
_THEIR_PACKAGES = ("sklearn", "numpy", "scipy", "xgboost", "lightgbm")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorModel(DeclaredModel):
    """Whatever has ``predict``: native prediction is the baseline, ONNX its conversion.

    Attributes:
        estimator: a file that joblib or pickle wrote, or ``path.py:callable`` that returns a fitted
            estimator. Loading such a file runs code in it, so it must be trusted as a script is.
        arguments: keywords that a callable is called with.
        digest: SHA-256 (hex) of the file when it was written; "" for whatever it holds now.
        labels: its name for people as ``model``, and others such as its author.
    """

    requires = ("torch", "scikit-learn", "skl2onnx")
    gives = (Format.ONNX, Format.CALLABLE)  # the callable is the library's own prediction
    version = 2  # 2: the ONNX graph has text labels as predict gives them

    estimator: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    digest: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def _file(self) -> Path | None:
        return from_start(self.estimator) if self.estimator.endswith(trust.PICKLES) else None

    def load(self, seed: int) -> torch.nn.Module:
        """The estimator as a module; BuildError of kind user_code where it is none."""
        from benchorch.models.architectures.estimator import Estimator

        found = self._file_problems()
        if found:
            raise BuildError(found[0], kind="user_code")
        with user_code(self.estimator), seeded(seed):
            made = _unpickled(self._file) if self._file else self._make()(**self.arguments)
            fitted = as_estimator(made)
        problem = fitted_problem(fitted)
        if problem:
            raise BuildError(f"{self.estimator} gives {problem}", kind="user_code")
        with user_code(self.estimator):  # what holds a lambda, say, has no pickle
            content = self._file.read_bytes() if self._file else pickle.dumps(fitted)
        code = code_of(fitted, _THEIR_PACKAGES) if self.identity() is None else ()
        return frozen(Estimator(fitted, hashlib.sha256(content).digest(), code))

    def identity(self) -> Mapping[str, Json] | None:
        """Digest of the file and releases of the libraries.

        None for a callable, and for a file with classes or functions of anyone else, which it
        holds by their names alone: only the walk over those that were loaded finds their code.
        """
        if self._file is None or not names_only(self._file, _THEIR_PACKAGES):
            return None
        packages = dict(installed(_LIBRARIES))
        return {"digest": file_digest(self._file), "version": self.version, "packages": packages}

    def requested(self) -> Mapping[str, Json]:
        """The class and its own options; of a file that is walked over, the libraries as well."""
        own = DeclaredModel.requested(self)  # a class with slots has no super() without arguments
        return own if self._file is None else {**own, "packages": dict(installed(_LIBRARIES))}

    def makers(self) -> Sequence[Callable[..., object]]:
        """The callable, if it is one."""
        return () if self._file else (self._make(),)

    def problems(self, workload: Workload) -> Sequence[str]:
        """The file or the callable, its arguments and the features."""
        where = "model.estimator"
        found = (
            [f"{where}: {problem}" for problem in self._file_problems()]
            if self._file
            else callable_problems(where, self.estimator, self.arguments)
        )
        names = self.input_names()
        if names and [*names] != ["X"]:
            found.append("model.inputs: an estimator takes X alone: {X: {shape: [batch_size, 16]}}")
        if self.checkpoint is not None:
            found.append("model.checkpoint: an estimator has none; its file holds what was fitted.")
        return [*found, *self.declared_problems(workload)]

    def _make(self) -> Callable[..., object]:
        return resolve_callable(self.estimator)

    def _file_problems(self) -> list[str]:
        path = self._file
        if path is None:
            return []
        if not path.is_file():
            return [f"there is no {path} on this machine."]
        if self.digest and file_digest(path) != self.digest:
            return [f"{path} is not the estimator that was written there."]
        refused = trust.refusal(self.estimator)
        return [refused.within(f"{path} may not be loaded: ", ".")] if refused else []


def fitted_problem(value: Any) -> str:
    """Why a value is no fitted estimator, as the end of a sentence; empty where it is one."""
    kind = f"a {type(value).__name__}"
    if not hasattr(value, "predict") or not hasattr(value, "get_params"):
        return f"{kind}, which is no estimator of scikit-learn's kind: it lacks predict, get_params"
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(value)
    except NotFittedError:
        return f"{kind} that is not fitted; call its fit first"
    except TypeError:  # it has no fit, as a booster that is taken for an estimator
        pass
    if _has_several_labels(value):
        return f"{kind} that predicts several labels at once; only one for each row is supported"
    return ""


def _has_several_labels(classifier: Any) -> bool:
    import numpy as np

    features = getattr(classifier, "n_features_in_", None)
    if features is None or not hasattr(classifier, "classes_"):
        return False
    with warnings.catch_warnings(action="ignore"), suppress(ValueError, TypeError):
        return bool(np.ndim(classifier.predict(np.zeros((1, features)))) > 1)
    return False  # it takes no array, and says so when it is called


def write_estimator(fitted: object, directory: Path) -> ConfigNode:
    """Write a live estimator to the directory, trusted from now on; the keys of ``model``."""
    import joblib

    directory.mkdir(parents=True, exist_ok=True)
    path = directory.resolve() / "estimator.joblib"
    joblib.dump(fitted, path)
    trust.grant(str(path))
    return {"estimator": str(path), "digest": file_digest(path)}


def _unpickled(path: Path) -> object:
    import joblib

    return joblib.load(path)
