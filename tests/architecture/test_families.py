"""Folders under conf/ and families under src/ are two views of the same members.

A family's module that defines a concrete member is the member's one file; the others help.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
import yaml

from benchorch.config.components import TARGET, resolve
from benchorch.config.conversion_aliases import RETIRED_TARGET
from benchorch.interfaces.conversion import Step
from benchorch.interfaces.executor import Executor
from benchorch.interfaces.hardware import Hardware
from benchorch.interfaces.model import Model
from benchorch.interfaces.profiler import Profiler
from benchorch.interfaces.recorder import Recorder
from benchorch.interfaces.runtime import Runtime
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.interfaces.store import Store

CONF = Path(__file__).resolve().parents[2] / "conf"
FAMILIES: dict[str, type] = {
    "models": Model,
    "conversions": Step,
    "runtimes": Runtime,
    "hardware": Hardware,
    "scenarios": Scenario,
    "stopping": Stopping,
    "profilers": Profiler,
    "executors": Executor,
    "stores": Store,
    "recorders": Recorder,
}
GROUPS = {
    "model": ("models",),
    "conversion": ("conversions", "runtimes"),
    "hardware": ("hardware",),
    "scenario": ("scenarios",),
    "stopping": ("stopping",),
    "profiler": ("profilers",),
    "executor": ("executors",),
    "store": ("stores",),
    "recorder": ("recorders",),
}
VALUES_ONLY = {"workload", "hydra"}
"""Groups that hold values rather than members of a family."""

YAMLS = [path for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]


def member(family: str, dotted: str) -> type:
    return resolve({TARGET: dotted}, FAMILIES[family], dotted)


def nodes(value: object) -> Iterator[dict[str, object]]:
    """Every mapping with a target, however deep."""
    if isinstance(value, dict):
        if TARGET in value:
            yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def targets(path: Path) -> list[str]:
    """The classes that a YAML names, those of the YAMLs it extends included."""
    content = yaml.safe_load(path.read_text()) or {}
    extended = [name for name in content.get("defaults", []) if isinstance(name, str)]
    bases = [path.with_name(f"{name}.yaml") for name in extended if name != "_self_"]
    inherited = [target for base in bases for target in targets(base)]
    return inherited + [str(node[TARGET]) for node in nodes(content)]


def concrete_members(family: str) -> set[str]:
    """Every class of a family's modules that could be constructed."""
    package = importlib.import_module(f"benchorch.{family}")
    modules = [
        importlib.import_module(f"benchorch.{family}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return {
        f"{cls.__module__}.{name}"
        for module in modules
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__
        and issubclass(cls, FAMILIES[family])
        and not inspect.isabstract(cls)
    }


def test_every_group_of_the_configuration_is_known() -> None:
    assert {path.name for path in CONF.iterdir() if path.is_dir()} == {*GROUPS, *VALUES_ONLY}


@pytest.mark.parametrize(
    "path",
    # A former name has its present one as its only default.
    [path for path in YAMLS if "former name" not in path.read_text()],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_a_yaml_names_members_of_its_family(path: Path) -> None:
    families = GROUPS[path.parent.name]
    named = targets(path)
    assert named, f"{path.name} names no class"
    for dotted in named:
        family = dotted.split(".")[1]
        assert family in families, f"{dotted} is not of {families}"
        member(family, dotted)


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_yaml_says_in_a_comment_what_it_is(path: Path) -> None:
    assert path.read_text().lstrip().startswith("#")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_is_reachable_from_the_configuration(family: str) -> None:
    named = {target for path in YAMLS for target in targets(path)}
    named.add(RETIRED_TARGET)  # by no file, but by each name that nothing can run any more
    assert concrete_members(family) - named == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_members_are_final(family: str) -> None:
    open_members = [
        dotted
        for dotted in concrete_members(family)
        if not getattr(member(family, dotted), "__final__", False)
    ]
    assert open_members == []


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("benchorch", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_do_not_know_each_other(
    family: str, imports: grimp.ImportGraph
) -> None:
    files = {dotted.rpartition(".")[0] for dotted in concrete_members(family)}
    chains = [
        imports.find_shortest_chain(importer=one, imported=other)
        for one, other in itertools.permutations(sorted(files), 2)
    ]
    assert [chain for chain in chains if chain] == []


def test_unit_tests_lie_in_the_folders_of_what_they_test() -> None:
    tests, source = Path(__file__).resolve().parents[1] / "unit", CONF.parent / "src" / "benchorch"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert [folder for folder in sorted(folders) if not (source / folder).is_dir()] == []
