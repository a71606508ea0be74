"""A configuration from elsewhere names code: none of it is run, however it is named.

Whatever would run leaves a marker, a directory that no test may find.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchorch.cli.foreign_code import refuse_foreign_code
from benchorch.config.components import make
from benchorch.config.composer import Composer, config_loader
from benchorch.domain.codec import Json
from benchorch.errors import BuildError, ConfigError
from benchorch.interfaces.model import Model
from benchorch.models.callables import resolve_callable
from benchorch.models.factory import FactoryModel
from benchorch.run.planner import plan_jobs

QUIET = """
defaults:
  - config
  - override model: mlp
  - override conversion: eager
  - override recorder: none
  - _self_
"""
COMMANDS = (
    *("os.system", "posix.system", "builtins.eval", "builtins.exec", "subprocess.Popen"),
    *("runpy.run_path", "ctypes.CDLL", "timeit.timeit", "cProfile.run", "shelve.open"),
    *("logging.os.system", "hydra.utils.get_method", "hydra.utils.instantiate"),
    *("importlib.import_module", "code.interact", "pip.main", "webbrowser.open"),
)
READERS = ("numpy.load", "pandas.read_pickle", "joblib.load", "pickle.loads", "torch.load")
ALIASES = (
    "benchorch.stopping.fixed.dataclass",
    "benchorch.executors.ray.os.system",
    "benchorch.executors.ray.time.sleep",
    "benchorch.stores..os.system",
    "benchorch.stopping.fixed.__loader__",
    "benchorch.models.factory.resolve_callable",
)
LOOK_ALIKES = (
    "os.system",
    "bench\u043erch.models.factory.FactoryModel",  # a Cyrillic o
    "benchorch\u2024models.factory.FactoryModel",  # a dot that is none
    " benchorch.models.factory.FactoryModel",
    "BENCHORCH.models.factory.FactoryModel",
    "benchorch/../os.system",
)
PLACES = (
    *("model", "stopping", "scenario", "store", "executor", "recorder", "profiler", "hardware"),
    *("conversion.steps.evil", "conversion.runtime"),
)


class Evil:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        import os

        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def options(tmp_path: Path, marker: Path) -> Mapping[str, Json]:
    """What every one of the functions above needs to do harm."""
    planted = tmp_path / "planted.pkl"
    planted.write_bytes(pickle.dumps(Evil(marker)))
    pickle.loads(planted.read_bytes())  # it does work
    marker.rmdir()
    return {"file": str(planted), "allow_pickle": True, "command": f"mkdir {marker}"}


def composer(folder: Path, text: str) -> Composer:
    (folder / "foreign.yaml").write_text(f"{QUIET}\n{text}\n")
    return Composer(config_loader([folder]), "foreign")


def nested(place: str, node: object) -> dict[str, object]:
    for name in reversed(place.split(".")):
        node = {name: node}
    return node  # type: ignore[return-value]


def as_yaml(node: object) -> str:
    import yaml

    return str(yaml.safe_dump(node))


@pytest.mark.parametrize("target", [*COMMANDS, *READERS, *ALIASES, *LOOK_ALIKES])
def test_a_target_that_is_no_component_is_refused(
    target: str, options: Mapping[str, Json], marker: Path
) -> None:
    with pytest.raises(ConfigError):
        make({"_target_": target, **options}, Model, "model")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("place", "more"),
    [
        *((place, {}) for place in PLACES),
        *(("stopping", {word: True}) for word in ("_partial_", "_recursive_", "_args_")),
    ],
)
def test_no_place_of_a_recipe_lets_one_in(
    place: str,
    more: dict[str, Json],
    options: Mapping[str, Json],
    marker: Path,
    tmp_path: Path,
) -> None:
    text = as_yaml(nested(place, {"_target_": "numpy.load", **options, **more}))
    with pytest.raises(ConfigError, match=r"numpy\.load"):
        plan_jobs(composer(tmp_path, text), [[]], "p")
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "name: numpy.load\nstopping: {_target_: '${name}'}",
        "name: load\nstopping: {_target_: 'numpy.${name}'}",
        "matrix: {stopping._target_: [numpy.load, joblib.load]}",
        "each: [stopping._target_=numpy.load]",
    ],
)
def test_a_target_that_is_put_together_later_is_refused_too(
    text: str, marker: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="load"):
        plan_jobs(composer(tmp_path, text), [[]], "p")
    assert not marker.exists()


@pytest.mark.parametrize("shape", ["nested", "item"])
def test_a_node_inside_arguments_stays_data(
    shape: str, options: Mapping[str, Json], marker: Path
) -> None:
    evil = {"_target_": "numpy.load", **options}
    arguments = {"inner": evil if shape == "nested" else [evil]}
    node = {
        "_target_": "benchorch.models.factory.FactoryModel",
        "factory": "my:model",
        "inputs": {"x": {"shape": [1]}},
        "arguments": arguments,
    }
    made = make(node, Model, "model")
    assert isinstance(made, FactoryModel)
    assert made.arguments == arguments
    assert not marker.exists()


@pytest.mark.parametrize(
    "reference",
    [
        *("os:system", "torch:os.system", "benchorch.executors.ray:os.system"),
        *("torch:builtins.eval", "torch.serialization:pickle.loads", "cloudpickle:loads"),
        *("numpy:load", "pandas:read_pickle", "joblib:load", "torch:load"),
        *("hydra.utils:instantiate", "\uff4fs:system"),
    ],
)
def test_a_factory_is_neither_pythons_own_nor_a_reader_of_pickles(reference: str) -> None:
    with pytest.raises(BuildError, match="may not be called"):
        resolve_callable(reference)


def test_pip_is_no_factory() -> None:
    """In a process of its own: pip, once imported, keeps setuptools from being imported later."""
    code = "from benchorch.models.callables import resolve_callable; resolve_callable('pip:main')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "BuildError" in done.stderr
    assert "may not be called" in done.stderr


def test_a_users_own_function_may_be_wrapped_in_pythons(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from functools import lru_cache, partial\n"
        "def build(width): return width\n"
        "small = partial(partial(build), width=2)\n"
        "kept = lru_cache(build)\n"
    )
    assert resolve_callable(f"{tmp_path}/mine.py:small")() == 2
    assert resolve_callable(f"{tmp_path}/mine.py:kept")(3) == 3


HYDRAS = {
    "callbacks": {"callbacks": {"evil": {"_target_": "numpy.load"}}},
    "an interpolated target": {"callbacks": {"evil": {"_target_": "${name}"}}},
    "a handler": {"job_logging": {"version": 1, "handlers": {"evil": {"()": "numpy.load"}}}},
    "a handler's class": {"hydra_logging": {"handlers": {"evil": {"class": "numpy.load"}}}},
    "a formatter": {"job_logging": {"formatters": {"evil": {"()": "os.system"}}}},
    "a logging by reference": {"job_logging": "${matrix}"},
    "a launcher": {"launcher": {"_target_": "numpy.load"}},
    "a sweeper": {"sweeper": {"_target_": "numpy.load"}},
    "a part of a sweeper": {"sweeper": {"+sampler": {"_target_": "numpy.load"}}},
    "an alias in a plugin": {"sweeper": {"_target_": "hydra_plugins._benchorch.os.system"}},
    "a list": {"callbacks": {"evil": [{"_target_": "numpy.load"}]}},
    "a variable that loads a library": {"job": {"env_set": {"LD_PRELOAD": "/evil.so"}}},
}


@pytest.mark.parametrize("name", HYDRAS)
def test_hydras_own_settings_let_none_in(name: str, tmp_path: Path) -> None:
    (tmp_path / "foreign.yaml").write_text(f"{QUIET}\n{as_yaml({'hydra': HYDRAS[name]})}")
    with pytest.raises(ConfigError, match=r"hydra\."):
        refuse_foreign_code(Composer(config_loader([tmp_path]), "foreign"), [])


def test_a_recipe_with_a_callback_ends_before_it_is_called(
    options: Mapping[str, Json], marker: Path, tmp_path: Path
) -> None:
    evil = {"_target_": "numpy.load", "file": options["file"], "allow_pickle": True}
    text = as_yaml({"hydra": {"callbacks": {"evil": evil}}})
    (tmp_path / "foreign.yaml").write_text(f"{QUIET}\n{text}")
    done = subprocess.run(
        [sys.executable, "-m", "benchorch", "foreign.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, marker.exists()) == (2, False)
    assert "hydra.callbacks: is not for recipes" in done.stderr


@pytest.mark.parametrize("words", [[], ["hydra/sweeper=basic", "hydra.mode=MULTIRUN"]])
def test_hydras_own_plugins_are_let_in(words: list[str]) -> None:
    refuse_foreign_code(Composer(config_loader()), words)
