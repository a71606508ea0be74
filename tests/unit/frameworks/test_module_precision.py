"""Half precision that a model came in stays; everything else takes the workload's dtype."""

import pytest
import torch

from benchorch.frameworks.module_precision import (
    half_precision,
    in_dtype,
    in_workload_dtype,
    parameter_dtypes,
)


def layer(dtype: torch.dtype) -> torch.nn.Module:
    module = torch.nn.BatchNorm1d(4).to(dtype)
    module.register_buffer("frequencies", torch.ones(2))
    return module


@pytest.mark.parametrize(
    ("came", "asked", "served"),
    [
        ("bfloat16", "float32", "bfloat16"),
        ("float16", "float32", "float16"),
        ("float64", "float32", "float32"),
        ("float32", "float16", "float16"),
        ("bfloat16", "float16", "float16"),
        ("bfloat16", "float64", "float64"),
    ],
)
def test_only_float32_leaves_half_precision_as_it_is(came: str, asked: str, served: str) -> None:
    module = in_workload_dtype(layer(getattr(torch, came)), asked)
    assert parameter_dtypes(module) == (served,)


def test_the_coarsest_half_of_a_mixed_module_counts() -> None:
    mixed = torch.nn.Sequential(layer(torch.float16), layer(torch.bfloat16), layer(torch.float32))
    assert half_precision(mixed) == "bfloat16"
    assert half_precision(layer(torch.float32)) == ""
    assert half_precision(torch.nn.Identity()) == ""


def test_a_buffer_in_half_precision_stays_what_the_code_beside_it_expects() -> None:
    module = torch.nn.Linear(2, 2)
    module.register_buffer("normalizer", torch.tensor(5.5, dtype=torch.bfloat16))
    served = in_workload_dtype(module, "float32")
    assert [each.dtype for each in served.buffers()] == [torch.bfloat16]


def test_quantised_layers_take_float32_whatever_the_buffers_beside_them() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module.register_buffer("normalizer", torch.tensor(5.5, dtype=torch.bfloat16))
    quantised = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear})
    assert parameter_dtypes(module) == parameter_dtypes(quantised) == ("float32",)


def turning(pairs: torch.dtype = torch.complex64) -> torch.nn.Module:
    """A layer beside frequencies as in Llama's own code."""
    module = torch.nn.Linear(2, 2)
    module.register_buffer("freqs_cis", torch.polar(torch.ones(3), torch.arange(3.0)).to(pairs))
    module.turn = torch.nn.Parameter(torch.full((2,), 1 + 2j, dtype=pairs))
    return module


@pytest.mark.parametrize(
    ("asked", "came", "served"),
    [
        ("float32", torch.complex64, torch.complex64),
        ("float32", torch.complex128, torch.complex64),
        ("float64", torch.complex64, torch.complex128),
        ("float16", torch.complex64, torch.complex64),
        ("bfloat16", torch.complex128, torch.complex128),
    ],
)
def test_complex_tensors_keep_their_imaginary_parts(
    asked: str, came: torch.dtype, served: torch.dtype
) -> None:
    module = in_workload_dtype(turning(came), asked)
    assert module.weight.dtype == getattr(torch, asked)
    for found, expected in ((module.freqs_cis, turning().freqs_cis), (module.turn, turning().turn)):
        assert found.dtype == served
        assert torch.equal(found.to(torch.complex64), expected)
    assert isinstance(module.turn, torch.nn.Parameter)


@pytest.mark.parametrize("asked", ["float32", "float16", "float64"])
def test_weights_in_float8_stay_and_inputs_take_the_dtype_beside_them(asked: str) -> None:
    module = torch.nn.Linear(2, 2)
    packed = module.weight.detach().to(torch.float8_e4m3fn)
    module.weight = torch.nn.Parameter(packed, requires_grad=False)
    served = in_workload_dtype(module, asked)
    assert served.weight.dtype == torch.float8_e4m3fn
    assert served.bias.dtype == getattr(torch, asked)
    assert parameter_dtypes(served) == (asked,)


def test_a_class_with_a_method_of_its_own_is_asked_by_it() -> None:
    class Own(torch.nn.Linear):
        def to(self, *args: object, **more: object) -> torch.nn.Module:
            self.asked = args
            return super().to(*args, **more)

    assert in_dtype(Own(2, 2), "float16").asked == (torch.float16,)
