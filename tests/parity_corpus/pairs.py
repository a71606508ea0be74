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


@case("agrees", tolerance=BFLOAT16, why="a fitted classifier really run in bfloat16")
def classifier_bf16() -> Pair:
    return conversion(classifier(1), "bf16")


@case("agrees", tolerance=1e-2, why="a fitted classifier really run in float16")
def classifier_fp16() -> Pair:
    return conversion(classifier(2), "fp16")


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    why="int8 weights with a scale per channel, declared task",
    task="classification",
)
def classifier_int8_channel() -> Pair:
    return conversion(classifier(3), "int8_channel")


@case("agrees", tolerance=INT8, why="int8 weights with one scale per tensor; the error is small")
def classifier_int8_tensor() -> Pair:
    return conversion(classifier(4), "int8_tensor")


@case(
    "agrees", tolerance=INT8, why="int8 weights and dynamic int8 activations", task="classification"
)
def classifier_int8_dynamic() -> Pair:
    return conversion(classifier(5), "int8_dynamic")


@case(
    "agrees",
    tolerance=INT4,
    why="int4 weights in groups of 16 keep the decisions",
    task="classification",
)
def classifier_int4_groups() -> Pair:
    return conversion(classifier(6, gain=20), "int4_groups")


@case("agrees", tolerance=FLOAT32, why="only the order of float32 sums differs")
def classifier_float32() -> Pair:
    return float32_noise(classifier(7))


@case(
    "agrees",
    tolerance=BFLOAT16,
    task="classification",
    why="softmax near saturation: tiny probabilities lose digits, decisions stand",
)
def probabilities_saturated_bf16() -> Pair:
    return conversion(classifier(8, probabilities=True, gain=25), "bf16")


@case(
    "agrees",
    tolerance=FLOAT32,
    why="probabilities of 1e-20 and less beside 1: float32 cannot keep more digits of them",
)
def probabilities_saturated_float32() -> Pair:
    return float32_noise(classifier(9, probabilities=True, gain=90))


@case("agrees", tolerance=INT8_WEIGHTS, why="hidden states, int8 weights with a scale per channel")
def encoder_int8_channel() -> Pair:
    return conversion(transformer(11), "int8_channel")


@case("agrees", tolerance=BFLOAT16, why="logits over 32000 words in bfloat16, peaked as trained")
def language_model_32k_bf16() -> Pair:
    return conversion(
        transformer(15, ends="logits", vocabulary=32000, rows=1, tokens=12, count=2), "bf16"
    )


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    task="language_model",
    why="next-token logits with int8 weights per channel choose the same words",
)
def language_model_int8() -> Pair:
    return conversion(transformer(16, ends="logits", vocabulary=2000, rows=2), "int8_channel")


@case(
    "agrees",
    tolerance=INT4,
    task="language_model",
    why="peaked next-token logits with int4 groups choose the same words",
)
def language_model_int4() -> Pair:
    return conversion(transformer(17, ends="logits", vocabulary=1000, rows=2), "int4_groups")


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


@case("agrees", tolerance=FLOAT32, why="-inf at the same words on both sides, the rest rounding")
def log_probabilities_masked_float32() -> Pair:
    return masked_log_probabilities("float64")


@case("agrees", tolerance=BFLOAT16, why="pooled unit embeddings in bfloat16", task="embedding")
def embedding_bf16() -> Pair:
    return conversion(transformer(19, ends="pooled", rows=16), "bf16")


@case("agrees", tolerance=FLOAT32, why="boxes beside scores that differ by float32 rounding only")
def detection_channel_first_float32() -> Pair:
    return float32_noise(detector(1, layout="channel_first"))


@case(
    "agrees",
    tolerance=BFLOAT16,
    why="a detection head in bfloat16: boxes move by a pixel or so, scores by a percent",
)
def detection_channel_first_bf16() -> Pair:
    return conversion(detector(2, layout="channel_first"), "bf16")


@case("agrees", tolerance=BFLOAT16, why="boxes and scores as two outputs, bfloat16")
def detection_two_outputs_bf16() -> Pair:
    return conversion(detector(5, layout="two"), "bf16")


@case("agrees", tolerance=INT8, why="maps of class logits with int8 weights per channel")
def segmentation_int8() -> Pair:
    return conversion(segmenter(2), "int8_channel")


def three_targets(seed: int) -> tuple[nn.Module, list[Batch]]:
    """Return a regressor whose targets have spreads of about 0.01, 1 and 1000."""
    last = Scaled(np.array([0.01, 1.0, 1000.0]), np.array([0.02, 1.0, 500.0]))
    return mlp(seed, ends=3, rows=64, last=last)


@case(
    "agrees",
    tolerance=FLOAT32,
    task="regression",
    why="targets of very different spread, float32 rounding only",
)
def regression_float32() -> Pair:
    return float32_noise(three_targets(1))


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    task="regression",
    why="each target keeps its own spread under int8 weights per channel",
)
def regression_int8_channel() -> Pair:
    return conversion(three_targets(2), "int8_channel")


@case("agrees", tolerance=BFLOAT16, why="an LSTM really run in bfloat16")
def recurrent_bf16() -> Pair:
    return conversion(recurrent(2), "bf16")


@case("agrees", tolerance=INT8, why="half the outputs are exact zeros of a ReLU, dynamic int8")
def sparse_relu_int8() -> Pair:
    return conversion(mlp(3, ends=64, last=nn.ReLU()), "int8_dynamic")


def scaled_rows(seed: int) -> tuple[nn.Module, list[Batch]]:
    """Return a linear layer whose rows span six orders of magnitude."""
    torch.manual_seed(seed)
    net = nn.Linear(48, 32, bias=False)
    with torch.no_grad():
        net.weight.mul_(torch.logspace(-3, 3, 32)[:, None])
    return net, [{"x": normal(seed * 11 + index, 32, 48)} for index in range(3)]


@case(
    "agrees",
    tolerance=BFLOAT16,
    why="rows whose norms span nine orders of magnitude: bfloat16 is relative to each",
)
def rows_of_small_norm_bf16() -> Pair:
    torch.manual_seed(5)
    net = nn.Linear(48, 32, bias=False)
    sizes = np.logspace(-6, 3, 32, dtype=np.float32)[:, None]
    return conversion((net, [{"x": normal(50 + i, 32, 48) * sizes} for i in range(3)]), "bf16")


@case(
    "agrees",
    tolerance=INT8_WEIGHTS,
    why="heavy-tailed activations (Student's t, 2 degrees) through int8 weights",
)
def heavy_tails_int8_channel() -> Pair:
    net, _ = mlp(6)
    heavy = [generator(60 + i).standard_t(2, (32, 24)).astype(np.float32) for i in range(3)]
    return conversion((net, [{"x": value} for value in heavy]), "int8_channel")


@case(
    "agrees",
    tolerance=BFLOAT16,
    why="one channel a thousand times larger, as in large language models, in bfloat16",
)
def outlier_channel_bf16() -> Pair:
    factor = np.ones(64)
    factor[17] = 1000.0
    return conversion(mlp(7, ends=64, last=Scaled(factor)), "bf16")


@case("agrees", tolerance=FLOAT32, why="noise of 1e-9 where the reference is exactly zero")
def dead_channels_noise() -> Pair:
    net, inputs = mlp(8, ends=32)
    references = changed(run(net, inputs), lambda value: value * (np.arange(32) % 4 > 0))
    noise = normal(8, 32, 32) * np.float32(1e-9)
    outputs = changed(references, lambda value: value + noise * (np.arange(32) % 4 == 0))
    return Pair(references=references, outputs=outputs, inputs=inputs)


@case("agrees", tolerance=FLOAT32, why="a sigmoid that saturates at 1, off by one float32 step")
def saturated_sigmoid_one_step() -> Pair:
    net, inputs = mlp(9, ends=16)
    references = changed(run(net, inputs), lambda v: 1 / (1 + np.exp(-(v * 3 + 25), dtype="f4")))
    outputs = changed(references, lambda value: np.minimum(1, value - np.float32(6e-8)))
    return Pair(references=references, outputs=outputs, inputs=inputs)


@case(
    "agrees",
    tolerance=FLOAT32,
    why="a signal of 1 on an offset of 10000: float32 itself has steps of 0.001 there",
)
def offset_float32_steps() -> Pair:
    pair = unchanged(mlp(12, last=Scaled(np.full(16, 5.0))))
    third = np.float32(1 / 3)
    return Pair(
        references=changed(pair.references, lambda value: value + np.float32(10000)),
        outputs=changed(pair.references, lambda v: (v * third + np.float32(1e4 / 3)) / third),
    )


@case(
    "agrees", tolerance=BFLOAT16, why="one row alone, really run in bfloat16", task="classification"
)
def batch_of_one_bf16() -> Pair:
    return conversion(classifier(21, rows=1, count=8), "bf16")


@case("agrees", tolerance=FLOAT32, why="a scalar for each input, float32 rounding only")
def scalar_float32() -> Pair:
    pair = float32_noise(mlp(13, ends=1, rows=8))
    total = [np.asarray(one["output"].astype(np.float64).mean()) for one in pair.outputs]
    return Pair(
        references=[{"loss": np.asarray(one["output"].mean())} for one in pair.references],
        outputs=[{"loss": value.astype(np.float32)} for value in total],
    )


@case("agrees", tolerance=FLOAT32, why="no detections: empty arrays of equal shape are equal")
def empty_arrays() -> Pair:
    empty = {"boxes": np.zeros((0, 4), np.float32), "labels": np.zeros(0, np.int64)}
    full = {"boxes": normal(1, 3, 4), "labels": np.array([1, 2, 3])}
    return Pair(references=[empty, full], outputs=[dict(empty), dict(full)])


@case("agrees", tolerance=FLOAT32, why="float64 outputs, computed in float64 twice, in two orders")
def float64_outputs() -> Pair:
    x, w = normal(1, 32, 24).astype(np.float64), normal(2, 24, 8).astype(np.float64)
    return Pair(references=alone(x @ w), outputs=alone(x[:, ::-1] @ w[::-1]))


@case("agrees", tolerance=FLOAT32, why="ids, masks and strings are equal")
def ids_masks_strings_equal() -> Pair:
    one = {
        "ids": generator(1).integers(0, 1000, (4, 12)),
        "mask": generator(2).random((4, 12)) > 0.5,
        "labels": np.array(["cat", "dog", "cat", "bird"]),
    }
    return Pair(references=[one], outputs=again([one]))


@case("agrees", tolerance=FLOAT32, why="strings as objects on one side, as unicode on the other")
def strings_object_and_unicode() -> Pair:
    words = ["yes", "no", "perhaps"]
    return Pair(
        references=[{"labels": np.array(words)}],
        outputs=[{"labels": np.array(words, dtype=object)}],
    )


@case("agrees", tolerance=FLOAT32, why="NaN in the same places on both sides, the rest is equal")
def nan_same_places() -> Pair:
    pair = float32_noise(mlp(15))
    hole = generator(3).random((32, 16)) < 0.1
    return Pair(
        references=changed(pair.references, lambda value: np.where(hole, np.nan, value)),
        outputs=changed(pair.outputs, lambda value: np.where(hole, np.nan, value)),
    )


@case(
    "agrees",
    tolerance=BFLOAT16,
    why="of 4096 mask bits those nearest to the threshold flip under bfloat16, a few only",
)
def mask_few_bits_flip_bf16() -> Pair:
    pair = conversion(mlp(17, ends=64, rows=64), "bf16")
    return Pair(
        references=[{"mask": one["output"] > 0.45} for one in pair.references],
        outputs=[{"mask": one["output"] > 0.45} for one in pair.outputs],
        inputs=pair.inputs,
    )


@case(
    "agrees",
    tolerance=INT8,
    task="ids",
    why="one token id of 5000 changed under int8: no more than a declared small share",
)
def ids_one_of_5000_int8() -> Pair:
    ids = generator(4).integers(0, 32000, (50, 100))
    other = ids.copy()
    other[7, 33] = 12
    return Pair(references=[{"ids": ids}], outputs=[{"ids": other}])


@case(
    "agrees",
    tolerance=FLOAT32,
    why="two classes tie to the last bit of float32: either is a right answer",
)
def near_tie_changes_top_class() -> Pair:
    logits = normal(5, 16, 10)
    logits[:, 3] = logits.max(1) + 1
    logits[:, 6] = np.nextafter(logits[:, 3], np.float32(-100))
    other = logits.copy()
    other[:, [3, 6]] = other[:, [6, 3]]
    return Pair(references=[{"logits": logits}], outputs=[{"logits": other}])


@case(
    "agrees",
    tolerance=FLOAT32,
    why="cancellation: eager float32 is as far from float64 as the conversion is",
)
def cancellation_excused_by_float64() -> Pair:
    x = normal(6, 16, 256) + np.float32(1000)
    weight = normal(7, 256, 32)
    bias = -1000 * weight.astype(np.float64).sum(0)
    blocks = [x[:, at : at + 16] @ weight[at : at + 16] for at in range(0, 256, 16)]
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    return Pair(
        references=alone(x @ weight + bias.astype(np.float32)),
        outputs=alone(total + bias.astype(np.float32)),
        inputs=[{"x": x}],
        referees=alone(x.astype(np.float64) @ weight + bias.astype(np.float32)),
    )


@case("agrees", tolerance=FLOAT32, why="BatchNorm folded into the convolution before it")
def folded_batch_norm() -> Pair:
    net, inputs = segmenter(3)
    fused = copy.deepcopy(net)
    for at in (0, 3):
        fused.body[at] = torch.nn.utils.fuse_conv_bn_eval(fused.body[at], fused.body[at + 1])
        fused.body[at + 1] = nn.Identity()
    return Pair(references=run(net, inputs), outputs=run(fused, inputs), inputs=inputs)


@case("agrees", tolerance=BFLOAT16, why="rows of padding are exactly zero on both sides")
def zero_rows_of_padding_bf16() -> Pair:
    pair = conversion(mlp(18), "bf16")
    keep = (np.arange(32) < 20)[:, None]
    return Pair(
        references=changed(pair.references, lambda value: value * keep),
        outputs=changed(pair.outputs, lambda value: value * keep),
    )


@case("agrees", tolerance=FLOAT32, why="minus zero is zero")
def minus_zero() -> Pair:
    values = np.maximum(normal(10, 16, 16), 0)
    return Pair(references=alone(values), outputs=alone(np.where(values == 0, -0.0, values)))


@case(
    "agrees",
    tolerance=FLOAT32,
    why="a map of one constant channel and one of rounding noise round zero",
)
def dead_map_channel() -> Pair:
    pair = float32_noise(segmenter(4))

    def dead(value: np.ndarray, noise: float) -> np.ndarray:
        value[:, 5] = 1.5
        value[:, 6] = noise * normal(11, *value[:, 6].shape)
        return value

    return Pair(
        references=changed(pair.references, lambda value: dead(value, 0.0)),
        outputs=changed(pair.outputs, lambda value: dead(value, 1e-9)),
    )


# Conversions that are another model.


@case("differs", tolerance=0.15, why="softmax over 1000 classes of two unrelated random models")
def unrelated_softmax() -> Pair:
    last = nn.Sequential(Scaled(np.full(1000, 0.3)), nn.Softmax(-1))
    first, second = (mlp(seed, ends=1000, last=last) for seed in (31, 32))
    return Pair(references=run(*first), outputs=run(second[0], first[1]), inputs=first[1])


@case("differs", tolerance=INT4, why="hidden states of an unrelated transformer")
def unrelated_encoder() -> Pair:
    net, inputs = transformer(33)
    return Pair(references=run(net, inputs), outputs=run(transformer(34)[0], inputs))


@case(
    "differs",
    tolerance=INT4,
    why="every row is the mean row: nothing depends on the input any more",
)
def mean_row_everywhere() -> Pair:
    last = Scaled(np.full(16, 0.3), np.linspace(2, 5, 16))
    return edited(unchanged(mlp(36, last=last)), lambda v, _: v * 0 + v.mean(0, keepdims=True))


@case("differs", tolerance=INT4, why="probabilities that became the constant 1/1000")
def uniform_probabilities() -> Pair:
    last = nn.Sequential(Scaled(np.full(1000, 0.5)), nn.Softmax(-1))
    built = mlp(37, ends=1000, last=last)
    return edited(unchanged(built), lambda value, _: value * 0 + np.float32(0.001))


@case("differs", tolerance=INT8, why="the rows of each batch came back in another order")
def shuffled_rows() -> Pair:
    return edited(unchanged(classifier(38)), lambda value, _: np.roll(value, 5, axis=0))


@case(
    "differs",
    tolerance=INT4,
    why="rows were shuffled; a large common offset hides it in the whole tensor",
)
def shuffled_rows_under_offset() -> Pair:
    last = Scaled(np.full(16, 0.2), 5.0)
    return edited(unchanged(mlp(39, last=last)), lambda value, _: value[::-1].copy())


@case("differs", tolerance=INT8, why="the channels came back in another order")
def shuffled_channels() -> Pair:
    return edited(unchanged(transformer(40)), lambda value, _: value[..., ::-1].copy())


@case("differs", tolerance=INT4, why="every sign is flipped")
def signs_flipped() -> Pair:
    return edited(unchanged(mlp(41)), lambda value, _: -value)


def negate_row(value: np.ndarray, row: int) -> np.ndarray:
    """Negate one row."""
    value[row] *= -1
    return value


@case(
    "differs",
    tolerance=0.15,
    task="language_model",
    why="the last token's logits are another model's: the next word is always wrong",
)
def last_token_random() -> Pair:
    return token_replaced(44, -1)


def token_replaced(seed: int, at: int) -> Pair:
    """Replace the logits at one position by those of a model with other weights."""
    net, inputs = transformer(seed, ends="logits", vocabulary=400, rows=1, tokens=128, count=2)
    other = run(transformer(seed + 900, ends="logits", vocabulary=400)[0], inputs)

    def edit(value: np.ndarray, index: int) -> np.ndarray:
        value[:, at] = other[index]["output"][:, at]
        return value

    return edited(unchanged((net, inputs)), edit)


@case("differs", tolerance=INT4, why="one output channel of 64 holds garbage of the right size")
def one_channel_garbage() -> Pair:
    def edit(value: np.ndarray, index: int) -> np.ndarray:
        value[:, 40] = normal(index, len(value)) * value[:, 40].std()
        return value

    return edited(unchanged(mlp(46, ends=64)), edit)


@case("differs", tolerance=INT8, why="one of 21 segmentation classes is zero everywhere")
def one_map_class_zero() -> Pair:
    def edit(value: np.ndarray, _: int) -> np.ndarray:
        value[:, 13] = 0
        return value

    return edited(unchanged(segmenter(48)), edit)


@case("differs", tolerance=5e-3, why="a small signal on a large offset: the signal is gone")
def signal_on_offset_lost() -> Pair:
    built = mlp(49, last=Scaled(np.full(16, 0.3), 100.0))
    return edited(unchanged(built), lambda value, _: value * 0 + np.float32(100))


@case(
    "differs",
    tolerance=FLOAT32,
    why="an offset of 1000 that went through bfloat16: of the signal of 1 nothing is left",
)
def signal_on_offset_rounded_away() -> Pair:
    built = mlp(50, last=Scaled(np.full(16, 0.3), 1000.0))
    return edited(unchanged(built), lambda value, _: bfloat16(value))


@case(
    "differs",
    tolerance=INT8,
    why="one int8 scale for boxes of 640 and scores below 1: all scores became zero",
)
def detection_scores_zero_channel_first() -> Pair:
    pair = unchanged(detector(51, layout="channel_first"))
    return edited(pair, lambda value, _: int_per_tensor(torch.from_numpy(value)).numpy())


@case(
    "differs",
    tolerance=INT8,
    task="detection",
    why="the same with channels last: the shared scale leaves no score",
)
def detection_scores_zero_channel_last() -> Pair:
    pair = unchanged(detector(52, layout="channel_last"))
    return edited(pair, lambda value, _: int_per_tensor(torch.from_numpy(value)).numpy())


@case("differs", tolerance=INT8, why="of two outputs the scores are zero, the boxes are right")
def detection_scores_zero_two_outputs() -> Pair:
    return edited(unchanged(detector(53, layout="two")), lambda v, _: v * 0, only="scores")


@case("differs", tolerance=INT8, task="detection", why="width and height of each box are swapped")
def detection_width_height_swapped() -> Pair:
    def edit(value: np.ndarray, _: int) -> np.ndarray:
        value[:, [2, 3]] = value[:, [3, 2]]
        return value

    return edited(unchanged(detector(56, layout="channel_first")), edit)


@case(
    "differs",
    tolerance=INT4,
    task="detection",
    why="scores are right; the boxes are all the same box in the middle",
)
def detection_boxes_constant() -> Pair:
    pair = unchanged(detector(57, layout="two"))
    return edited(pair, lambda v, _: v * 0 + np.array([320, 320, 160, 160], "f4"), only="boxes")


@case("differs", tolerance=FLOAT32, why="bilinear resizing with the other rule for corners")
def segmentation_align_corners() -> Pair:
    net, inputs = segmenter(58)
    return Pair(references=run(net, inputs), outputs=run(segmenter(58, corners=True)[0], inputs))


@case("differs", tolerance=1e-3, why="maps are shifted by one pixel")
def segmentation_shifted() -> Pair:
    return edited(unchanged(segmenter(59)), lambda value, _: np.roll(value, 1, axis=-1))


@case("differs", tolerance=FLOAT32, why="blue and red of the image were exchanged")
def colours_exchanged() -> Pair:
    net, inputs = segmenter(61)
    swapped = [{"image": one["image"][:, ::-1].copy()} for one in inputs]
    return Pair(references=run(net, inputs), outputs=run(net, swapped), inputs=inputs)


@case("differs", tolerance=BFLOAT16, why="the attention mask was ignored: padding is attended to")
def attention_mask_ignored() -> Pair:
    net, inputs = transformer(62, tokens=24)
    mask = (np.arange(24) < np.array([[24], [12], [6], [18]])).astype(np.int64)
    masked = [{**one, "mask": mask} for one in inputs]
    return Pair(references=run(net, masked), outputs=run(net, inputs), inputs=masked)


@case(
    "differs",
    tolerance=BFLOAT16,
    task="language_model",
    why="the causal mask was lost: early tokens see later ones",
)
def causal_mask_lost() -> Pair:
    net, inputs = transformer(63, ends="logits", vocabulary=300)
    other = copy.deepcopy(net)
    for block in other.blocks:
        block.causal = False
    return Pair(references=run(net, inputs), outputs=run(other, inputs), inputs=inputs)


@case("differs", tolerance=FLOAT32, why="positions start at one instead of zero")
def positions_shifted() -> Pair:
    net, inputs = transformer(64)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.places.weight.copy_(net.places.weight.roll(-1, 0))
    return Pair(references=run(net, inputs), outputs=run(other, inputs), inputs=inputs)


@case("differs", tolerance=INT8, why="every input after the first returns the first one's output")
def stale_output() -> Pair:
    pair = unchanged(classifier(65))
    first = pair.references[0]["output"]
    return edited(pair, lambda value, index: first.copy())


@case(
    "differs",
    tolerance=INT4,
    why="specialised to a batch of one: the first row is repeated for all",
)
def first_row_repeated() -> Pair:
    return edited(unchanged(classifier(66)), lambda v, _: np.repeat(v[:1], len(v), axis=0))


@case("differs", tolerance=FLOAT32, why="the LSTM's state leaked from one call into the next")
def recurrent_state_leaks() -> Pair:
    net, inputs = recurrent(67)
    joined = {"x": np.concatenate([one["x"] for one in inputs], axis=1)}
    whole = run(net, [joined])[0]["output"]
    parts = np.split(whole, len(inputs), axis=1)
    return Pair(references=run(net, inputs), outputs=alone(*parts), inputs=inputs)


@case("differs", tolerance=FLOAT32, why="two gates of the LSTM were exchanged")
def recurrent_gates_exchanged() -> Pair:
    net, inputs = recurrent(68)
    other = copy.deepcopy(net)
    with torch.no_grad():
        gates = other.cell.weight_ih_l0.clone().chunk(4)
        other.cell.weight_ih_l0.copy_(torch.cat([gates[1], gates[0], gates[2], gates[3]]))
    return Pair(references=run(net, inputs), outputs=run(other, inputs), inputs=inputs)


@case("differs", tolerance=FLOAT32, why="everything is two percent too large")
def scaled_by_two_percent() -> Pair:
    return edited(unchanged(mlp(71)), lambda value, _: value * np.float32(1.02))


@case(
    "differs",
    tolerance=INT4,
    why="int4 with one scale for a whole tensor ruins this classifier",
    task="classification",
)
def int4_per_tensor_with_outlier() -> Pair:
    net, inputs = classifier(73)
    with torch.no_grad():
        net.body[2].weight[:, 0] *= 25
    return Pair(
        references=run(net, inputs),
        outputs=run(rounded(net, "int4_tensor"), inputs),
        inputs=inputs,
    )


@case(
    "differs",
    tolerance=INT8,
    why="channels from 0.001 to 1000 with one int8 scale: the small ones became zero",
)
def channel_scales_int8_tensor() -> Pair:
    return conversion(scaled_rows(2), "int8_tensor")


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
    task="classification",
    why="in each row the first class fell six logits behind another: all are wrong",
)
def every_top_class_changed() -> Pair:
    return first_two_exchanged(normal(75, 64, 1000) * np.float32(3), 16, 10)


@case(
    "differs",
    tolerance=INT4,
    task="embedding",
    why="anisotropic embeddings that all became their common mean: cosine 0.99, no ranking",
)
def embeddings_collapsed_to_mean() -> Pair:
    points = normal(78, 64, 48) * np.float32(0.15) + np.float32(1)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    mean = unit.mean(0, keepdims=True).repeat(64, axis=0)
    return Pair(references=[{"embedding": unit}], outputs=[{"embedding": mean}])


@case(
    "differs",
    tolerance=INT8,
    task="regression",
    why="the target of small spread is noise, the large one hides it",
)
def small_target_replaced() -> Pair:
    def edit(value: np.ndarray, index: int) -> np.ndarray:
        value[:, 0] = value[::-1, 0]
        return value

    return edited(unchanged(three_targets(79)), edit)


@case("differs", tolerance=FLOAT32, why="one of two NaN moved to another element")
def nan_moved() -> Pair:
    values = normal(80, 16, 16)
    other = values.copy()
    values[3, 4] = other[3, 5] = np.nan
    values[9, 9] = other[9, 9] = np.nan
    return Pair(references=alone(values), outputs=alone(other))


@case("differs", tolerance=INT8, why="one NaN where the reference has a number")
def nan_appears() -> Pair:
    pair = unchanged(mlp(81))

    def edit(value: np.ndarray, index: int) -> np.ndarray:
        value[5, 5] = np.nan if index == 1 else value[5, 5]
        return value

    return edited(pair, edit)


@case("differs", tolerance=1e-2, why="numbers above 65504 were clamped to 65504")
def fp16_saturated() -> Pair:
    built = mlp(83, last=Scaled(np.full(16, 4e5)))
    return edited(unchanged(built), lambda value, _: value.clip(-65504, 65504))


@case("differs", tolerance=FLOAT32, why="-inf of forbidden words became the lowest float32")
def minus_infinity_became_finite() -> Pair:
    pair = masked_log_probabilities("float64")
    lowest = np.finfo(np.float32).min
    return edited(pair, lambda value, _: np.maximum(value, lowest))


@case("differs", tolerance=FLOAT32, why="an output is missing")
def output_missing() -> Pair:
    pair = unchanged(detector(85, layout="two"))
    return Pair(
        references=pair.references,
        outputs=[{"boxes": one["boxes"]} for one in pair.outputs],
    )


@case("differs", tolerance=INT8, why="a mask came back inverted")
def mask_inverted() -> Pair:
    mask = generator(88).random((64, 64)) > 0.5
    return Pair(references=[{"mask": mask}], outputs=[{"mask": ~mask}])


@case("differs", tolerance=FLOAT32, why="int64 ids above 2**31 wrapped around in int32")
def ids_wrapped_around() -> Pair:
    ids = generator(92).integers(2**31, 2**33, (8, 8))
    wrapped = ids.astype(np.int32).astype(np.int64)
    return Pair(references=[{"ids": ids}], outputs=[{"ids": wrapped}])


@case(
    "differs",
    tolerance=FLOAT32,
    why="float64 is of no help here: eager itself is as wrong as a random number",
)
def random_error_not_excused_by_float64() -> Pair:
    truth = normal(93, 32, 16).astype(np.float64)
    return Pair(
        references=alone((truth + normal(94, 32, 16)).astype(np.float32)),
        outputs=alone((truth + normal(95, 32, 16)).astype(np.float32)),
        referees=alone(truth),
    )


@case(
    "differs",
    tolerance=FLOAT32,
    why="as far from float64 as eager, but fifty times the tolerance: beyond any excuse",
)
def excuse_is_bounded() -> Pair:
    truth = normal(97, 64, 16).astype(np.float64)
    return Pair(
        references=alone((truth + 5e-3 * normal(98, 64, 16)).astype(np.float32)),
        outputs=alone((truth + 5e-3 * normal(99, 64, 16)).astype(np.float32)),
        referees=alone(truth),
    )


@case("differs", tolerance=FLOAT32, why="outputs of about 1e-8 that became zero")
def tiny_outputs_zero() -> Pair:
    return edited(unchanged(mlp(100, last=Scaled(np.full(16, 1e-8)))), lambda v, _: v * 0)


@case("differs", tolerance=INT8, why="sparse outputs whose non-zeros are one place further")
def sparse_non_zeros_moved() -> Pair:
    last = nn.Sequential(Scaled(np.ones(64), -0.22), nn.ReLU())
    built = mlp(102, ends=64, rows=64, last=last)
    return edited(unchanged(built), lambda value, _: np.roll(value, 1, axis=1))


@case("differs", tolerance=INT8, why="two rows of 512 came back as zeros")
def two_rows_zero() -> Pair:
    keep = (~np.isin(np.arange(512), [11, 40]))[:, None]
    return edited(unchanged(classifier(103, rows=512)), lambda value, _: value * keep)


@case(
    "differs",
    tolerance=FLOAT32,
    why="the baseline's own rounding floor is small, the conversion's error is not",
)
def floor_does_not_excuse() -> Pair:
    pair = unchanged(mlp(104))
    shifted = edited(pair, lambda value, index: value + 0.01 * normal(index, *value.shape))
    return Pair(
        references=shifted.references,
        outputs=shifted.outputs,
        inputs=pair.inputs,
        references_again=changed(pair.references, lambda v: v * np.float32(1 + 2e-7)),
    )


@case("differs", tolerance=FLOAT32, why="a constant output that is another constant")
def constant_output_changed() -> Pair:
    constant = np.full((16, 8), 3.25, np.float32)
    return Pair(references=alone(constant), outputs=alone(constant + np.float32(0.05)))


@case(
    "differs",
    tolerance=FLOAT32,
    why="ids changed although the logits beside them have clear winners and are equal",
)
def ids_changed_beside_clear_logits() -> Pair:
    logits = normal(105, 32, 10)
    logits[:, 4] += 9
    first = {"logits": logits, "ids": logits.argmax(-1)}
    wrong = {"logits": logits.copy(), "ids": (logits.argmax(-1) + (np.arange(32) == 7))}
    return Pair(references=[first], outputs=[wrong])


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


@case("not_deterministic", tolerance=INT8, why="dropout is active: a tenth of the outputs is zero")
def baseline_dropout() -> Pair:
    return unstable(mlp(203), lambda v, i: v * (generator(i).random(v.shape) > 0.1))


@case(
    "not_deterministic",
    tolerance=FLOAT32,
    why="a counter scales the output: the conversion equals the first run exactly",
)
def baseline_counter() -> Pair:
    return unstable(mlp(204), lambda value, _: value * 2)


@case("not_deterministic", tolerance=INT8, why="one row of a thousand moves between two runs")
def baseline_one_row_moves() -> Pair:
    return unstable(mlp(205, rows=1000, count=2), lambda value, _: negate_row(value, 400))


@case("not_deterministic", tolerance=BFLOAT16, why="only the last of eight inputs does not repeat")
def baseline_last_input_moves() -> Pair:
    built = classifier(206, count=8)
    return unstable(built, lambda v, i: v + normal(i, *v.shape) if i == 7 else v)


@case("not_deterministic", tolerance=FLOAT32, why="NaN moves between two runs of the baseline")
def baseline_nan_moves() -> Pair:
    values = normal(207, 8, 8)
    first, second = values.copy(), values.copy()
    first[1, 1] = second[6, 6] = np.nan
    return Pair(
        references=alone(first), outputs=alone(first.copy()), references_again=alone(second)
    )


@case("not_deterministic", tolerance=FLOAT32, why="sampled ids differ between two runs")
def baseline_ids_sampled() -> Pair:
    first, second = (generator(seed).integers(0, 500, (4, 16)) for seed in (208, 209))
    return Pair(
        references=[{"ids": first}],
        outputs=[{"ids": first.copy()}],
        references_again=[{"ids": second}],
    )


@case("not_deterministic", tolerance=FLOAT32, why="a random mask beside logits that do repeat")
def baseline_mask_random() -> Pair:
    logits = normal(210, 8, 8)
    masks = [generator(seed).random((8, 8)) > 0.5 for seed in (211, 212)]
    first, second = ({"logits": logits.copy(), "mask": mask} for mask in masks)
    return Pair(references=[first], outputs=again([first]), references_again=[second])


@case(
    "not_deterministic",
    tolerance=INT8,
    why="one class's scores are random, beside boxes so large that the whole hides it",
)
def baseline_small_scores_random() -> Pair:
    pair = unchanged(detector(214, layout="channel_first"))

    def rare(value: np.ndarray, seed: int) -> np.ndarray:
        value[:, 9] = generator(seed).random(value[:, 9].shape) * 1e-3
        return value

    first, second = (changed(pair.references, lambda v, s=s: rare(v, s)) for s in (1, 2))
    return Pair(references=first, outputs=again(first), references_again=second)


@case(
    "not_deterministic",
    tolerance=INT8,
    why="random on each run, and the conversion is random too: neither yes nor no",
)
def baseline_and_conversion_random() -> Pair:
    pair = unchanged(mlp(215))
    moved = [
        edited(pair, lambda v, i, shift=shift: v + normal(shift + i, *v.shape)).outputs
        for shift in (10, 20)
    ]
    return Pair(
        references=pair.references,
        outputs=moved[0],
        references_again=moved[1],
        inputs=pair.inputs,
    )


@case(
    "not_deterministic",
    tolerance=FLOAT32,
    why="a running mean moves by a little: one in ten thousand, ten times float32 rounding",
)
def baseline_drifts_slowly() -> Pair:
    return unstable(mlp(217), lambda value, _: value * np.float32(1.0001))
