"""Array cases for the parity gate: what a model returned, what its conversion returned.

Each case says which verdict a careful engineer would give, and why.  Legitimate noise is never
invented: small real layers are run with weights or activations that were really rounded to
bfloat16, float16, int8 or int4, or are computed in another order or precision.  Faults are
those that conversions were seen to make: a wrong axis, a lost mask, scores that a shared scale
rounded to zero, one stale batch, and others of that sort.

``BUILDERS`` maps a case's name to the function that builds it, so a test can be parametrised
without building anything; ``cases()`` builds all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Verdict = Literal["agrees", "differs", "not_deterministic"]
Batch = dict[str, np.ndarray]
Batches = list[Batch]

FLOAT32 = 1e-4
BFLOAT16 = 3e-2
INT8 = 8e-2
INT8_WEIGHTS = 5e-2
INT4 = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison, and the verdict that it deserves."""

    name: str
    references: Batches
    outputs: Batches
    tolerance: float
    inputs: Sequence[Batch] = ()
    task: str = "auto"
    references_again: Batches | None = None
    referees: Sequence[Batch] = ()
    expected: Verdict
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a builder returns: the arrays of a case, without its verdict."""

    references: Batches
    outputs: Batches
    inputs: Sequence[Batch] = ()
    references_again: Batches | None = None
    referees: Sequence[Batch] = ()


BUILDERS: dict[str, Callable[[], Case]] = {}


def case(
    expected: Verdict, *, tolerance: float, why: str, task: str = "auto"
) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """Register a builder under its function's name."""

    def register(build: Callable[[], Pair]) -> Callable[[], Pair]:
        name = build.__name__
        if name in BUILDERS:
            raise ValueError(f"two cases are called {name}")

        def whole() -> Case:
            pair = build()
            return Case(
                name=name,
                references=pair.references,
                outputs=pair.outputs,
                tolerance=tolerance,
                inputs=pair.inputs,
                task=task,
                references_again=pair.references_again,
                referees=pair.referees,
                expected=expected,
                why=why,
            )

        BUILDERS[name] = whole
        return build

    return register


def cases() -> list[Case]:
    """Build every case."""
    return [build() for build in BUILDERS.values()]


# Rounding that conversions really do.


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round to bfloat16 (nearest, ties to even) and return float32."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16).float().numpy()


def to_grid(values: torch.Tensor, scale: torch.Tensor, top: int) -> torch.Tensor:
    """Round to the symmetric grid of integers -top..top times ``scale``."""
    return torch.clamp(torch.round(values / scale), -top, top) * scale


def int_per_tensor(values: torch.Tensor, top: int = 127) -> torch.Tensor:
    """Round with one symmetric scale for the whole tensor."""
    return to_grid(values, values.abs().max().clamp_min(1e-30) / top, top)


def int_per_channel(values: torch.Tensor, top: int = 127) -> torch.Tensor:
    """Round with one symmetric scale for each index of the first axis."""
    flat = values.reshape(values.shape[0], -1)
    scale = flat.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / top
    return to_grid(flat, scale, top).reshape(values.shape)


def int4_groups(values: torch.Tensor, group: int = 16) -> torch.Tensor:
    """Round to int4 with one scale and zero point for each group of ``group`` weights."""
    flat = values.reshape(-1)
    padded = functional.pad(flat, (0, -flat.numel() % group)).reshape(-1, group)
    low = padded.amin(dim=1, keepdim=True)
    scale = ((padded.amax(dim=1, keepdim=True) - low) / 15).clamp_min(1e-30)
    rounded = torch.clamp(torch.round((padded - low) / scale), 0, 15) * scale + low
    return rounded.reshape(-1)[: flat.numel()].reshape(values.shape)


WEIGHT_ROUNDING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int8_tensor": int_per_tensor,
    "int8_channel": int_per_channel,
    "int8_dynamic": int_per_channel,
    "int4_groups": int4_groups,
    "int4_tensor": lambda values: int_per_tensor(values, 7),
}


def rounded(net: nn.Module, how: str) -> nn.Module:
    """Return a copy of ``net`` whose layers were really rounded."""
    other = copy.deepcopy(net)
    if how == "bf16":
        return other.to(torch.bfloat16)
    if how == "fp16":
        return other.to(torch.float16)
    if how == "float64":
        return other.to(torch.float64)
    for module in other.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.Embedding):
            with torch.no_grad():
                module.weight.copy_(WEIGHT_ROUNDING[how](module.weight))
            if how == "int8_dynamic" and not isinstance(module, nn.Embedding):
                module.register_forward_pre_hook(lambda _, args: (int_per_tensor(args[0]),))
    return other


@torch.no_grad()
def run(net: nn.Module, inputs: Sequence[Batch], *, wide: bool = False) -> Batches:
    """Run ``net`` on each input; return float32, or the net's own precision if ``wide``."""
    kind = next(net.parameters()).dtype
    results: Batches = []
    for batch in inputs:
        tensors = [torch.from_numpy(value) for value in batch.values()]
        given = [value.to(kind) if value.is_floating_point() else value for value in tensors]
        found = net(*given)
        named = found if isinstance(found, dict) else {"output": found}
        results.append({name: _array(value, wide) for name, value in named.items()})
    return results


def _array(value: torch.Tensor, wide: bool) -> np.ndarray:
    """Return an array of its own; floating values as float32 unless ``wide``."""
    narrow = value.float() if value.is_floating_point() and not wide else value
    return narrow.numpy().copy()


def conversion(built: tuple[nn.Module, list[Batch]], how: str) -> Pair:
    """Compare a net with a really rounded copy of itself."""
    net, inputs = built
    return Pair(references=run(net, inputs), outputs=run(rounded(net, how), inputs), inputs=inputs)


def changed(batches: Batches, edit: Callable[[np.ndarray], np.ndarray]) -> Batches:
    """Apply ``edit`` to a copy of every output."""
    return [{name: edit(value.copy()) for name, value in one.items()} for one in batches]


def again(batches: Batches) -> Batches:
    """Return deep copies."""
    return changed(batches, lambda value: value)


def alone(*values: np.ndarray) -> Batches:
    """Name each array ``output``: one batch each."""
    return [{"output": value} for value in values]


def generator(seed: int) -> np.random.Generator:
    """Return numpy's generator for a seed."""
    return np.random.default_rng(seed)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Return float32 standard normals."""
    return generator(seed).standard_normal(shape).astype(np.float32)


# Small real networks.  Each builder returns the net and its inputs.


class Classifier(nn.Module):
    """Random features with a last layer that was fitted to clusters: margins are real."""

    def __init__(self, seed: int, classes: int, probabilities: bool, gain: float) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        self.head = nn.Linear(96, classes)
        self.probabilities = probabilities
        centres = torch.randn(classes, 32) * 2
        label = torch.arange(40 * classes) % classes
        with torch.no_grad():
            features = self.body(centres[label] + 0.5 * torch.randn(len(label), 32))
            mean = features.mean(0)
            spread = features - mean
            target = functional.one_hot(label, classes).float() - 1 / classes
            gram = spread.T @ spread + 0.5 * torch.eye(96)
            weight = torch.linalg.solve(gram, spread.T @ target).T * gain
            self.head.weight.copy_(weight)
            self.head.bias.copy_(-weight @ mean)
        self.centres = centres

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.body(x))
        return torch.softmax(logits, -1) if self.probabilities else logits


def classifier(
    seed: int = 0,
    *,
    rows: int = 32,
    count: int = 4,
    classes: int = 10,
    probabilities: bool = False,
    gain: float = 12.0,
) -> tuple[nn.Module, list[Batch]]:
    """Return a fitted classifier and batches drawn from its clusters."""
    net = Classifier(seed, classes, probabilities, gain).eval()
    random = generator(seed + 1)
    inputs: list[Batch] = []
    for _ in range(count):
        label = random.integers(0, classes, rows)
        x = net.centres.numpy()[label] + 0.5 * random.standard_normal((rows, 32))
        inputs.append({"x": x.astype(np.float32)})
    return net, inputs


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        rows, tokens, width = x.shape
        parts = self.mixed(self.first(x)).reshape(rows, tokens, 3, 4, width // 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / (width // 4) ** 0.5
        if self.causal:
            later = torch.ones(tokens, tokens).triu(1).bool()
            scores = scores.masked_fill(later, float("-inf"))
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(rows, tokens, width)
        x = x + self.out(seen)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Embeddings, two blocks, a last norm and, if asked, a head or a pooled unit vector."""

    def __init__(self, seed: int, vocabulary: int, ends: str) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.ends = ends
        self.words = nn.Embedding(vocabulary, 64)
        self.places = nn.Embedding(128, 64)
        causal = ends == "logits"
        self.blocks = nn.ModuleList(Block(64, causal) for _ in range(2))
        self.last = nn.LayerNorm(64)
        if ends == "logits":
            self.head = nn.Linear(64, vocabulary, bias=False)
            with torch.no_grad():
                self.head.weight.copy_(self.words.weight[torch.randperm(vocabulary)] * 0.3)
                self.places.weight.mul_(0.3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        keep = None if mask is None else mask.bool()
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, keep)
        x = self.last(x)
        if self.ends == "logits":
            return self.head(x)
        if self.ends == "pooled":
            return functional.normalize(x.mean(1), dim=-1)
        return x


def transformer(
    seed: int = 0,
    *,
    ends: str = "hidden",
    vocabulary: int = 500,
    rows: int = 4,
    tokens: int = 24,
    count: int = 3,
) -> tuple[nn.Module, list[Batch]]:
    """Return a small transformer and batches of token ids."""
    net = Transformer(seed, vocabulary, ends).eval()
    random = generator(seed + 1)
    return net, [
        {"ids": random.integers(0, vocabulary, (rows, tokens), dtype=np.int64)}
        for _ in range(count)
    ]


class Detector(nn.Module):
    """A convolutional backbone and a head that returns boxes in pixels and class scores."""

    def __init__(self, seed: int, layout: str, classes: int = 20) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layout = layout
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.SiLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.SiLU(),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.SiLU(),
        )
        self.box = nn.Conv2d(64, 4, 1)
        self.score = nn.Conv2d(64, classes, 1)
        with torch.no_grad():
            for layer in self.body:
                if isinstance(layer, nn.Conv2d):
                    layer.weight.mul_(2.5)
            self.score.weight.mul_(12)
            self.score.bias.fill_(-4.5)
            self.box.weight.mul_(2)

    def forward(self, image: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
        features = self.body(image)
        size = features.shape[-1]
        step = 640 / size
        side = (torch.arange(size, dtype=features.dtype) + 0.5) * step
        across, down = side.expand(size, size), side[:, None].expand(size, size)
        raw = self.box(features)
        middle = torch.stack([across, down]) + raw[:, :2].tanh() * step
        extent = step * 2 * raw[:, 2:].exp()
        boxes = torch.cat([middle, extent], 1).flatten(2)
        scores = self.score(features).sigmoid().flatten(2)
        if self.layout == "two":
            return {"boxes": boxes.transpose(1, 2), "scores": scores.transpose(1, 2)}
        joined = torch.cat([boxes, scores], 1)
        return joined if self.layout == "channel_first" else joined.transpose(1, 2)


def detector(seed: int = 0, *, layout: str, count: int = 3) -> tuple[nn.Module, list[Batch]]:
    """Return a detector and smooth random images of 160 by 160 pixels."""
    net = Detector(seed, layout).eval()
    return net, [{"image": smooth_image(seed * 100 + index, 160)} for index in range(count)]


def smooth_image(seed: int, size: int, rows: int = 1) -> np.ndarray:
    """Return images with structure at several scales, as photographs have."""
    torch.manual_seed(seed)
    image = torch.zeros(rows, 3, size, size)
    for cells in (4, 16, 64):
        coarse = torch.randn(rows, 3, cells, cells)
        image += functional.interpolate(coarse, (size, size), mode="bilinear") / cells**0.25
    return image.numpy()


class Segmenter(nn.Module):
    """Strided convolutions with BatchNorm, then upsampling to a map of class logits."""

    def __init__(self, seed: int, corners: bool) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.corners = corners
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(32, 21, 1)
        for layer in self.body:
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_(0, 0.1)
                layer.running_var.uniform_(0.05, 0.5)
        with torch.no_grad():
            self.head.weight.mul_(4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        coarse = self.head(self.body(image))
        size = image.shape[-2:]
        return functional.interpolate(coarse, size, mode="bilinear", align_corners=self.corners)


def segmenter(seed: int = 0, *, corners: bool = False) -> tuple[nn.Module, list[Batch]]:
    """Return a segmenter and batches of two images of 48 by 48 pixels."""
    net = Segmenter(seed, corners).eval()
    return net, [{"image": smooth_image(seed * 100 + index, 48, rows=2)} for index in range(3)]


class Recurrent(nn.Module):
    """An LSTM with a linear layer on every step."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.cell = nn.LSTM(16, 48, num_layers=2, batch_first=True)
        self.head = nn.Linear(48, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x)[0])


def recurrent(seed: int = 0) -> tuple[nn.Module, list[Batch]]:
    """Return an LSTM tagger and batches of 4 sequences of 30 steps."""
    return Recurrent(seed).eval(), [{"x": normal(seed * 9 + i, 4, 30, 16)} for i in range(3)]


def mlp(
    seed: int = 0, *, ends: int = 16, rows: int = 32, count: int = 3, last: nn.Module | None = None
) -> tuple[nn.Module, list[Batch]]:
    """Return a two-layer perceptron of 24 features and batches of normals."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Linear(24, 64), nn.GELU(), nn.Linear(64, ends)]
    net = nn.Sequential(*layers, *([] if last is None else [last])).eval()
    return net, [{"x": normal(seed * 7 + index, rows, 24)} for index in range(count)]


class Scaled(nn.Module):
    """Multiply each channel by its own factor, then add its own offset."""

    def __init__(self, factor: np.ndarray, offset: np.ndarray | float = 0.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.as_tensor(factor, dtype=torch.float32))
        self.offset = nn.Parameter(torch.as_tensor(offset, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + self.offset


def float32_noise(built: tuple[nn.Module, list[Batch]]) -> Pair:
    """Compare a float32 run with the same computed in float64 and rounded once at the end."""
    net, inputs = built
    wide = run(rounded(net, "float64"), inputs, wide=True)
    return Pair(
        references=run(net, inputs),
        outputs=[{name: value.astype(np.float32) for name, value in one.items()} for one in wide],
        inputs=inputs,
        referees=wide,
    )


def edited(
    pair: Pair, edit: Callable[[np.ndarray, int], np.ndarray], only: str | None = None
) -> Pair:
    """Return ``pair`` with every output (or ``only`` one) edited; ``edit`` is told the input."""
    outputs = [
        {
            name: edit(value.copy(), index) if only in (None, name) else value
            for name, value in one.items()
        }
        for index, one in enumerate(pair.outputs)
    ]
    return Pair(references=pair.references, outputs=outputs, inputs=pair.inputs)


def unchanged(built: tuple[nn.Module, list[Batch]]) -> Pair:
    """Compare a net with itself: what an edit starts from."""
    found = run(*built)
    return Pair(references=found, outputs=again(found), inputs=built[1])


# Conversions that are still the same model.


@case("agrees", tolerance=BFLOAT16, why="hidden states of a transformer in bfloat16")
def encoder_bf16() -> Pair:
    return conversion(transformer(10), "bf16")


@case("agrees", tolerance=INT8, why="hidden states, int8 weights and dynamic int8 activations")
def encoder_int8_dynamic() -> Pair:
    return conversion(transformer(12), "int8_dynamic")


@case("agrees", tolerance=INT4, why="hidden states, int4 weights in groups of 16")
def encoder_int4_groups() -> Pair:
    return conversion(transformer(13), "int4_groups")


@case("agrees", tolerance=FLOAT32, why="hidden states that differ by float32 rounding alone")
def encoder_float32() -> Pair:
    return float32_noise(transformer(14))


def masked_log_probabilities(how: str) -> Pair:
    """Compare log-probabilities in which a third of the words is forbidden (-inf)."""
    net, inputs = transformer(18, ends="logits", vocabulary=300, rows=2)
    forbidden = torch.arange(300) % 3 == 0

    def normalised(batches: Batches) -> Batches:
        found: Batches = []
        for one in batches:
            logits = torch.from_numpy(one["output"]).masked_fill(forbidden, float("-inf"))
            found.append({"log_probabilities": logits.log_softmax(-1).numpy()})
        return found

    other = rounded(net, how)
    return Pair(
        references=normalised(run(net, inputs)),
        outputs=normalised(run(other, inputs)),
        inputs=inputs,
    )


@case("agrees", tolerance=BFLOAT16, why="-inf at the same words on both sides, the rest bfloat16")
def log_probabilities_masked_bf16() -> Pair:
    return masked_log_probabilities("bf16")


@case("agrees", tolerance=INT8, why="pooled unit embeddings, dynamic int8", task="embedding")
def embedding_int8_dynamic() -> Pair:
    return conversion(transformer(20, ends="pooled", rows=16), "int8_dynamic")


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    task="detection",
    why="int8 weights per channel keep both the boxes and the scores",
)
def detection_channel_first_int8() -> Pair:
    return conversion(detector(3, layout="channel_first"), "int8_channel")


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    task="detection",
    why="the same with channels last: int8 weights per channel",
)
def detection_channel_last_int8() -> Pair:
    return conversion(detector(4, layout="channel_last"), "int8_channel")


@case("agrees", tolerance=BFLOAT16, why="maps of class logits in bfloat16")
def segmentation_bf16() -> Pair:
    return conversion(segmenter(1), "bf16")


@case("agrees", tolerance=FLOAT32, why="an LSTM summed in another precision")
def recurrent_float32() -> Pair:
    return float32_noise(recurrent(1))


@case("agrees", tolerance=BFLOAT16, why="nine of ten outputs are zero; the rest is bfloat16")
def very_sparse_relu_bf16() -> Pair:
    last = nn.Sequential(Scaled(np.ones(64), -0.22), nn.ReLU())
    return conversion(mlp(4, ends=64, rows=64, last=last), "bf16")


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    why="channels from 0.001 to 1000, each with its own int8 scale: every channel keeps",
)
def channel_scales_int8_channel() -> Pair:
    return conversion(scaled_rows(1), "int8_channel")


def scaled_rows(seed: int) -> tuple[nn.Module, list[Batch]]:
    """Return a linear layer whose rows span six orders of magnitude."""
    torch.manual_seed(seed)
    net = nn.Linear(48, 32, bias=False)
    with torch.no_grad():
        net.weight.mul_(torch.logspace(-3, 3, 32)[:, None])
    return net, [{"x": normal(seed * 11 + index, 32, 48)} for index in range(3)]


@case("agrees", tolerance=FLOAT32, why="a constant output, off by one float32 step")
def constant_output_one_step() -> Pair:
    constant = np.full((16, 8), 3.25, np.float32)
    return Pair(
        references=alone(constant, constant),
        outputs=alone(constant, np.nextafter(constant, np.float32(4))),
    )


@case("agrees", tolerance=FLOAT32, why="outputs of about 1e-8 with float32 rounding only")
def tiny_outputs_float32() -> Pair:
    return float32_noise(mlp(10, last=Scaled(np.full(16, 1e-8))))


@case("agrees", tolerance=BFLOAT16, why="outputs of about 1e8 in bfloat16")
def huge_outputs_bf16() -> Pair:
    return conversion(mlp(11, last=Scaled(np.full(16, 1e8))), "bf16")


@case("agrees", tolerance=1e-2, why="float16 outputs of one net run in float16 and in float32")
def float16_outputs() -> Pair:
    pair = conversion(mlp(14), "fp16")
    return Pair(
        references=changed(pair.references, lambda value: value.astype(np.float16)),
        outputs=changed(pair.outputs, lambda value: value.astype(np.float16)),
        inputs=pair.inputs,
    )


@case("agrees", tolerance=FLOAT32, why="the same infinities in the same places")
def infinities_same_places() -> Pair:
    pair = float32_noise(mlp(16))

    def mark(value: np.ndarray) -> np.ndarray:
        value[:, 0] = np.inf
        value[3] = -np.inf
        return value

    return Pair(references=changed(pair.references, mark), outputs=changed(pair.outputs, mark))


@case("agrees", tolerance=FLOAT32, why="the baseline moves by float32 rounding, and so does this")
def reduction_order_floor() -> Pair:
    pair = float32_noise(classifier(22))
    other = changed(pair.references, lambda value: value * np.float32(1 + 3e-7))
    return Pair(
        references=pair.references,
        outputs=pair.outputs,
        references_again=other,
        inputs=pair.inputs,
    )


@case("agrees", tolerance=BFLOAT16, why="each input has its own shape, all in bfloat16")
def shapes_vary_between_inputs() -> Pair:
    net, _ = transformer(23)
    inputs: list[Batch] = [
        {"ids": generator(index).integers(0, 500, (rows, tokens))}
        for index, (rows, tokens) in enumerate([(1, 5), (4, 24), (2, 60)])
    ]
    return conversion((net, inputs), "bf16")


@case("agrees", tolerance=FLOAT32, why="everything is bit for bit equal, twice")
def bit_equal() -> Pair:
    net, inputs = transformer(24)
    found = run(net, inputs)
    return Pair(references=found, outputs=again(found), references_again=again(found))


@case(
    "agrees",
    tolerance=BFLOAT16,
    why="channels that are constant, in bfloat16: the constant is rounded, nothing is lost",
)
def constant_channels_bf16() -> Pair:
    factor = (np.arange(16) % 3 > 0).astype(np.float32)
    return conversion(mlp(25, last=Scaled(factor, np.linspace(0.1234, 1.4321, 16))), "bf16")


@case(
    "agrees",
    tolerance=FLOAT32,
    why="ids are the first of two classes that tie to the last bit: either is right",
)
def ids_from_tied_logits() -> Pair:
    logits = normal(26, 64, 10)
    logits[:, 3] = logits.max(1) + 1
    logits[:, 6] = logits[:, 3]
    logits[5:, 6] -= 0.5
    other = logits.copy()
    other[:5, 3] = np.nextafter(other[:5, 3], np.float32(-100))
    return Pair(
        references=[{"logits": logits, "ids": logits.argmax(-1)}],
        outputs=[{"logits": other, "ids": other.argmax(-1)}],
    )


# Conversions that are another model.


@case("differs", tolerance=INT4, why="every output is zero")
def all_zeros() -> Pair:
    return edited(unchanged(classifier(35)), lambda value, _: value * 0)


def negate_row(value: np.ndarray, row: int) -> np.ndarray:
    """Negate one row."""
    value[row] *= -1
    return value


@case("differs", tolerance=0.15, why="one row of a thousand is negated: that request is all wrong")
def one_row_of_1000_negated() -> Pair:
    return edited(unchanged(mlp(42, rows=1000, count=2)), lambda v, _: negate_row(v, 517))


@case("differs", tolerance=INT8, why="of eight inputs only the last has one wrong row")
def one_row_of_last_input_negated() -> Pair:
    pair = unchanged(classifier(43, rows=900, count=8))
    return edited(pair, lambda value, index: negate_row(value, 20) if index == 7 else value)


@case("differs", tolerance=0.15, why="the logits of one token of 128 are another model's")
def one_token_of_128_random() -> Pair:
    return token_replaced(45, 61)


def token_replaced(seed: int, at: int) -> Pair:
    """Replace the logits at one position by those of a model with other weights."""
    net, inputs = transformer(seed, ends="logits", vocabulary=400, rows=1, tokens=128, count=2)
    other = run(transformer(seed + 900, ends="logits", vocabulary=400)[0], inputs)

    def edit(value: np.ndarray, index: int) -> np.ndarray:
        value[:, at] = other[index]["output"][:, at]
        return value

    return edited(unchanged((net, inputs)), edit)


@case("differs", tolerance=INT4, why="one channel of a hidden state was replaced by its negative")
def one_hidden_channel_negated() -> Pair:
    def edit(value: np.ndarray, _: int) -> np.ndarray:
        value[..., 9] *= -1
        return value

    return edited(unchanged(transformer(47)), edit)


@case(
    "differs",
    tolerance=INT8,
    why="boxes are right, but every anchor has the mean scores: nothing is detected",
)
def detection_scores_constant() -> Pair:
    def edit(value: np.ndarray, _: int) -> np.ndarray:
        value[:, 4:] = value[:, 4:].mean(-1, keepdims=True)
        return value

    return edited(unchanged(detector(54, layout="channel_first")), edit)


@case("differs", tolerance=INT8, why="the scores of the classes were permuted beside right boxes")
def detection_classes_permuted() -> Pair:
    def edit(value: np.ndarray, _: int) -> np.ndarray:
        value[..., 4:] = np.roll(value[..., 4:], 1, axis=-1)
        return value

    return edited(unchanged(detector(55, layout="channel_last")), edit)


@case("differs", tolerance=FLOAT32, why="BatchNorm used the batch's own statistics")
def batch_norm_in_training_mode() -> Pair:
    net, inputs = segmenter(60)
    return Pair(references=run(net, inputs), outputs=run(copy.deepcopy(net).train(), inputs))


@case("differs", tolerance=FLOAT32, why="a square output came back transposed")
def transposed_output() -> Pair:
    return edited(unchanged(mlp(69, ends=32)), lambda value, _: value.T.copy())


@case("differs", tolerance=FLOAT32, why="softmax over the rows instead of the classes")
def softmax_of_wrong_axis() -> Pair:
    pair = unchanged(classifier(70))

    def softmax(value: np.ndarray, axis: int) -> np.ndarray:
        return torch.from_numpy(value).softmax(axis).numpy()

    return Pair(
        references=changed(pair.references, lambda value: softmax(value, 1)),
        outputs=changed(pair.references, lambda value: softmax(value, 0)),
    )


@case("differs", tolerance=FLOAT32, why="bfloat16 where float32 was promised: a hundred times over")
def bf16_sold_as_float32() -> Pair:
    return conversion(mlp(72), "bf16")


@case(
    "differs",
    tolerance=INT8,
    why="one channel a thousand times larger took the int8 range; the other 63 are lost",
)
def outlier_channel_int8_tensor() -> Pair:
    factor = np.ones(64)
    factor[17] = 1000.0
    pair = unchanged(mlp(74, ends=64, last=Scaled(factor)))
    return edited(pair, lambda value, _: int_per_tensor(torch.from_numpy(value)).numpy())


def first_two_exchanged(logits: np.ndarray, first: float, second: float) -> Pair:
    """Give each row a clear first and second class; the conversion exchanges them."""
    flat = logits.clip(-second + 1, second - 1).reshape(-1, logits.shape[-1])
    rows = np.arange(len(flat))
    flat[rows, rows % 50], flat[rows, rows % 50 + 60] = first, second
    other = flat.copy()
    other[rows, rows % 50], other[rows, rows % 50 + 60] = second, first
    return Pair(
        references=[{"logits": flat.reshape(logits.shape)}],
        outputs=[{"logits": other.reshape(logits.shape)}],
    )


@case(
    "differs",
    tolerance=INT4,
    task="language_model",
    why="at every position the clear next word fell behind another by six logits",
)
def every_next_word_changed() -> Pair:
    return first_two_exchanged(normal(76, 2, 16, 3000) * np.float32(2), 15, 9)


@case(
    "differs",
    tolerance=BFLOAT16,
    task="language_model",
    why="logits are three times too large: the same first word, far too sure of it",
)
def logits_scaled_by_three() -> Pair:
    built = transformer(77, ends="logits", vocabulary=300)
    return edited(unchanged(built), lambda value, _: value * 3)


@case("differs", tolerance=1e-2, why="float16 overflowed: numbers above 65504 became infinite")
def fp16_overflow() -> Pair:
    built = mlp(82, last=Scaled(np.full(16, 2e5)))
    with np.errstate(over="ignore"):
        return edited(unchanged(built), lambda v, _: v.astype(np.float16).astype(np.float32))


@case("differs", tolerance=FLOAT32, why="plus infinity became minus infinity")
def infinity_changed_sign() -> Pair:
    values = normal(84, 8, 8)
    other = values.copy()
    values[2, 2], other[2, 2] = np.inf, -np.inf
    return Pair(references=alone(values), outputs=alone(other))


@case("differs", tolerance=INT4, why="the second axis of length one was dropped")
def shape_changed() -> Pair:
    values = normal(86, 8, 1, 16)
    return Pair(references=alone(values), outputs=alone(values[:, 0]))


@case("differs", tolerance=INT4, why="scores came back as integers")
def float_became_integer() -> Pair:
    values = normal(87, 16, 8) * 100
    return Pair(references=alone(values), outputs=alone(values.astype(np.int64)))


@case("differs", tolerance=INT8, why="one label of four is another word")
def string_changed() -> Pair:
    return Pair(
        references=[{"labels": np.array(["cat", "dog", "cat", "bird"])}],
        outputs=[{"labels": np.array(["cat", "dog", "dog", "bird"])}],
    )


@case("differs", tolerance=BFLOAT16, task="ids", why="three ids of ten changed; no rounding does")
def ids_thirty_percent_changed() -> Pair:
    ids = generator(89).integers(0, 1000, (50, 100))
    wrong = generator(90).random(ids.shape) < 0.3
    return Pair(references=[{"ids": ids}], outputs=[{"ids": np.where(wrong, 999 - ids, ids)}])


@case("differs", tolerance=FLOAT32, why="one id of 5000 changed in a float32 conversion")
def ids_one_changed_float32() -> Pair:
    ids = generator(91).integers(0, 1000, (50, 100))
    other = ids.copy()
    other[3, 3] += 1
    return Pair(references=[{"ids": ids}], outputs=[{"ids": other}])


@case(
    "differs",
    tolerance=FLOAT32,
    why="eager is near float64, the conversion is a hundred times further away",
)
def further_from_float64_than_eager() -> Pair:
    pair = float32_noise(mlp(96))
    return Pair(
        references=pair.references,
        outputs=changed(pair.references, lambda value: value + 2e-3 * normal(1, *value.shape)),
        inputs=pair.inputs,
        referees=pair.referees,
    )


@case("differs", tolerance=INT8, why="a scalar that is a quarter too large")
def scalar_wrong() -> Pair:
    return Pair(
        references=[{"loss": np.asarray(0.8, np.float32)}],
        outputs=[{"loss": np.asarray(1.0, np.float32)}],
    )


@case("differs", tolerance=INT8, why="one row per request, and every third request is wrong")
def batch_of_one_some_wrong() -> Pair:
    pair = unchanged(classifier(101, rows=1, count=8))
    return edited(pair, lambda value, index: value[:, ::-1].copy() if index % 3 == 2 else value)


# Models whose own baseline does not repeat.


def unstable(
    built: tuple[nn.Module, list[Batch]], second: Callable[[np.ndarray, int], np.ndarray]
) -> Pair:
    """Pair a net with itself, where its second run is changed by ``second``."""
    same = unchanged(built)
    moved = edited(same, second)
    return Pair(
        references=same.references,
        outputs=same.outputs,
        inputs=same.inputs,
        references_again=moved.outputs,
    )


@case("not_deterministic", tolerance=FLOAT32, why="the baseline adds new noise on each run")
def baseline_adds_noise() -> Pair:
    return unstable(mlp(201), lambda value, index: value + normal(index, *value.shape))


@case(
    "not_deterministic",
    tolerance=INT4,
    why="noise of one in a thousand: below int4's tolerance, far beyond float32 rounding",
)
def baseline_noise_below_tolerance() -> Pair:
    return unstable(mlp(202), lambda v, index: v + 1e-3 * normal(index, *v.shape))


@case("not_deterministic", tolerance=FLOAT32, why="the number of detections differs between runs")
def baseline_shape_moves() -> Pair:
    boxes = normal(213, 7, 4)
    return Pair(
        references=alone(boxes), outputs=alone(boxes.copy()), references_again=alone(boxes[:5])
    )


@case("not_deterministic", tolerance=FLOAT32, why="a label drawn at random: another word each run")
def baseline_strings_random() -> Pair:
    return Pair(
        references=[{"label": np.array(["cat", "dog"])}],
        outputs=[{"label": np.array(["cat", "dog"])}],
        references_again=[{"label": np.array(["cat", "bird"])}],
    )


@case(
    "not_deterministic",
    tolerance=FLOAT32,
    why="the conversion is all wrong, but the baseline does not repeat: that comes first",
)
def baseline_moves_and_output_wrong() -> Pair:
    pair = unchanged(mlp(216))
    return Pair(
        references=pair.references,
        outputs=changed(pair.references, lambda value: -value),
        references_again=changed(pair.references, lambda value: value * np.float32(1.5)),
        inputs=pair.inputs,
    )
