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

import numpy as np
import torch
from torch import nn

from parity_corpus.pairs import (
    BFLOAT16,
    FLOAT32,
    INT4,
    INT8,
    INT8_WEIGHTS,
    Batch,
    Batches,
    Case,
    Pair,
    Scaled,
    Verdict,
    _array,
    again,
    alone,
    changed,
    classifier,
    detector,
    edited,
    first_two_exchanged,
    generator,
    int_per_tensor,
    mlp,
    negate_row,
    normal,
    recurrent,
    rounded,
    scaled_rows,
    segmenter,
    transformer,
)

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


def conversion(built: tuple[nn.Module, list[Batch]], how: str) -> Pair:
    """Compare a net with a really rounded copy of itself."""
    net, inputs = built
    return Pair(references=run(net, inputs), outputs=run(rounded(net, how), inputs), inputs=inputs)


# Small real networks.  Each builder returns the net and its inputs.


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
