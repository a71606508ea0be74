"""A user's callable is checked from its source alone, and called with care."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.models import trust
from benchorch.models.callables import (
    callable_problems,
    check_forward,
    reference_problems,
    resolve_callable,
    user_code,
)

USERS_MODULE = """
import math as m
from os import path as p
CONSTANT = annotated = 3
typed: int = 4
first, (second, *rest) = 1, (2, 3)
if True:
    def conditional(): ...
else:
    def otherwise(): ...
try:
    import torch_extras
except ImportError:
    torch_extras = None
else:
    loaded = True
for looped in ():
    pass
with open(__file__) as handle:
    inside = 1

async def later(): ...

def make_model(width, depth=2, *, bias, scale=1.0):
    hidden_inside = width
    return None

def anything(**options): ...

def decorate(function): return function

@decorate
def decorated(width): ...

class Net:
    def __init__(self, width, depth=1): ...

    class Inner: ...

class Plain(Net): ...

raise RuntimeError("planning must not run this")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "users_pkg"
    (package / "deep").mkdir(parents=True)
    (tmp_path / "bare_folder").mkdir()
    (package / "bare" / "deeper").mkdir(parents=True)
    (package / "bare" / "deeper" / "module.py").write_text("def make(): ...")
    (package / "__init__.py").write_text("raise RuntimeError('parents must not be imported')")
    (package / "module.py").write_text(USERS_MODULE)
    (package / "deep" / "__init__.py").write_text("def make(): ...")
    (package / "starred.py").write_text("from os.path import *")
    (package / "lazy.py").write_text("def __getattr__(name): return 1")
    (package / "dynamic.py").write_text("globals()['make'] = int")
    (package / "torn.py").write_text("def make(:\n")
    (package / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nmärchen = 1\n".encode("latin-1"))
    (package / "bytes.py").write_bytes(b"x = '\xff'\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def problems(reference: str, **arguments: Json) -> list[str]:
    return callable_problems("model.factory", reference, arguments)


@pytest.mark.parametrize(
    "name",
    [
        *("m", "p", "CONSTANT", "annotated", "typed", "first", "second", "rest", "conditional"),
        *("otherwise", "torch_extras", "loaded", "looped", "handle", "inside", "later"),
        *("anything", "decorated", "Plain", "Net.Inner"),
    ],
)
def test_every_way_to_bind_a_name_is_seen(name: str) -> None:
    assert problems(f"users_pkg.module:{name}") == []


def test_nothing_of_the_users_is_imported() -> None:
    problems("users_pkg.module:Plain")
    problems("users_pkg.deep:make")
    problems("users_pkg.bare.deeper.module:make")
    assert not {"users_pkg", "users_pkg.module", "users_pkg.deep"} & set(sys.modules)


@pytest.mark.parametrize("module", ["starred", "lazy", "dynamic"])
def test_names_that_only_running_could_tell_are_let_through(module: str) -> None:
    assert problems(f"users_pkg.{module}:whatever") == []


def test_a_module_in_folders_without_init_of_a_package_is_found() -> None:
    assert problems("users_pkg.bare.deeper.module:make") == []


def test_an_extension_module_is_let_through() -> None:
    assert problems("numpy._core._multiarray_umath:whatever") == []


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("users_pkg.module:make_modle", "has no 'make_modle'. Did you mean 'make_model'?"),
        ("users_pkg.module:hidden_inside", "has no 'hidden_inside'."),
        ("users_pkg.modul:make", "there is no module 'users_pkg.modul'. Did you mean 'module'?"),
        ("user_pkg.module:make", "there is no module 'user_pkg'. Did you mean 'users_pkg'?"),
        ("users_pkg.module.deeper:make", "is a module, not a package: it holds no 'deeper'"),
        ("users_pkg.torn:make", "has a syntax error on line 1"),
        ("users_pkg.bytes:x", "has a syntax error on line"),
        ("users_pkg.latin:maerchen", "Did you mean 'märchen'?"),
        ("bare_folder:make", "is a folder without __init__.py"),
        ("users_pkg.bare:make", "is a folder without __init__.py"),
        ("users_pkg.bare.deeper.modul:make", "Did you mean 'module'?"),
        ("os:system", "'os' belongs to Python's standard library"),
        ("subprocess:run", "'subprocess' belongs to Python's standard library"),
        ("builtins:eval", "'builtins' belongs to Python's standard library"),
        ("my.module.make", "not of the form 'package.module:callable'. Did you mean 'my.module:ma"),
        ("make", "'make' is not of the form"),
        ("", "'' is not of the form"),
        ("a:b:c", "'a:b:c' is not of the form"),
        ("../evil:make", "'../evil:make' is not of the form"),
        ("a b:c", "'a b:c' is not of the form"),
    ],
)
def test_a_reference_that_cannot_be_called_is_told(reference: str, sentence: str) -> None:
    (problem,) = problems(reference)
    assert problem.startswith("model.factory: ")
    assert sentence in problem


INSTALLED = {
    "psutil:Popen": "a class",
    "yaml:unsafe_load": "a function",
    "numpy.testing:assert_equal": "one that another module defines",
    "torch.hub:load": "a function of torch's",
    "omegaconf:OmegaConf.load": "a method",
    "joblib:load": "a function that a package takes from its modules",
}


@pytest.mark.parametrize("reference", INSTALLED)
def test_what_is_installed_and_no_class_of_modules_is_refused_unseen(reference: str) -> None:
    before = set(sys.modules)
    (problem,) = reference_problems("model.factory", reference)
    assert f"no subclass of torch.nn.Module; to call it, add --trust {reference}" in problem
    assert set(sys.modules) == before
    with trust.declared(["--trust", reference]):
        assert reference_problems("model.factory", reference) == []


@pytest.mark.parametrize(
    "reference",
    ["torch.nn:Linear", "torch.nn:TransformerEncoderLayer", "torch.nn.modules.module:Module"],
)
def test_an_installed_class_of_modules_is_let_through(reference: str) -> None:
    assert reference_problems("model.factory", reference) == []


def test_what_a_users_file_imports_is_refused_unseen(folder: Path) -> None:
    (folder / "users_pkg" / "takes.py").write_text("from yaml import unsafe_load as make\n")
    (problem,) = problems("users_pkg.takes:make")
    assert "call it in a function of your own" in problem


def test_definitions_that_lead_nowhere_end(folder: Path) -> None:
    text = (
        "from . import rounds\nfrom .rounds import *\nfrom .rounds import make\nclass A(A): ...\n"
    )
    (folder / "users_pkg" / "rounds.py").write_text(text)
    assert problems("users_pkg.rounds:make") == []
    assert problems("users_pkg.rounds:A") == []


def test_arguments_are_held_against_the_signature() -> None:
    assert problems("users_pkg.module:make_model", width=1, bias=True) == []
    assert problems("users_pkg.module:Net", width=1) == []
    assert problems("users_pkg.module:anything", x=1) == []
    assert problems("users_pkg.module:decorated", x=1) == []
    assert problems("users_pkg.module:Plain", x=1) == []
    found = problems("users_pkg.module:make_model", widht=1)
    assert found == [
        "model.arguments.widht: make_model takes no 'widht'. Did you mean 'width'? "
        "Arguments: width, depth, bias, scale.",
        "model.arguments.width: is missing; make_model needs it. Add +model.arguments.width=...",
        "model.arguments.bias: is missing; make_model needs it. Add +model.arguments.bias=...",
    ]
    assert "Net needs it" in problems("users_pkg.module:Net")[0]


def test_an_edited_module_is_read_again(folder: Path) -> None:
    assert problems("users_pkg.deep:created") != []
    (folder / "users_pkg/deep/__init__.py").write_text("def created(): ...  # new")
    assert problems("users_pkg.deep:created") == []


def test_a_module_beside_the_file_comes_before_those_of_other_folders_and_after_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(trust, "_looked_in", set[str]())  # not those of earlier tests
    for place, helpers in (("installed", "b"), ("current", "ab"), ("beside", "ab")):
        (tmp_path / place).mkdir()
        for name in helpers:
            (tmp_path / place / f"helper_{name}.py").write_text(f"def make(): return {place!r}\n")
    for name in "ab":
        (tmp_path / "beside" / f"nets_{name}.py").write_text(f"from helper_{name} import make\n")
    sys.path.append(str(tmp_path / "installed"))
    trust.look_in([str(tmp_path / "current")])
    found = [resolve_callable(f"{tmp_path}/beside/nets_{name}.py:make")() for name in "ab"]
    assert found == ["beside", "installed"]


def test_what_a_users_module_raises_is_the_users_bug() -> None:
    with pytest.raises(BuildError, match=r"module:Net raised RuntimeError: parents") as e:
        resolve_callable("users_pkg.module:Net")
    assert e.value.kind == "user_code"
    assert isinstance(e.value.__cause__, RuntimeError)
    assert "__init__.py, line 1" in str(e.value)


def test_the_standard_library_is_not_called_even_unplanned() -> None:
    with pytest.raises(BuildError, match="may not be called"):
        resolve_callable("os:system")


def test_leaving_the_program_is_the_users_bug_and_an_interruption_is_not() -> None:
    with pytest.raises(BuildError, match="raised SystemExit: 3"), user_code("a:b"):
        raise SystemExit(3)
    with pytest.raises(KeyboardInterrupt), user_code("a:b"):
        raise KeyboardInterrupt


def test_running_out_of_memory_stays_what_it_is() -> None:
    with pytest.raises(MemoryError), user_code("a:b"):
        raise MemoryError


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (["x"], "in model.inputs, or --input of init, write x as input"),
        (["x", "y"], "name model.inputs and model.kwargs after forward's arguments"),
    ],
)
def test_an_input_of_another_name_is_told_what_to_call_it(names: list[str], remedy: str) -> None:
    def forward(input: int, other: int = 1) -> None: ...

    module: Any = SimpleNamespace(forward=forward)
    with pytest.raises(BuildError, match="do not fit") as refused:
        check_forward("ranker.py:build", module, names)
    assert refused.value.remedy == remedy
