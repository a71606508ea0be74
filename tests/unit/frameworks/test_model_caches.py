"""Caches of the transformers library as torch flattens them."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree

from benchorch.frameworks import model_caches

transformers = pytest.importorskip("transformers")


class SingleStates:
    """A recurrent layer of transformers before 5.14."""

    def __init__(self) -> None:
        self.conv_states: torch.Tensor | None = None
        self.recurrent_states: torch.Tensor | None = None
        self.is_conv_states_initialized = self.is_recurrent_states_initialized = False


class NumberedStates:
    """One of later releases."""

    def __init__(self) -> None:
        self.conv_states: dict[int, torch.Tensor | None] = {0: None}
        self.recurrent_states: dict[int, torch.Tensor | None] = {0: None}
        self.is_conv_states_initialized = {0: False}
        self.is_recurrent_states_initialized = {0: False}


@pytest.mark.parametrize("kind", [SingleStates, NumberedStates])
def test_states_of_a_recurrent_layer_are_those_of_its_release(
    monkeypatch: pytest.MonkeyPatch, kind: type[SingleStates | NumberedStates]
) -> None:
    monkeypatch.setattr(transformers.cache_utils, "LinearAttentionLayer", kind)
    cache = transformers.DynamicCache()
    layer = model_caches._with_states({"recurrent_states.0": torch.ones(2)})
    cache.layers.append(layer)
    model_caches.know_cache(type(cache))

    leaves, spec = _pytree.tree_flatten(cache)
    rebuilt = _pytree.tree_unflatten([2 * each for each in leaves], spec).layers[0]

    assert [each.tolist() for each in leaves] == [[1, 1]]
    single = isinstance(rebuilt, SingleStates)
    state = rebuilt.recurrent_states if single else rebuilt.recurrent_states[0]
    assert state.tolist() == [2, 2]
    assert rebuilt.is_recurrent_states_initialized == (True if single else {0: True})
    assert rebuilt.is_conv_states_initialized == (False if single else {0: False})
