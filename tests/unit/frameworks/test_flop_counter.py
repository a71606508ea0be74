from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from benchorch.domain.result import ModelCounts
from benchorch.domain.tensors import Example
from benchorch.frameworks.flop_counter import count_model
from benchorch.frameworks.torch_operators import operator_facts
from benchorch.models.architectures.resnet import resnet


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.function(**inputs)


def example(**arrays: Any) -> Example:
    return Example(arrays=arrays, keywords={}, specs=())


def floats(*shape: int) -> np.ndarray:
    return np.linspace(0.1, 1.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def macs_of(function: Callable[..., Any], **arrays: Any) -> int:
    found = count_model(Calls(function), example(**arrays))
    assert not found.unavailable
    assert not found.uncounted
    assert found.macs is not None
    return found.macs


def products(found: ModelCounts) -> int:
    """Of the sum of products and other operations, in which FLOPs count products twice."""
    assert found.flops is not None
    assert found.macs is not None
    return found.flops - found.macs


def test_resnet_18_has_the_counts_of_the_convention() -> None:
    found = count_model(resnet(18, 1000).eval(), example(x=floats(1, 3, 224, 224)))
    assert found.parameters == 11_689_512
    assert found.parameter_bytes == 4 * 11_689_512
    assert found.macs == 1_822_177_768
    assert found.flops == 3_636_251_112
    assert products(found) == 1_814_073_344
    assert found.uncounted == {}


def test_a_batch_has_as_many_macs_as_its_items_together() -> None:
    network = resnet(18, 10).eval()
    one, three = (count_model(network, example(x=floats(n, 3, 32, 32))) for n in (1, 3))
    assert three.macs == 3 * (one.macs or 0)
    assert three.parameters == one.parameters


@pytest.mark.parametrize("layout", ["rows", "transposed"])
def test_a_linear_layer_counts_its_bias_however_its_input_lies(layout: str) -> None:
    def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.linear(x if layout == "rows" else x.transpose(0, 1), w, b)

    assert macs_of(linear, x=floats(2, 2, 5), w=floats(7, 5), b=floats(7)) == 4 * 7 * 5 + 4 * 7


@pytest.mark.parametrize(
    ("product", "macs"),
    [
        (lambda a, b: a[0] @ b[0], 2 * 3 * 4),
        (lambda a, b: a @ b, 5 * 2 * 3 * 4),
        (lambda a, b: torch.einsum("bij,bjk->bik", a, b), 5 * 2 * 3 * 4),
        (lambda a, b: a[0] @ b[0, :, 0], 2 * 3),
        (lambda a, b: a[0, 0] @ b[0, :, 0], 3),
        (lambda a, b: torch.addmm(b[0, 0], a[0], b[0]), 2 * 3 * 4 + 2 * 4),
        (lambda a, b: torch.baddbmm(b[:, :1], a, b), 5 * (2 * 3 * 4 + 2 * 4)),
    ],
)
def test_a_product_has_one_mac_for_each_product_summed(
    product: Callable[..., torch.Tensor], macs: int
) -> None:
    assert macs_of(product, a=floats(5, 2, 3), b=floats(5, 3, 4)) == macs


def sparse(layout: str) -> torch.Tensor:
    """An 8x8 matrix that stores eight elements, in two blocks of four where it stores blocks."""
    dense = torch.zeros(8, 8)
    dense[:2, 4:6] = dense[6:, :2] = 1.0
    return {
        "coo": dense.to_sparse_coo,
        "csr": dense.to_sparse_csr,
        "csc": dense.to_sparse_csc,
        "bsr": lambda: dense.to_sparse_bsr((2, 2)),
    }[layout]()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_a_product_with_a_sparse_matrix_has_one_mac_for_each_stored_element(layout: str) -> None:
    one = sparse(layout)
    assert macs_of(lambda x: one @ x, x=floats(8, 3)) == 8 * 3
    assert macs_of(lambda x: one @ x, x=floats(8)) == 8
    assert macs_of(lambda x: nn.functional.linear(x, one), x=floats(3, 8)) == 8 * 3


def test_a_sparse_product_counts_what_is_added_and_a_layer_what_is_stored() -> None:
    one = sparse("coo")
    assert macs_of(lambda x: torch.sparse.mm(one, x), x=floats(8, 3)) == 8 * 3
    added = macs_of(lambda x: torch.addmm(x, one, x), x=floats(8, 3))
    assert added == 8 * 3 + 8 * 3
    assert macs_of(lambda x: torch.relu(one) @ x, x=floats(8, 3)) == 8 + 8 * 3


def test_a_product_of_two_sparse_matrices_is_named_and_not_guessed() -> None:
    one = sparse("csr")
    found = count_model(Calls(lambda x: (one @ one) @ x), example(x=floats(8, 3)))
    assert found.uncounted == {"aten.mm": 1}


def test_convolutions_count_by_their_kernels() -> None:
    x = floats(1, 4, 8, 8)
    plain = macs_of(lambda x, w: functional.conv2d(x, w), x=x, w=floats(6, 4, 3, 3))
    grouped = macs_of(lambda x, w: functional.conv2d(x, w, groups=2), x=x, w=floats(6, 2, 3, 3))
    biased = macs_of(
        lambda x, w, b: functional.conv2d(x, w, b), x=x, w=floats(6, 4, 3, 3), b=floats(6)
    )
    assert plain == 6 * 6 * 6 * 4 * 9
    assert grouped == plain // 2
    assert biased == plain + 6 * 6 * 6


def test_a_transposed_convolution_counts_a_kernel_for_every_element_that_goes_in() -> None:
    found = macs_of(
        lambda x, w: functional.conv_transpose2d(x, w, stride=2),
        x=floats(1, 4, 8, 8),
        w=floats(4, 6, 3, 3),
    )
    assert found == 4 * 8 * 8 * 6 * 9


def test_attention_is_two_products_and_a_softmax_however_it_is_written() -> None:
    q, k, v = floats(2, 4, 6, 8), floats(2, 4, 10, 8), floats(2, 4, 10, 8)

    def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, -1) @ v

    expected = 2 * 4 * 6 * 10 * (8 + 8 + 1)
    assert macs_of(functional.scaled_dot_product_attention, query=q, key=k, value=v) == expected
    assert macs_of(by_hand, q=q, k=k, v=v) == expected


def test_attention_of_one_batch_of_queries_to_many_of_keys_counts_them_all() -> None:
    attention = functional.scaled_dot_product_attention
    many = floats(3, 2, 7, 8)
    expected = macs_of(attention, query=floats(3, 2, 5, 8), key=many, value=many)
    assert macs_of(attention, query=floats(1, 2, 5, 8), key=many, value=many) == expected


def test_a_causal_mask_makes_attention_no_cheaper() -> None:
    q = floats(1, 2, 6, 8)

    def attend(q: torch.Tensor, causal: bool) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, q, q, is_causal=causal)

    full, causal = (macs_of(lambda q, c=c: attend(q, c), q=q) for c in (False, True))
    assert full == causal


@pytest.mark.parametrize(
    ("layer", "shape", "each"),
    [
        (nn.BatchNorm2d(4), (1, 4, 5, 5), 2),
        (nn.BatchNorm2d(4, affine=False), (1, 4, 5, 5), 1),
        (nn.LayerNorm(5), (1, 4, 5, 5), 2),
        (nn.LayerNorm(5, elementwise_affine=False), (1, 4, 5, 5), 1),
        (nn.GroupNorm(2, 4), (1, 4, 5, 5), 2),
        (nn.InstanceNorm2d(4), (1, 4, 5, 5), 1),
        (nn.RMSNorm(5), (1, 4, 5, 5), 2),
        (nn.ReLU6(), (1, 4, 5, 5), 1),
        (nn.GELU(), (1, 4, 5, 5), 1),
        (nn.SiLU(inplace=True), (1, 4, 5, 5), 1),
        (nn.PReLU(), (1, 4, 5, 5), 1),
        (nn.SELU(), (1, 4, 5, 5), 1),
        (nn.Hardswish(), (1, 4, 5, 5), 1),
        (nn.LogSigmoid(), (1, 4, 5, 5), 1),
        (nn.Softmax(dim=-1), (1, 4, 5, 5), 1),
        (nn.MaxPool2d(2), (1, 4, 5, 5), 1),
        (nn.AvgPool2d(2), (1, 4, 5, 5), 1),
        (nn.AdaptiveAvgPool2d(1), (1, 4, 5, 5), 1),
        (nn.AdaptiveAvgPool2d(3), (1, 4, 5, 5), 1),
        (nn.AdaptiveMaxPool2d(2), (1, 4, 5, 5), 1),
        (nn.MaxPool1d(2), (1, 4, 25), 1),
        (nn.Dropout(0.5), (1, 4, 5, 5), 0),
        (nn.Flatten(), (1, 4, 5, 5), 0),
        (nn.PixelShuffle(2), (1, 4, 5, 5), 0),
        (nn.ZeroPad2d(1), (1, 4, 5, 5), 0),
        (nn.ReflectionPad2d(1), (1, 4, 5, 5), 0),
        (nn.Upsample(scale_factor=2), (1, 4, 5, 5), 0),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 4, 5, 5), 16),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_layer_without_products_counts_by_the_element(
    layer: nn.Module, shape: tuple[int, ...], each: int
) -> None:
    layer.eval()
    assert macs_of(lambda x: layer(x), x=floats(*shape)) == each * 100


def test_what_only_moves_or_looks_up_counts_nothing() -> None:
    table = nn.Embedding(10, 4)

    def moves(ids: torch.Tensor) -> torch.Tensor:
        found = table(ids)
        joined = torch.cat([found, found * 2 + 1], dim=-1).transpose(0, 1).contiguous()
        kept = torch.where(joined > 0, joined, joined.new_zeros(())).topk(2).values
        return kept.masked_fill(kept > 1, 0.0).masked_fill_(kept > 2, 0.0)

    assert macs_of(moves, ids=np.arange(6).reshape(2, 3)) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 2,
        lambda x: torch.polar(x, x) * torch.complex(x, x),
        lambda x: torch.block_diag(torch.diag(x[0]), torch.diag_embed(x)[0]),
        lambda x: torch.diagonal_scatter(x, x[0]),
        lambda x: (torch.isin(x, x), x.unique(), x.unique_consecutive(), x.unique(dim=0)),
        lambda x: (x.kthvalue(1), x.mode()),
        lambda x: x.masked_fill(x > 0, torch.tensor(0.0)),
    ],
    ids=["floor", "complex", "diagonal", "scatter", "unique", "order", "fill"],
)
def test_what_is_elementwise_moved_or_ordered_counts_nothing(
    function: Callable[..., Any],
) -> None:
    assert macs_of(function, x=floats(4, 4)) == 0


def test_whether_any_or_all_hold_is_a_reduction() -> None:
    assert macs_of(lambda x: (x.any(), x.all(), x.count_nonzero()), x=floats(2, 3)) == 18
    assert macs_of(lambda x: (x > 0).any(), x=floats(2, 3)) == 0


def test_a_view_counts_nothing_however_it_is_made() -> None:
    def views(x: torch.Tensor) -> torch.Tensor:
        first, second = x.clone().unsafe_split(2)
        return torch.cat([first.transpose_(0, 1), second.unsqueeze_(0).squeeze_(0).t_()])

    assert macs_of(views, x=floats(4, 3)) == 0


def test_a_cell_uses_every_weight_once() -> None:
    cell = nn.LSTMCell(3, 5).eval()
    found = count_model(Calls(lambda x: cell(x)), example(x=floats(2, 3)))
    assert products(found) == 2 * (3 * 20 + 5 * 20)
    assert found.uncounted == {}


def test_sums_of_whole_numbers_are_lengths_and_count_nothing() -> None:
    mask = np.ones((2, 3), np.int64)
    assert macs_of(lambda mask: mask.sum(-1).cumsum(0), mask=mask) == 0
    assert macs_of(lambda x: x.sum(-1), x=floats(2, 3)) == 6


def test_the_larger_of_two_tensors_is_elementwise_and_of_one_a_reduction() -> None:
    assert macs_of(lambda x: torch.max(x, x * 2), x=floats(2, 3)) == 0
    assert macs_of(lambda x: x.max(dim=1).values, x=floats(2, 3)) == 6


@pytest.mark.parametrize(
    ("kind", "activations"), [(nn.LSTM, 5), (nn.GRU, 3), (nn.RNN, 1)], ids=["lstm", "gru", "rnn"]
)
def test_a_recurrent_layer_uses_every_weight_once_a_step(
    kind: type[nn.RNNBase], activations: int
) -> None:
    layer = kind(3, 5, num_layers=2, bidirectional=True, batch_first=True).eval()
    found = count_model(Calls(lambda x: layer(x)), example(x=floats(2, 7, 3)))
    weights = sum(each.numel() for each in layer.parameters() if each.dim() == 2)
    biases = sum(each.numel() for each in layer.parameters() if each.dim() == 1)
    assert products(found) == 2 * 7 * weights
    assert found.macs == 2 * 7 * (weights + biases + activations * 4 * 5)
    assert found.uncounted == {}


def test_torchs_fused_transformer_counts_as_its_parts() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    encoder = nn.TransformerEncoder(layer, 1)
    found = count_model(encoder, Example(arrays={"src": floats(2, 6, 8)}, keywords={}, specs=()))
    tokens, width, hidden = 2 * 6, 8, 16
    linear = tokens * (4 * width * width + 2 * width * hidden)
    assert products(found) == linear + 2 * 6 * 6 * width * 2
    assert found.uncounted == {}
    mask = {"src": floats(2, 6, 8), "src_key_padding_mask": np.zeros((2, 6), bool)}
    masked = count_model(encoder, example(**mask))
    assert (masked.macs, masked.uncounted) == (found.macs, {})
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_shared_parameter_counts_once() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    found = count_model(
        nn.Sequential(first, second), Example(arrays={"input": floats(1, 4)}, keywords={}, specs=())
    )
    assert (found.parameters, found.parameter_bytes) == (16, 64)
    assert found.macs == 2 * 16


def test_an_operator_without_a_rule_is_listed_with_how_often_it_ran() -> None:
    def transform(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.fft.ifft(x).real
        return x @ x.T

    found = count_model(Calls(transform), example(x=floats(4, 4)))
    assert set(found.uncounted.values()) == {3}
    assert all(name.startswith("aten._fft") for name in found.uncounted)
    assert found.macs == 4 * 4 * 4


def test_an_operator_of_somebody_elses_is_listed_under_its_own_name() -> None:
    with torch.library._scoped_library("benchorch_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        found = count_model(Calls(torch.ops.benchorch_test.twice), example(x=floats(2, 2)))
    assert found.uncounted == {"benchorch_test.twice": 1}


def test_a_model_that_cannot_be_counted_keeps_its_parameters_and_says_why() -> None:
    layer = nn.Linear(2, 2)

    class Shy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("nobody may look")

    found = count_model(Shy(), example(x=floats(1, 2)))
    assert (found.macs, found.flops, found.parameters) == (None, None, 6)
    assert found.unavailable == "the operators could not be counted: nobody may look"


def test_counting_leaves_no_trace_in_the_module() -> None:
    network = resnet(18, 10).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    count_model(network, example(x=floats(1, 3, 32, 32)))
    after = network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    # A module can still be trained, exported and compiled afterwards.
    network(torch.ones(1, 3, 32, 32)).sum().backward()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["bert", "vit"])
def test_products_are_half_of_what_torchs_own_counter_says(kind: str, attention: str) -> None:
    transformer, inputs = small_transformer(kind, "eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        transformer(**{name: torch.tensor(array) for name, array in inputs.items()})
    ours, _ = small_transformer(kind, attention)
    found = count_model(ours, example(**inputs))
    assert 2 * products(found) == counter.get_total_flops()
    assert found.uncounted == {}


def small_transformer(kind: str, attention: str) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertModel, ViTConfig, ViTModel

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "attn_implementation": attention,
    }
    if kind == "bert":
        ids = np.arange(2 * 16).reshape(2, 16) % 50
        model = BertModel(BertConfig(vocab_size=50, **sizes))
        return model.eval(), {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    model = ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes))
    return model.eval(), {"pixel_values": floats(2, 3, 32, 32)}


def test_counting_does_not_import_dynamo() -> None:
    code = """
import sys, numpy, torch
from benchorch.domain.tensors import Example
from benchorch.frameworks.flop_counter import count_model
arrays = {"input": numpy.ones((2, 4), numpy.float32)}
print(count_model(torch.nn.Linear(4, 3), Example(arrays=arrays, keywords={}, specs=())).macs)
print("torch._dynamo" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["30", "False"]


class Branches(torch.nn.Module):
    """A branch as exporters keep it, which Dynamo traces in each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return found


def test_a_model_with_branches_can_be_called_after_it_was_counted() -> None:
    module, x = Branches(), torch.ones(2)
    for count in (
        lambda: count_model(module, example(x=x.numpy())),
        lambda: operator_facts(module, {"x": x}, {}),
    ):
        count()
        assert torch.equal(module(x), x.sin())
