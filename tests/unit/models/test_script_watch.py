"""Names that what a script calls has for people."""

from __future__ import annotations

import torch

from benchorch.models.script_watch import class_name


def test_a_graph_of_fx_has_the_name_of_its_class_not_of_the_one_derived_for_it() -> None:
    graph = torch.fx.symbolic_trace(torch.nn.Linear(3, 2))
    assert class_name(type(graph)) == "torch.fx.graph_module.GraphModule"
    assert class_name(torch.nn.Linear) == "torch.nn.modules.linear.Linear"
