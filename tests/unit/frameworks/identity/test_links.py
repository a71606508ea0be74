"""A step of anyone else's is known by its code, one of benchorch's by its version."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.conversions.torchscript import TorchScript
from benchorch.frameworks.identity.distributions import installed
from benchorch.frameworks.identity.links import link_code
from benchorch.interfaces.conversion import Step
from benchorch.trial.build_keys import Keys
from support import conversions as lab

CODE = """
from benchorch.domain.artifact import Format
from benchorch.interfaces.conversion import ModuleStep

class Halved(ModuleStep):
    '''Weights are halved.'''
    consumes, produces = (Format.MODULE,), Format.MODULE
    requires = depends_on = ()
    version = 1
    def transform(self, module, example): return module * 0.5
"""
EDITED = CODE.replace("0.5", "0.25")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("steps_of_lab")]:
        del sys.modules[name]


def code_now(module: str) -> str | None:
    """The text that a new process would find."""
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("steps_of_lab")]:
        del sys.modules[name]
    installed.cache_clear()
    return link_code(importlib.import_module(module).Halved)


def test_benchorchs_own_have_none() -> None:
    assert link_code(TorchScript) is None


def test_a_file_counts_without_its_comments(folder: Path) -> None:
    file = folder / "steps_of_lab_file.py"
    file.write_text(CODE)
    before = code_now("steps_of_lab_file")
    assert before
    file.write_text("# Halves.\n" + CODE)
    assert code_now("steps_of_lab_file") == before
    file.write_text(EDITED)
    assert code_now("steps_of_lab_file") != before


@pytest.mark.parametrize("is_installed", [False, True])
def test_every_file_of_a_package_counts(is_installed: bool, folder: Path) -> None:
    package = folder / "steps_of_lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "halved.py").write_text(CODE)
    (package / "more.py").write_text("SHARE = 1\n")
    if is_installed:
        info = folder / "steps_of_lab-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: steps-of-lab\nVersion: 1.0\n")
        (info / "top_level.txt").write_text("steps_of_lab\n")
    before = code_now("steps_of_lab.halved")
    assert before
    assert before.startswith("steps-of-lab 1.0 ") == is_installed
    (package / "more.py").write_text("SHARE = 2\n")
    assert code_now("steps_of_lab.halved") != before


def test_a_key_has_the_code_of_a_step_of_the_users(folder: Path) -> None:
    (folder / "steps_of_lab_file.py").write_text(CODE)
    step: Step = importlib.import_module("steps_of_lab_file").Halved()
    chain = lab.chain_of("torchscript")

    def code(*steps: tuple[str, Step]) -> object:
        nodes = {"steps": {name: {"_target_": name} for name, _ in steps}}
        made = replace(chain, steps=steps, nodes=nodes)
        keys = Keys(made, threads=1, directory=folder, load=lambda: chain.model.load(0))
        return keys.after(len(steps)).fields.get("code")

    assert code(("halved", step), *chain.steps) == [link_code(type(step)), None]
    assert code(*chain.steps) is None
