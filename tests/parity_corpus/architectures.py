"""Real architectures, made small: conversions of them that are faithful must be said to be so.

All weights are random but seeded.  Where a part of a network needs trained statistics to behave as
it does in practice (BatchNorm, class margins), they are set from data in the factory.  The
conversions named here were seen to be faithful; ``refused`` is honest where an exporter may not
know an operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional

from parity_corpus.models import AGREES, SAME_OR_REFUSED, Batch, ModelCase, registering

ARCHITECTURES: dict[str, ModelCase] = {}
architecture = registering(ARCHITECTURES)


def ids(vocabulary: int, rows: int, tokens: int, *, mask: bool = False) -> list[Batch]:
    """Return four inputs of token ids, with a mask of padding at the end if asked."""
    found: list[Batch] = []
    for index in range(4):
        generator = np.random.default_rng(index)
        one: Batch = {"input_ids": generator.integers(3, vocabulary, (rows, tokens))}
        if mask:
            length = generator.integers(tokens // 2, tokens + 1, (rows, 1))
            one["attention_mask"] = (np.arange(tokens) < length).astype(np.int64)
        found.append(one)
    return found


def floats(name: str, *shape: int) -> list[Batch]:
    """Return four inputs of standard normals."""
    return [
        {name: np.random.default_rng(index).standard_normal(shape).astype(np.float32)}
        for index in range(4)
    ]


def images(name: str, rows: int, size: int) -> list[Batch]:
    """Return four batches of images with structure at two scales."""
    found: list[Batch] = []
    for index in range(4):
        torch.manual_seed(index)
        coarse = functional.interpolate(torch.randn(rows, 3, 4, 4), (size, size), mode="bilinear")
        found.append({name: (coarse + 0.3 * torch.randn(rows, 3, size, size)).numpy()})
    return found


SMALL: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}


def peaked(net: nn.Module, gain: float = 8.0) -> nn.Module:
    """Make the next-token distribution of a causal model as peaked as training would."""
    words = net.get_input_embeddings().weight
    with torch.no_grad():
        words.copy_(functional.normalize(torch.randn_like(words), dim=-1) * gain)
        net.get_output_embeddings().weight.copy_(words[torch.randperm(len(words))] / gain)
    return net


@architecture(
    ids(120, 2, 16, mask=True),
    group="language",
    why="BERT with a mask of padding",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    quanto_int8=AGREES,
    dynamic_int8=AGREES,
)
def bert() -> nn.Module:
    config = transformers.BertConfig(vocab_size=120, max_position_embeddings=64, **SMALL)
    return transformers.BertModel(config)


@architecture(
    ids(120, 4, 16),
    group="language",
    why="RoBERTa as a classifier of three classes",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
    task="classification",
)
def roberta_classifier() -> nn.Module:
    config = transformers.RobertaConfig(
        vocab_size=120, max_position_embeddings=64, num_labels=3, initializer_range=0.2, **SMALL
    )
    return transformers.RobertaForSequenceClassification(config)


@architecture(
    ids(120, 2, 16),
    group="generation",
    why="GPT-2 with its cache switched off",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
    task="language_model",
)
def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=120,
        n_embd=48,
        n_layer=2,
        n_head=4,
        n_positions=64,
        use_cache=False,
        tie_word_embeddings=False,
    )
    return peaked(transformers.GPT2LMHeadModel(config))


@architecture(
    ids(120, 2, 16),
    group="generation",
    why="Llama with grouped keys and values",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
    quanto_int8=AGREES,
    task="language_model",
)
def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=120, num_key_value_heads=2, use_cache=False, max_position_embeddings=64, **SMALL
    )
    return peaked(transformers.LlamaForCausalLM(config))


@architecture(
    floats("input_values", 2, 1600),
    group="speech",
    why="wav2vec 2: strided convolutions, group norm, weight norm, transformer",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
def wav2vec2() -> nn.Module:
    config = transformers.Wav2Vec2Config(
        conv_dim=(16, 16, 16),
        conv_stride=(5, 4, 2),
        conv_kernel=(10, 6, 3),
        vocab_size=20,
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        **SMALL,
    )
    return transformers.Wav2Vec2Model(config)


@architecture(
    images("pixel_values", 8, 32),
    group="vision",
    why="the image half of CLIP",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
    task="embedding",
)
def clip_image_embedding() -> nn.Module:
    config = transformers.CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=24, **SMALL)
    return transformers.CLIPVisionModelWithProjection(config)


@architecture(
    ids(120, 2, 12),
    group="generation",
    why="Mamba: a scan instead of attention",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
def mamba() -> nn.Module:
    config = transformers.MambaConfig(
        vocab_size=120, hidden_size=48, state_size=8, num_hidden_layers=2, use_cache=False
    )
    return transformers.MambaModel(config)


@architecture(
    images("pixel_values", 2, 32),
    group="vision",
    why="YOLOS: two outputs, class logits and boxes",
    task="detection",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
def yolos_detector() -> nn.Module:
    config = transformers.YolosConfig(
        image_size=[32, 32],
        patch_size=8,
        num_detection_tokens=12,
        num_labels=6,
        initializer_range=0.1,
        **SMALL,
    )
    return transformers.YolosForObjectDetection(config)


class Residual(nn.Module):
    """Two convolutions with BatchNorm around a shortcut."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.one = nn.BatchNorm2d(wide)
        self.second = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.two = nn.BatchNorm2d(wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.one(self.first(x)).relu()
        return (x + self.two(self.second(y))).relu()


@architecture(
    images("image", 4, 32),
    group="vision",
    why="a residual CNN whose BatchNorm statistics come from data",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    quanto_int8=AGREES,
    channels_last=AGREES,
)
def residual_cnn() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16),
        nn.MaxPool2d(2),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    net.train()
    with torch.no_grad():
        for _ in range(20):
            net(torch.randn(16, 3, 32, 32))
    return Named(net)


class Named(nn.Module):
    """Give the one input of a network the name ``image``."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.net(image)


class Head(nn.Module):
    """A detection head on two scales: boxes in pixels, scores after a sigmoid, one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 3, 4, 1), nn.SiLU()
        )
        self.second = nn.Sequential(nn.Conv2d(32, 32, 3, 2, 1), nn.SiLU())
        self.box = nn.ModuleList(nn.Conv2d(32, 4, 1) for _ in range(2))
        self.score = nn.ModuleList(nn.Conv2d(32, 20, 1) for _ in range(2))
        with torch.no_grad():
            for layer in self.score:
                layer.weight.mul_(10)
                layer.bias.fill_(-3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        large = self.first(image)
        parts = []
        for index, features in enumerate((large, self.second(large))):
            boxes = self.box[index](features).sigmoid() * 640
            scores = self.score[index](features).sigmoid()
            parts.append(torch.cat([boxes, scores], 1).flatten(2))
        return torch.cat(parts, 2)


@architecture(
    images("image", 1, 64),
    group="vision",
    task="detection",
    why="a detection head in the manner of YOLO, on two scales",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
    channels_last=AGREES,
)
def detection_head() -> nn.Module:
    return Head()


class UNet(nn.Module):
    """One step down, one step up, a skip between them, conditioned on a time step."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, 2, 1)
        self.norm = nn.GroupNorm(4, 32)
        self.time = nn.Linear(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.out = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, sample: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        angle = step[:, None] * torch.exp(-torch.arange(8, dtype=step.dtype))
        wave = torch.cat([angle.sin(), angle.cos()], -1).to(sample.dtype)
        first = functional.silu(self.into(sample))
        middle = self.norm(self.down(first)) + self.time(wave)[:, :, None, None]
        rising = self.up(functional.silu(middle))
        return self.out(torch.cat([first, rising], 1))


@architecture(
    [
        {**one, "step": np.array([3.0, 41.0], np.float32) + index}
        for index, one in enumerate(images("sample", 2, 16))
    ],
    group="vision",
    why="a UNet block with a skip, a transposed convolution and a time embedding",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
)
def unet_block() -> nn.Module:
    return UNet()


class Tagger(nn.Module):
    """A bidirectional LSTM that returns tags and its last states."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(12, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 7)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        steps, (hidden, _) = self.cell(x)
        return {"tags": self.head(steps), "hidden": hidden}


@architecture(
    floats("x", 3, 20, 12),
    group="language",
    why="a bidirectional LSTM with its states",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    dynamic_int8=AGREES,
)
def lstm_tagger() -> nn.Module:
    return Tagger()
