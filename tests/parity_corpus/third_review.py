"""Models of a third reviewer, written from the gate's page before the code was opened.

Adapters, parametrizations, quantised parts, containers of outputs, and architectures of
transformers that nobody here had tried. The last four were kept unseen until the others were
judged.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn.utils import parametrize

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    REFUSED,
    SAME_OR_REFUSED,
    UNSTABLE,
    Linear,
    ModelCase,
    normal,
    registering,
    several,
)
from parity_corpus.second_review import ids, is_traced

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)
NOT_THE_SAME = (DIFFERS, UNSTABLE, REFUSED)


class LowRank(nn.Module):
    """A linear layer with an adapter that eval() merges into its weights, and train() takes out."""

    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.base, self.merged = nn.Linear(wide, out), False
        self.down, self.up = nn.Linear(wide, 2, bias=False), nn.Linear(2, out, bias=False)

    def train(self, mode: bool = True) -> LowRank:
        super().train(mode)
        if mode == self.merged:
            change = self.up.weight @ self.down.weight
            self.base.weight.data += -change if mode else change
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.base(x)
        return y if self.merged else y + self.up(self.down(x))


@model(
    several(4, 8),
    "an adapter is merged by eval(), however often that is called",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class AdapterMergedInEval(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(LowRank(8, 16), nn.GELU(), LowRank(16, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


@model(
    several(4, 8),
    "an adapter hangs on hooks of the layers",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class AdapterInHooks(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(8, 16)
        self.body[0].register_forward_hook(lambda _, given, y: y + self.extra(given[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


class DropsConnections(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(weight, 0.1, training=True)


@model(
    several(4, 8),
    "a parametrization drops weights in evaluation too",
    eager=UNSTABLE,
    torchscript=NOT_THE_SAME,
    export=NOT_THE_SAME,
    onnxruntime=NOT_THE_SAME,
)
class DropsConnectionsAlways(Linear):
    def __init__(self) -> None:
        super().__init__()
        parametrize.register_parametrization(self.body[0], "weight", DropsConnections())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T


@model(
    ids(4, 12, 16),
    "a head is tied to a table whose weight is parametrized",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class TiedToParametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 16)
        parametrize.register_parametrization(self.table, "weight", Symmetric())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).tanh() @ self.table.weight.T


@model(
    ids(4, 12, 1000),
    "ids beyond 2**53 that differ by one in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
    onnxruntime=DIFFERS,
)
class BeyondFloat64(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids + 2**60 + int(is_traced())


@model(
    several(4, 8),
    "two outputs of one shape are exchanged in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
    onnxruntime=DIFFERS,
)
class ExchangesOutputs(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        first, second = self.body(x), self.body(x.flip(-1))
        if is_traced():
            first, second = second, first
        return {"first": first, "second": second}


@model(
    several(4, 8),
    "no input has anything to be found; traced code would find other things: no yes for anybody",
    eager=DIFFERS,
    torchscript=NOT_THE_SAME,
    export=NOT_THE_SAME,
    onnxruntime=NOT_THE_SAME,
)
class FindsNothing(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x) * (2 if is_traced() else 1)
        return {"boxes": y[y[:, 0] > 1e9]}


@model(
    [{"pixel_values": normal(seed, 2, 3, 32, 32)} for seed in range(4)],
    "patches are masked at random in evaluation too",
    eager=UNSTABLE,
    torchscript=NOT_THE_SAME,
    export=NOT_THE_SAME,
    onnxruntime=NOT_THE_SAME,
)
class MasksPatches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        self.body = transformers.ViTMAEModel(
            transformers.ViTMAEConfig(image_size=32, patch_size=8, intermediate_size=64, **sizes)
        )

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return self.body(pixel_values=pixel_values)


@model(
    several(4, 64),
    "layers that torch itself quantised are part of the model",
    torchscript=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    bf16=SAME_OR_REFUSED,
)
class QuantisedInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        plain = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
        self.body = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8)
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


@model(
    [{"input_values": normal(seed, 2, 1600)} for seed in range(4)],
    "a speech encoder whose convolution of positions is parametrized by its norm",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class HearsSpeech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        layers = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
        config = transformers.HubertConfig(
            intermediate_size=64, num_conv_pos_embeddings=16, **layers, **sizes
        )
        self.body = transformers.HubertModel(config)

    def forward(self, input_values: torch.Tensor) -> Any:
        return self.body(input_values)


@model(
    ids(2, 12, 100),
    "an encoder and a decoder with one table of words, and a nested cache among the outputs",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class Translates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = transformers.T5Config(
            vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
        )
        self.body = transformers.T5ForConditionalGeneration(config)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.body(input_ids=ids, decoder_input_ids=ids.flip(-1))


# Unseen until the end.


@model(
    ids(2, 12, 100),
    "each token goes to two experts of four",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
class ChoosesExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = transformers.MixtralConfig(
            vocab_size=100,
            intermediate_size=64,
            num_key_value_heads=2,
            num_local_experts=4,
            use_cache=False,
            **sizes,
        )
        self.body = transformers.MixtralForCausalLM(config)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.body(input_ids=ids)


@model(
    several(4, 8),
    "a quantised tensor of another scale in traced code",
    torchscript=NOT_THE_SAME,
    export=NOT_THE_SAME,
)
class ReturnsQuantised(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 0.02 if is_traced() else 0.01
        return torch.quantize_per_tensor(self.body(x), scale, 0, torch.qint32)


@model(
    several(4, 8),
    "a file remembers how often it was called",
    eager=UNSTABLE,
    torchscript=NOT_THE_SAME,
    export=NOT_THE_SAME,
    onnxruntime=NOT_THE_SAME,
)
class RemembersInAFile(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp()) / "count.txt"
        self.path.write_text("1")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = int(self.path.read_text())
        self.path.write_text(str(count + 1))
        return self.body(x) * (1 + 1 / count)


@model(
    [{"x": np.abs(normal(seed, 4, 3, 8, 8))} for seed in range(4)],
    "outputs of every kind: expanded, transposed, channels last, empty, complex, flags, None",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    bf16=SAME_OR_REFUSED,
    channels_last=AGREES,
)
class ReturnsEveryKind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.body(x)
        return {
            "input": x,
            "last": y.to(memory_format=torch.channels_last),
            "expanded": y[:, :1].expand(-1, 5, -1, -1),
            "nested": {"none": None, "flags": (y > 0, y.argmax(1)), "empty": y[:, :0]},
            "transposed": y.transpose(1, 3),
            "spectrum": torch.fft.rfft(y),
        }
