"""What stays in floats: integer arithmetic by itself, and what a user names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.conversions.onnx_export import OnnxExport
from benchorch.conversions.onnx_int8_dynamic import OnnxInt8Dynamic
from benchorch.conversions.onnx_int8_static import OnnxInt8Static
from benchorch.conversions.pt2e import Pt2e
from benchorch.conversions.pt2e_annotations import spare_nodes
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.torch_program import load_program, save_program
from benchorch.interfaces.conversion import BuildRequest, FileStep
from support import conversions as lab

N_BOX = 4


class YoloLike(torch.nn.Module):
    """Boxes in pixels and scores below 1 in one tensor, as detection heads return them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.SiLU())
        self.boxes = torch.nn.Conv2d(8, N_BOX, 1)
        self.scores = torch.nn.Conv2d(8, 5, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.body(image)
        boxes = torch.nn.functional.softplus(self.boxes(features)) * 300
        return torch.cat([boxes, self.scores(features).sigmoid()], 1).flatten(2)


class Positions(torch.nn.Module):
    """Positions that are counted from the mask in whole numbers, as RoBERTa does it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(16, 8)
        self.head = torch.nn.Linear(8, 4)
        self.tail = torch.nn.Linear(4, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = ids.ne(0).int()
        positions = (torch.cumsum(mask, 1).int() + mask) * mask
        return self.tail(self.head(self.embedding(positions) + 1.0))


def image(number: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {"image": rng.standard_normal((1, 3, 16, 16), dtype=np.float32)}


def request(module: torch.nn.Module, out: Path, source: Path | None, inputs: Any) -> BuildRequest:
    out.mkdir()
    kind = Format.ONNX if "image" in inputs(0) else Format.EXPORTED_PROGRAM
    return BuildRequest(
        module=lambda: module,
        source=source,
        sources={} if source is None else {kind: source},
        example=Example(arrays=inputs(0), keywords={}, specs=(), dynamic=()),
        calibration=inputs,
        out_dir=out,
        scratch_dir=out,
        device="cpu",
    )


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module]:
    torch.manual_seed(0)
    module = YoloLike().eval().requires_grad_(False)
    out = tmp_path_factory.mktemp("detector") / "onnx"
    OnnxExport().build(request(module, out, None, image))
    return out, module


def scores(step: FileStep, detector: tuple[Path, torch.nn.Module], out: Path) -> tuple[Any, Any]:
    """The int8 model's scores and the model's own."""
    import onnxruntime

    exported, module = detector
    step.build(request(module, out, exported, image))
    session = onnxruntime.InferenceSession(str(out / "model.onnx"))
    expected = module(torch.from_numpy(image(7)["image"]))
    return session.run(None, image(7))[0][:, N_BOX:], expected[:, N_BOX:].numpy()


def test_one_scale_for_boxes_and_scores_erases_the_scores(
    detector: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    found, _ = scores(OnnxInt8Static(samples=4), detector, tmp_path / "int8")
    assert len(np.unique(found)) <= 2


@pytest.mark.parametrize(
    "step",
    [
        OnnxInt8Static(samples=4, exclude=("cat",)),
        OnnxInt8Static(samples=4, exclude=("node_c*t",)),
        OnnxInt8Static(samples=4, operators=("Conv",)),
        OnnxInt8Static(samples=4, activations="uint16"),
    ],
)
def test_the_scores_survive_where_they_are_joined_in_floats(
    step: OnnxInt8Static, detector: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    found, expected = scores(step, detector, tmp_path / "int8")
    assert lab.relative_l2(found, expected) < 0.02


def test_a_pattern_that_fits_no_node_is_an_error(
    detector: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=r"no node is called 'catt'.*Did you mean 'cat'\?"):
        scores(OnnxInt8Dynamic(exclude=("catt",)), detector, tmp_path / "int8")


def test_dynamic_quantisation_keeps_what_is_excluded(
    detector: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="found no operator"):
        scores(OnnxInt8Dynamic(exclude=("*",)), detector, tmp_path / "int8")


class MarksEverything:
    """A quantizer that marks every operator and its inputs."""

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        for node in model.graph.nodes:
            if node.op == "call_function" and "assert" not in str(node.target):
                given = dict.fromkeys(node.all_input_nodes, "int8")
                node.meta["quantization_annotation"] = SimpleNamespace(
                    input_qspec_map=given, output_qspec=None
                )
        return model


def marked(exclude: tuple[str, ...] = (), operators: tuple[str, ...] = ()) -> list[str]:
    ids = torch.tensor([[1, 2, 0]])
    graph: Any = torch.export.export(Positions().eval(), (ids,), strict=True).module()
    quantizer = MarksEverything()
    spare_nodes(quantizer, exclude, operators)
    quantizer.annotate(graph)
    left = [node for node in graph.graph.nodes if "quantization_annotation" in node.meta]
    for node in left:
        inputs = node.meta["quantization_annotation"].input_qspec_map
        assert all(each.meta["val"].is_floating_point() for each in inputs if "val" in each.meta)
    return [str(node.target).split(".")[1] for node in left]


def test_integer_arithmetic_is_not_marked() -> None:
    assert marked() == ["embedding", "add", "linear", "linear"]


def test_modules_and_operators_can_be_kept_in_floats() -> None:
    assert marked(exclude=("head",)) == ["embedding", "add", "linear"]
    assert marked(operators=("linear",)) == ["linear", "linear"]
    with pytest.raises(BuildError, match="no node is called 'haed'"):
        marked(exclude=("haed",))


def test_a_mark_that_shares_a_spared_scale_goes_too() -> None:
    class Shares(MarksEverything):
        def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
            super().annotate(model)
            first, last = [n for n in model.graph.nodes if "linear" in str(n.target)]
            shared = SimpleNamespace(edge_or_node=(first.args[0], first))
            last.meta["quantization_annotation"].output_qspec = shared
            return model

    graph: Any = torch.export.export(Positions().eval(), (torch.ones(1, 3).int(),)).module()
    quantizer = Shares()
    spare_nodes(quantizer, ("head",), ())
    quantizer.annotate(graph)
    (last,) = [
        n.meta["quantization_annotation"]
        for n in graph.graph.nodes
        if "linear" in str(n.target) and "quantization_annotation" in n.meta
    ]
    assert last.output_qspec is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_pt2e_quantises_encoders_that_count_positions(dynamic: bool, tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    module = Positions().eval().requires_grad_(False)

    def ids(number: int) -> dict[str, Any]:
        return {"ids": np.random.default_rng(number).integers(0, 9, (2, 5))}

    exported = tmp_path / "exported"
    exported.mkdir()
    example = {"ids": torch.from_numpy(ids(0)["ids"])}
    save_program(torch.export.export(module, (), example, strict=True), exported)
    out = tmp_path / "int8"
    Pt2e(dynamic=dynamic, samples=4).build(request(module, out, exported, ids))
    found = load_program(out).module()(**example)
    assert lab.relative_l2(found[0].numpy(), module(**example).numpy()) < 0.05
