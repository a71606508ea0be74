"""Modules that forked processes find loaded by their template."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from benchorch.trial import live_module


@dataclass(frozen=True)
class Counting:
    """A model that counts how often it is loaded."""

    loads: list[int] = field(default_factory=list, compare=False)
    width: int = 3
    kept: ClassVar[bool] = True

    def load(self, seed: int) -> torch.nn.Module:
        self.loads.append(torch.get_num_threads())
        torch.manual_seed(seed)
        return torch.nn.Linear(self.width, self.width)


@dataclass(frozen=True)
class OfAUser(Counting):
    kept: ClassVar[bool] = False


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "_KEPT", [])
    monkeypatch.setattr(live_module, "apply_tf32", lambda setup: None)


def setup_of(model: Counting, seed: int = 0) -> Any:
    return SimpleNamespace(model=model, workload=SimpleNamespace(seed=seed, dtype="float32"))


def loaded(setup: Any) -> torch.nn.Module:
    return live_module.loader(setup, lambda message: None)()


def test_the_first_load_of_a_process_finds_what_its_template_loaded_and_no_other() -> None:
    model = Counting()
    setup = setup_of(model)
    live_module.keep(setup)
    live_module.keep(setup_of(Counting()))  # equal: another conversion of the same model
    assert len(model.loads) == 1
    one = loaded(setup)
    assert len(model.loads) == 1
    other = loaded(setup)
    assert len(model.loads) == 2
    weights = [next(each.parameters()) for each in (one, other)]
    assert torch.equal(*weights)
    assert weights[0].data_ptr() != weights[1].data_ptr()


def test_a_template_copies_the_modules_that_a_process_loads_after_the_first() -> None:
    model = Counting()
    live_module.keep(setup_of(model), live_module.MOST_KEPT)
    found = [loaded(setup_of(model)) for _ in range(live_module.MOST_KEPT)]
    assert len(model.loads) == 1
    weights = [next(each.parameters()) for each in found]
    assert len({each.data_ptr() for each in weights}) == live_module.MOST_KEPT
    assert all(torch.equal(weights[0], each) for each in weights)
    loaded(setup_of(model))
    assert len(model.loads) == 2


@pytest.mark.parametrize("how", ["attribute", "hook", "refused"])
def test_a_module_whose_copy_might_call_it_is_not_copied(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    model = Counting()
    module = Counting.load(model, 0)
    if how == "attribute":
        module.shortcut = lambda x: module.bias + x  # type: ignore[assignment]
    elif how == "hook":
        module.register_forward_hook(lambda *_: module.bias)
    else:
        module.name = (each for each in ())  # type: ignore[assignment]
    monkeypatch.setattr(Counting, "load", lambda self, seed: self.loads.append(1) or module)
    live_module.keep(setup_of(model), live_module.MOST_KEPT)
    assert len(live_module._KEPT) == 1


def test_another_seed_or_width_is_loaded() -> None:
    live_module.keep(setup_of(Counting()))
    for setup in (setup_of(Counting(), seed=1), setup_of(Counting(width=4))):
        loaded(setup)
        assert len(setup.model.loads) == 1


def test_a_users_model_is_loaded_in_each_process() -> None:
    model = OfAUser()
    live_module.keep(setup_of(model))
    assert model.loads == []
    loaded(setup_of(model))
    assert len(model.loads) == 1


def test_a_template_loads_with_one_thread_and_leaves_their_number() -> None:
    model, before = Counting(), torch.get_num_threads()
    live_module.keep(setup_of(model))
    assert model.loads == [1]
    assert torch.get_num_threads() == before


def test_models_of_transformers_are_kept() -> None:
    from benchorch.models.transformers import TransformersModel

    assert TransformersModel.kept
