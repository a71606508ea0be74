import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pytest

from benchorch.config import components
from benchorch.config.components import describe, fits, make
from benchorch.errors import ConfigError
from benchorch.executors.local import Local
from benchorch.interfaces.executor import Executor
from benchorch.interfaces.stopping import Stopping


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square(Shape):
    side: float
    colour: Literal["red", "blue"] = "red"

    def __post_init__(self) -> None:
        if self.side <= 0:
            raise ValueError(f"side must be above 0, got {self.side}")

    def area(self) -> float:
        return self.side**2


class Impostor:
    pass


@pytest.fixture(autouse=True)
def _this_module_is_allowed(monkeypatch):
    monkeypatch.setattr(components, "ALLOWED_PREFIXES", (f"{__name__}.", "benchorch.stopping."))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def node(name="Square", **keywords):
    return {"_target_": f"{__name__}.{name}", **keywords}


def test_a_node_becomes_the_object_it_describes():
    assert make(node(side=2), Shape, "shape") == Square(2)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "subprocess.Popen",
        "numpy.load",
        "benchorch.cli.main.main",
        "x",
    ],
)
def test_what_is_not_ours_is_refused_before_it_is_imported(target):
    with pytest.raises(ConfigError, match="not one of benchorch's own components"):
        make({"_target_": target, "command": "true"}, Shape, "shape")


def test_an_alias_of_something_else_is_refused():
    aliased = {"_target_": "benchorch.stopping.annotations", "a": 1}
    with pytest.raises(ConfigError):
        make(aliased, Stopping, "stopping")


def test_a_class_of_another_family_is_refused():
    with pytest.raises(ConfigError, match="is not a Shape"):
        make(node("Impostor"), Shape, "shape")


def test_an_abstract_class_is_refused():
    with pytest.raises(ConfigError, match="is not a Shape"):
        make(node("Shape"), Shape, "shape")


def test_a_tuple_whose_comma_was_forgotten_is_refused(monkeypatch):
    monkeypatch.setattr(Square, "requires", "torch", raising=False)
    with pytest.raises(ConfigError, match=r"Square.requires: got 'torch', it must be a tuple"):
        make(node(side=2), Shape, "shape")


def test_all_problems_of_a_node_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        make(node(sid=2, colour="green"), Shape, "shape")
    assert caught.value.problems == (
        "shape.sid: unknown option. Did you mean 'side'? Options: side, colour.",
        "shape.side: is missing; set shape.side=...",
        "shape.colour: expected one of 'red', 'blue', got 'green'.",
    )


def test_a_value_the_constructor_refuses_is_a_problem_of_the_node():
    with pytest.raises(ConfigError, match=r"shape: side must be above 0, got -1"):
        make(node(side=-1), Shape, "shape")


def test_a_misspelt_class_gets_a_suggestion():
    with pytest.raises(ConfigError, match=r"has no 'Squar'\. Did you mean 'Square'\?"):
        make(node("Squar"), Shape, "shape")


def test_a_node_without_a_target_is_refused():
    with pytest.raises(ConfigError, match="has no _target_"):
        make({"side": 1}, Shape, "shape")


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 1, True),
        (int, True, False),
        (int, 1.5, False),
        (float, 1, True),
        (float, "1", False),
        (str | None, None, True),
        (tuple[int, ...], [1, 2], True),
        (tuple[int, ...], [1, "2"], False),
        (Mapping[str, int], {"a": 1}, True),
        (Mapping[str, int], {"a": "b"}, False),
        (Mapping[str, int], [1], False),
        (Literal["a", "b"], "a", True),
        (Literal["a", "b"], "c", False),
    ],
)
def test_a_value_fits_an_annotation_or_not(hint, value, expected):
    assert fits(hint, value) is expected


def test_annotations_are_told_in_words():
    assert describe(int | None) == "a whole number or null"
    assert describe(tuple[str, ...]) == "a list of text"


@pytest.mark.parametrize("text", ["import a_package_that_is_not_there.part", "def", "1 / 0"])
def test_an_extension_that_cannot_be_imported_is_named(text, tmp_path, monkeypatch):
    package = tmp_path / "a_broken_extension"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "step.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_broken_extension", raising=False)
    monkeypatch.setattr(components, "extension_prefixes", lambda: ("a_broken_extension.",))
    with pytest.raises(ConfigError) as caught:
        make({"_target_": "a_broken_extension.step.Step"}, Shape, "conversion.steps.mine")
    (problem,) = caught.value.problems
    assert problem.startswith("conversion.steps.mine: ")
    if "import" in text:
        assert "a_package_that_is_not_there" in problem
    else:
        assert "'a_broken_extension', installed as one of benchorch.extensions" in problem


def test_an_executor_of_a_stored_plan_is_made_by_its_former_name(monkeypatch):
    monkeypatch.setattr(components, "ALLOWED_PREFIXES", ("benchorch.executors.",))
    node = {"_target_": "benchorch.executors.here.Here", "isolated": True, "kinds": ["local"]}
    assert make(node, Executor, "executor") == Local(isolated=True, kinds=["local"])


class Named(ABC):
    version = 1

    @property
    def labels(self) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True)
class Labelled(Named):
    labels: Mapping[str, str] | int = 0
    version: int | str = 2

    def area(self) -> float:
        return 0


@dataclass(frozen=True)
class Shadowed(Named):
    area: int = 3


@pytest.mark.parametrize(
    ("made", "key", "sentence"),
    [
        (node("Labelled"), "labels", "Named.labels, whose type is a mapping"),
        (node("Labelled", labels={}, version="3"), "version", "whose type is a whole number"),
        (node("Shadowed"), "area", "takes the place of Named.area"),
        (node("Shadowed", area=4), "area", "takes the place of Named.area"),
    ],
)
def test_an_option_that_hides_what_the_interface_has_is_a_problem(made, key, sentence):
    with pytest.raises(ConfigError) as caught:
        make(made, Named, "shape")
    (problem,) = caught.value.problems
    assert problem.startswith(f"shape.{key}: ")
    assert sentence in problem


def test_an_option_may_give_what_the_interface_has():
    assert make(node("Labelled", labels={"a": "b"}), Named, "shape").labels == {"a": "b"}
