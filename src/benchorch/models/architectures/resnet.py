"""The residual network of He et al. (2015), stride in the 3x3 convolution as torchvision has it.

Structure and the names in the state dict are torchvision's, so that its checkpoints load.
"""

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(before, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(before, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Same batch, ``width`` channels, sides divided by the stride."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        joined: Tensor = self.relu(y + (x if self.downsample is None else self.downsample(x)))
        return joined


class Bottleneck(nn.Module):
    """A 1x1 convolution down, a 3x3 and a 1x1 up beside a shortcut."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1 = _conv(before, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, after, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Same batch, ``4 * width`` channels, sides divided by the stride."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        joined: Tensor = self.relu(y + (x if self.downsample is None else self.downsample(x)))
        return joined


class ResNetModule(nn.Module):
    """Stem, four stages of blocks, average pooling, one linear layer."""

    def __init__(
        self, block: type[BasicBlock | Bottleneck], depths: tuple[int, ...], classes: int
    ) -> None:
        super().__init__()
        self.conv1 = _conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        e = block.expansion
        self.layer1 = _stage(block, 64, 64, depths[0], 1)
        self.layer2 = _stage(block, 64 * e, 128, depths[1], 2)
        self.layer3 = _stage(block, 128 * e, 256, depths[2], 2)
        self.layer4 = _stage(block, 256 * e, 512, depths[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * e, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores, (batch, classes), of images, (batch, 3, height, width)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        scores: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return scores


_STAGES: dict[int, tuple[type[BasicBlock | Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


def resnet(depth: int, classes: int) -> ResNetModule:
    """The network of the paper's table 1 with that many layers, freshly initialised."""
    block, depths = _STAGES[depth]
    network = ResNetModule(block, depths, classes)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _conv(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)


def _shortcut(before: int, after: int, stride: int) -> nn.Sequential | None:
    """A projection where the block changes the shape, else nothing."""
    if stride == 1 and before == after:
        return None
    return nn.Sequential(_conv(before, after, 1, stride), nn.BatchNorm2d(after))


def _stage(
    block: type[BasicBlock | Bottleneck], before: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    after = width * block.expansion
    first = block(before, width, stride)
    return nn.Sequential(first, *(block(after, width, 1) for _ in range(depth - 1)))
