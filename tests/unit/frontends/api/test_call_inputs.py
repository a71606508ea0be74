"""What a live module takes besides tensors: containers, caches, numbers, text and None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchorch.errors import ConfigError
from benchorch.frameworks.model_caches import know_cache
from benchorch.frontends.api.benchmark import _checked
from benchorch.frontends.api.call_inputs import with_tensors_alone
from benchorch.frontends.api.function_model import FunctionModule, is_function
from benchorch.frontends.api.live_model import forward_names


@dataclass
class Graph:
    x: torch.Tensor
    edges: torch.Tensor


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Embedding(9, 4)

    def forward(
        self, batch: Any, weights: Any = None, top: int = 3, kind: str = "dot"
    ) -> dict[str, Any]:
        scores = self.user(batch["ids"]["user"]).sum(-1)
        scores = scores if weights is None else scores * weights
        return {"scores": scores.topk(top).values if kind == "dot" else -scores, "count": top}


class OnGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, graph: Graph, mode: str) -> torch.Tensor:
        out = self.linear(graph.x)[graph.edges[0]]
        return out if mode == "nodes" else out.sum(0)


def answers(module: nn.Module, inputs: object) -> tuple[Any, Any]:
    """What the exported program gives for the inputs, and what the module itself gives."""
    request = _checked(module, inputs, "eager", "local", {})
    assert request.program is not None
    tensors = {name: torch.as_tensor(array) for name, array in request.sets[0].items()}
    names = forward_names(module)
    named = inputs if isinstance(inputs, dict) else dict(zip(names, inputs, strict=False))  # type: ignore[call-overload]
    with torch.no_grad():
        return request.program.module()(**tensors), module(**named)


@pytest.mark.parametrize("users", [torch.tensor([1, 2, 3]), np.array([1, 2, 3])])
def test_nested_containers_numbers_text_and_none_stay_as_they_were_given(users: Any) -> None:
    module = Nested().eval()
    inputs = {"batch": {"ids": {"user": torch.as_tensor(users)}}, "weights": None, "top": 2}
    exported, own = answers(module, inputs)
    assert torch.equal(exported[0], own["scores"])
    assert len(exported[0]) == 2
    given = {"batch": {"ids": {"user": users}}, "kind": "negated", "top": 1}
    request = _checked(module, given, "eager", "local", {})
    assert list(request.sets[0]) == ["batch_ids_user"]


def test_inputs_by_position_may_be_objects_that_hold_tensors() -> None:
    graph = Graph(torch.randn(5, 4), torch.tensor([[0, 1], [1, 2]]))
    exported, own = answers(OnGraph().eval(), (graph, "nodes"))
    assert torch.allclose(exported, own)


class Splitting(nn.Module):
    def forward(self, x: torch.Tensor, edges: Any, kind: str) -> Any:
        held = Graph(x * 2, x * 3) if kind == "dataclass" else Holder(x * 2, [x * 3])
        return held if edges is None else {"x": x, "held": held}


class Holder:
    def __init__(self, *parts: object) -> None:
        self.parts, self.itself = parts, self


@pytest.mark.parametrize("kind", ["dataclass", "object"])
@pytest.mark.parametrize("edges", [None, 1])
def test_the_tensors_of_objects_are_outputs(kind: str, edges: object) -> None:
    x = torch.ones(2, 3)
    request = _checked(Splitting(), {"x": x, "edges": edges, "kind": kind}, "eager", "local", {})
    assert request.program is not None
    found = [float(each[0, 0]) for each in request.program.module()(x=x)]
    assert found == ([2.0, 3.0] if edges is None else [1.0, 2.0, 3.0])


@pytest.mark.parametrize("kind", ["dynamic", "static", "encoder_decoder"])
def test_caches_of_transformers_are_inputs(kind: str) -> None:
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        StaticCache,
        T5Config,
        T5ForConditionalGeneration,
    )

    sizes = {"vocab_size": 64, "num_heads": 2, "num_layers": 1, "d_model": 16, "d_kv": 8}
    module: Any
    if kind == "encoder_decoder":
        module = T5ForConditionalGeneration(T5Config(**sizes, d_ff=32, decoder_start_token_id=0))
        ids = {"input_ids": torch.tensor([[5, 6, 1]]), "decoder_input_ids": torch.tensor([[0]])}
        with torch.no_grad():
            before = module.eval()(**ids)
        held = (before.encoder_last_hidden_state,)
        inputs = {"encoder_outputs": held, "decoder_input_ids": torch.tensor([[9]])}
        cache = before.past_key_values
    else:
        config = LlamaConfig(
            vocab_size=64,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
        module = LlamaForCausalLM(config).eval()
        cache = StaticCache(config=config, max_cache_len=8) if kind == "static" else None
        with torch.no_grad():
            cache = module(torch.tensor([[3, 4]]), past_key_values=cache).past_key_values
        inputs = {"input_ids": torch.tensor([[5]]), "position_ids": torch.tensor([[2]])}
    exported, own = answers(module, {**inputs, "past_key_values": cache, "use_cache": True})
    assert torch.allclose(exported[0], own.logits, atol=1e-5)


def test_what_no_file_can_hold_is_named_and_tensors_are_required() -> None:
    class Odd:
        pass

    users = torch.tensor([1, 2, 3])
    with pytest.raises(ConfigError, match="kind is a Odd, not a tensor"):
        _checked(Nested(), {"batch": {"ids": {"user": users}}, "kind": Odd()}, None, "local", {})
    with pytest.raises(ConfigError, match=r"inputs\['graph'\]: expected a torch tensor"):
        _checked(OnGraph(), {"graph": "words", "mode": "nodes"}, None, "local", {})
    with pytest.raises(ConfigError, match=r"the model takes no 'bach'. Did you mean 'batch'"):
        _checked(Nested(), {"bach": {"user": users}}, None, "local", {})
    sets = [{"batch": {"ids": {"user": users}}, "top": top} for top in (1, 2)]
    with pytest.raises(ConfigError, match=r"inputs\[1\]: differs from inputs\[0\]"):
        _checked(Nested(), sets, None, "local", {})


def test_of_a_function_of_text_the_model_that_it_calls_is_measured() -> None:
    net = nn.Linear(4, 2)

    class Pipeline:
        def __call__(self, text: str) -> str:
            return str(net(torch.full((1, 4), float(len(text)))))

    call = with_tensors_alone(FunctionModule(Pipeline()), [{"text": "four"}], ["text"])
    (arrays,) = call.sets
    assert arrays["input"].tolist() == [[4.0] * 4]
    assert "Linear, the first module that Pipeline calls, is measured" in call.note
    with pytest.raises(ConfigError, match="calls no module"):
        with_tensors_alone(FunctionModule(lambda text: text), [{"text": "four"}], ["text"])


def test_a_partial_of_a_modules_method_is_measured_itself() -> None:
    from functools import partial

    assert is_function(partial(Nested().forward, top=1))


def test_states_of_recurrent_layers_are_inputs_that_no_call_changes() -> None:
    from transformers import DynamicCache, MambaConfig, MambaForCausalLM

    know_cache(DynamicCache)  # a rebuilt one would be another cache
    config = MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=64, state_size=4)
    module = MambaForCausalLM(config).eval()
    with torch.no_grad():
        state = module(torch.tensor([[5, 6, 7]]), use_cache=True).cache_params
    inputs = {"input_ids": torch.tensor([[9]]), "cache_params": state, "use_cache": True}
    request = _checked(module, inputs, "eager", "local", {})
    assert request.program is not None
    program = request.program.module()
    tensors = {name: torch.as_tensor(array) for name, array in request.sets[0].items()}
    with torch.no_grad():
        first, again = program(**tensors), program(**tensors)
        own = module(**inputs)
    assert torch.equal(first[0], again[0])
    assert torch.allclose(first[0], own.logits, atol=1e-5)
