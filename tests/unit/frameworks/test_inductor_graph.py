"""The graph that Inductor says it generated code for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.frameworks.inductor_graph import read_inductor_graph
from benchorch.trace.operators.graph import OperatorNode

SAID = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[2, 4]cpu", arg1_1: "f32[4, 4]cpu"):
        # File: model.py:3 in forward, code: x = self.linear(x)
        permute: "f32[4, 4]cpu" = torch.ops.aten.permute.default(arg1_1, [1, 0]);  arg1_1 = None
        mm: "f32[2, 4]cpu" = torch.ops.aten.mm.default(arg0_1, permute);  arg0_1 = permute = None
        var_mean = torch.ops.aten.var_mean.correction(mm, [1], correction = 0)
        getitem: "f32[2, 1]cpu" = var_mean[0];  var_mean = None
        sub: "f32[2, 4]cpu" = torch.ops.aten.sub.Tensor(mm, getitem);  mm = getitem = None
        return (sub,)
"""


def graph_of(text: str, tmp_path: Path) -> dict[str, OperatorNode]:
    path = tmp_path / "graph.txt"
    path.write_text(text)
    return {node.name: node for node in read_inductor_graph(path).nodes}


def test_operators_are_known_by_what_they_do_and_what_they_read(tmp_path: Path) -> None:
    found = graph_of(SAID, tmp_path)
    assert {name: (node.op, node.inputs) for name, node in found.items()} == {
        "permute": ("aten.permute", ()),
        "mm": ("aten.mm", ("permute",)),
        "var_mean": ("aten.var_mean", ("mm",)),
        "getitem": ("getitem", ("var_mean",)),
        "sub": ("aten.sub", ("mm", "getitem")),
    }
    assert found["mm"].attributes == {"outputs": "f32[2, 4]cpu"}


@pytest.mark.parametrize("text", ["", "not python at all", "x = 1"])
def test_another_file_is_told_apart(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no graph that Inductor wrote"):
        graph_of(text, tmp_path)
