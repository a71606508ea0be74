"""ResNet: torchvision's sizes and names, and the numbers of another implementation."""

from __future__ import annotations

import pytest
import torch

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.models.architectures.resnet import resnet
from benchorch.models.resnet import ResNet

WORKLOAD = Workload(symbols={"batch_size": 2})


def images(shape: Json, name: str = "x") -> dict[str, Json]:
    return {name: {"shape": shape, "generator": "normal"}}


@pytest.mark.parametrize(
    ("depth", "count"),
    # torchvision's own documentation gives these counts for 1,000 classes.
    [
        (18, 11_689_512),
        (34, 21_797_672),
        (50, 25_557_032),
        (101, 44_549_160),
        (152, 60_192_808),
    ],
)
def test_the_number_of_parameters_is_torchvisions(depth: int, count: int) -> None:
    with torch.device("meta"):
        network = resnet(depth, 1000)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_the_names_are_torchvisions() -> None:
    with torch.device("meta"):
        names = set(resnet(50, 1000).state_dict())
    assert len(names) == 320
    assert {
        "conv1.weight",
        "bn1.running_mean",
        "bn1.num_batches_tracked",
        "layer1.0.conv3.weight",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.running_var",
        "layer3.5.bn2.bias",
        "layer4.2.bn3.weight",
        "fc.bias",
    } <= names
    assert "layer1.1.downsample.0.weight" not in names


def in_the_other_order(name: str) -> str:
    """The name that the transformers library has for one of torchvision's."""
    kinds = {"conv": "convolution", "bn": "normalization"}
    part, _, last = name.rpartition(".")
    if part == "fc":
        return f"classifier.1.{last}"
    if part in ("conv1", "bn1"):
        return f"resnet.embedder.embedder.{kinds[part[:-1]]}.{last}"
    stage, block, *inner = part.split(".")
    prefix = f"resnet.encoder.stages.{int(stage[-1]) - 1}.layers.{block}"
    if inner[0] == "downsample":
        return f"{prefix}.shortcut.{('convolution', 'normalization')[int(inner[1])]}.{last}"
    return f"{prefix}.layer.{int(inner[0][-1]) - 1}.{kinds[inner[0][:-1]]}.{last}"


@pytest.mark.parametrize(
    ("depth", "kind", "widths"), [(18, "basic", (64, 128, 256, 512)), (50, "bottleneck", None)]
)
def test_it_computes_what_another_implementation_computes(depth, kind, widths) -> None:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        depths={18: [2, 2, 2, 2], 50: [3, 4, 6, 3]}[depth],
        hidden_sizes=widths or (256, 512, 1024, 2048),
        layer_type=kind,
        num_labels=10,
    )
    torch.manual_seed(0)
    theirs = ResNetForImageClassification(config).eval()
    state = theirs.state_dict()
    ours = resnet(depth, 10).eval()
    ours.load_state_dict({name: state[in_the_other_order(name)] for name in ours.state_dict()})
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x).logits)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (images(["batch_size", 3, 224]), "must be [batch, 3, height, width]"),
        (images(["batch_size", 1, 8, 8]), "must be [batch, 3, height, width]"),
        (images(["batch_size", 3, 8, 8], "image"), "takes one tensor named 'x', got image"),
    ],
)
def test_images_that_do_not_fit_are_told(inputs: dict[str, Json], sentence: str) -> None:
    (problem,) = ResNet(depth=18, inputs=inputs).problems(WORKLOAD)
    assert sentence in problem


def test_a_network_without_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="classes must be above 0, got 0"):
        ResNet(depth=18, classes=0, inputs={})


def test_depth_and_classes_are_part_of_the_identity() -> None:
    x = images(["batch_size", 3, 8, 8])
    models = [ResNet(depth=18, inputs=x), ResNet(depth=50, inputs=x)]
    models.append(ResNet(depth=18, classes=10, inputs=x))
    identities = [model.identity() for model in models]
    assert len({str(identity) for identity in identities}) == 3
    assert ResNet(depth=18, inputs=images(["n", 3, 9, 9])).identity() == identities[0]
