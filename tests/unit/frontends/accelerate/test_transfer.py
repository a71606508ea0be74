"""Captured graphs as programs and files, and what stays where it is, in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn

import benchorch
from benchorch.domain.tensors import Workload
from benchorch.frontends.accelerate.arguments import NotExportable
from benchorch.frontends.accelerate.capture import CaptureContext
from benchorch.frontends.accelerate.function import activate, deactivate
from benchorch.frontends.accelerate.transfer import ExportedCall, GraphExporter
from benchorch.frontends.api.live_model import OPTIONS
from benchorch.models.exported import ExportedModel


def captured(
    function: Callable[..., Any], *calls: tuple[Any, ...], **options: Any
) -> CaptureContext:
    accelerated = benchorch.accelerate(function, backend="eager", **options)
    capture = CaptureContext(most=100)
    activate(capture)
    try:
        with torch.no_grad():
            for call in calls:
                accelerated(*call)
    finally:
        deactivate()
    return capture


def sent(capture: CaptureContext, directory: Path) -> list[ExportedCall]:
    exporter = GraphExporter(directory=directory)
    return [
        exporter.export(graph, seen)
        for graph in capture.graphs.values()
        for seen in graph.signatures.values()
    ]


def tensor_of(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":  # which torch reads from no array
        return torch.tensor(array.astype("float32")).bfloat16()
    return torch.tensor(array)


def arrived(directory: Path, call: ExportedCall) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """What a trial's process makes of the files."""
    node = yaml.safe_load((directory / "conf" / "model" / f"{call.model}.yaml").read_text())
    del node["_target_"]
    model = ExportedModel(**node)
    rows = [word.partition("=")[2] for word in call.words if "batch_size" in word]
    workload = Workload(symbols={"batch_size": int(rows[0])} if rows else {})
    assert model.problems(workload) == []
    batch = model.batch(workload, seed=0)
    return model.load(seed=0), {name: tensor_of(array) for name, array in batch.items()}


def test_what_a_graph_makes_itself_becomes_its_input_so_that_nothing_is_computed_beforehand(
    tmp_path: Path,
) -> None:
    net = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3)).eval()

    def classify(words: list[str]) -> torch.Tensor:
        ids = torch.tensor([[len(word) for word in words]])
        made: torch.Tensor = net(ids).softmax(-1)
        return made

    capture = captured(classify, (["a", "bee"],))
    (call,) = sent(capture, tmp_path)
    module, inputs = arrived(tmp_path, call)
    (given,) = inputs.values()
    assert given.tolist() == [[1, 3]]
    name = next(iter(inputs))
    other = torch.tensor([[2, 5]])
    torch.testing.assert_close(module(**{name: other})[0], net(other).softmax(-1))


def test_a_graph_arrives_with_its_weights_and_inputs(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).eval()
    x = torch.randn(5, 4)
    (call,) = sent(captured(lambda x: net(x).softmax(-1), (x,)), tmp_path)
    module, inputs = arrived(tmp_path, call)
    assert call.model == "graph_1"
    assert "workload.batch_size=5" in call.words
    torch.testing.assert_close(module(**inputs)[0], net(x).softmax(-1))


@pytest.mark.parametrize("name", [*OPTIONS, "self"])
def test_an_argument_with_the_name_of_an_option_travels(tmp_path: Path, name: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def doubled({name}): return {name} * 2", names)
    (call,) = sent(captured(names["doubled"], (torch.ones(2, 3),)), tmp_path)
    module, inputs = arrived(tmp_path, call)
    torch.testing.assert_close(module(**inputs)[0], torch.full((2, 3), 2.0))


def test_one_program_serves_all_shapes_of_a_dynamic_graph(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).eval()
    xs = [torch.randn(rows, 4) for rows in (2, 3, 7)]
    function = lambda x: net(x) * x.shape[0]  # noqa: E731
    exported = sent(captured(function, *[(x,) for x in xs], dynamic=True), tmp_path)
    assert [each.model for each in exported] == [
        "graph_1",
        "graph_1_shapes_2",
        "graph_1_shapes_3",
    ]
    configs = (tmp_path / "conf" / "model").iterdir()
    assert len({yaml.safe_load(each.read_text())["program"] for each in configs}) == 1
    for call, x in zip(exported, xs, strict=True):
        module, inputs = arrived(tmp_path, call)
        torch.testing.assert_close(module(**inputs)[0], net(x) * len(x))


def test_numbers_that_change_are_a_part_of_the_graph(tmp_path: Path) -> None:
    capture = captured(lambda x, n, s: x * n + s, *[(torch.ones(3), n, n / 4) for n in (3, 5, 6)])
    answers = [
        module(**inputs)[0]
        for module, inputs in (arrived(tmp_path, each) for each in sent(capture, tmp_path))
    ]
    assert [answer[0].item() for answer in answers] == [3.75, 6.25, 7.5]


def test_a_single_number_and_a_transposed_tensor_arrive_as_they_are(tmp_path: Path) -> None:
    x, y = torch.tensor(2.0), torch.arange(6.0).reshape(2, 3).T
    (call,) = sent(captured(lambda x, y: x * y, (x, y)), tmp_path)
    module, inputs = arrived(tmp_path, call)
    assert torch.equal(module(**inputs)[0], x * y)


def test_float64_weights_keep_their_precision(tmp_path: Path) -> None:
    net = nn.Linear(2, 2).double().eval()
    x = torch.randn(1, 2, dtype=torch.float64)
    (call,) = sent(captured(net, (x,)), tmp_path)
    assert "workload.dtype=float64" in call.words
    module, inputs = arrived(tmp_path, call)
    assert torch.equal(module(**inputs)[0], net(x))


def test_bfloat16_weights_and_inputs_stay_as_they_are(tmp_path: Path) -> None:
    net = nn.Linear(2, 2).bfloat16().eval()
    x = torch.randn(1, 2).bfloat16()
    (call,) = sent(captured(net, (x,)), tmp_path)
    assert "workload.dtype=float32" in call.words
    module, inputs = arrived(tmp_path, call)
    assert {each.dtype for each in module.state_dict().values()} == {torch.bfloat16}
    assert torch.equal(module(**inputs)[0], net(x))


class _Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Linear(2, 2).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x).double())


@pytest.mark.parametrize(
    ("function", "call", "told"),
    [
        (lambda x: x * 2, (torch.ones(3, dtype=torch.complex64),), "its dtype is complex64"),
        (lambda x: x * 2, (torch.ones(0, 3),), "has no elements"),
        (lambda x: x.add_(1) * 2, (torch.ones(3),), "changes what it is called with"),
        (lambda x: nn.functional.dropout(x), (torch.ones(99),), "random numbers"),
        (nn.BatchNorm1d(4), (torch.ones(3, 4),), "changes the model's own state"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (torch.ones(3, 4),), "call .eval"),
        (
            nn.Linear(4, 4).to(torch.float8_e4m3fn).eval(),
            (torch.ones(3, 4).to(torch.float8_e4m3fn),),
            "float8_e4m3fn",
        ),
        (_Mixed().eval(), (torch.ones(1, 2),), "several precisions: torch.float32, torch.float64"),
    ],
)
def test_what_cannot_travel_stays_with_a_reason(
    function: Callable[..., Any], call: tuple[Any, ...], told: str, tmp_path: Path
) -> None:
    capture = captured(function, call)
    with pytest.raises(NotExportable, match=told):
        sent(capture, tmp_path)
    assert list(tmp_path.glob("conf/model/*")) == []
    if isinstance(function, nn.Module):
        assert all(not each.is_meta for each in function.parameters())


def test_a_sparse_tensor_is_pythons_matter_and_told_as_a_graph_break() -> None:
    capture = captured(torch.sparse.sum, (torch.eye(3).to_sparse(),))
    assert capture.graphs == {}
    assert any("sparse" in each.reason for each in capture.breaks())
