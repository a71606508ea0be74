"""Facts of OpenVINO's backend of torch.compile, with a stand-in for its module."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from benchorch.runtimes import compile_openvino


class Part(torch.nn.Module):
    """What OpenVINO's backend puts in a graph's place."""

    def __init__(self, partition_id: int, *, perm_fallback: bool) -> None:
        super().__init__()
        self.partition_id, self.perm_fallback = partition_id, perm_fallback


class Compiled:
    """An ``openvino.CompiledModel`` of one product."""

    def get_runtime_model(self) -> SimpleNamespace:
        words = {"layerType": "FullyConnected", "runtimePrecision": "f32", "primitiveType": "gemm"}
        node = {name: np.str_(word) for name, word in words.items()}  # has astype, as OVAny has
        return SimpleNamespace(get_ops=lambda: [SimpleNamespace(get_rt_info=lambda: node)])

    def get_property(self, name: str) -> object:
        return {"INFERENCE_PRECISION_HINT": "f32", "SUPPORTED_PROPERTIES": ()}.get(name, 2)


def backend(cache: dict[object, Compiled], *parts: Part) -> SimpleNamespace:
    graph = torch.fx.GraphModule(torch.nn.ModuleList(parts), torch.fx.Graph())
    for number, part in enumerate(parts):
        graph.add_submodule(f"fused_{number}", part)
    return SimpleNamespace(compiled_cache=cache, partitioned_modules={"graph": graph})


@pytest.mark.parametrize("key", [3, (3, ((2, 4),))])
def test_operators_are_counted_however_a_release_names_what_it_compiled(
    monkeypatch: pytest.MonkeyPatch, key: object
) -> None:
    parts = Part(3, perm_fallback=False), Part(4, perm_fallback=True)
    found = backend({key: Compiled(), 9: Compiled()}, *parts)
    monkeypatch.setattr(compile_openvino, "_partitions", lambda: found)
    facts = compile_openvino._partition_facts()
    assert (facts["executed_nodes"], facts["threads"], facts["dtype"]) == (1, 2, "float32")
    assert (facts["partitions"], facts["fallback_partitions"]) == (2, 1)


def test_parts_that_pytorch_runs_by_now_count_no_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    found = backend({3: Compiled()}, Part(3, perm_fallback=True))
    monkeypatch.setattr(compile_openvino, "_partitions", lambda: found)
    facts = compile_openvino._partition_facts()
    assert "executed_nodes" not in facts
    assert facts["fallback_partitions"] == facts["partitions"] == 1


def test_its_backend_is_given_the_weights_as_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    known = []

    def compiler(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        context = TracingContext.try_get()
        assert context is not None
        known.extend(context.params_flat or ())  # what OpenVINO makes constants of
        return graph

    monkeypatch.setattr(compile_openvino, "import_openvino", lambda: None)
    monkeypatch.setitem(sys.modules, "openvino.torch", ModuleType("openvino.torch"))
    clear = SimpleNamespace(clear_caches=lambda: None)
    monkeypatch.setattr(compile_openvino, "_partitions", lambda: clear)
    torch._dynamo.reset()  # what other tests compiled of this class would be called
    module = torch.nn.Linear(4, 2)
    with compile_openvino._openvinos_dynamo(), torch.inference_mode():
        torch.compile(module, backend=aot_autograd(fw_compiler=compiler))(torch.zeros(1, 4))
    assert len(known) == 2
