"""Half precision that a model came in stays; everything else takes the workload's dtype."""

import pytest
import torch

from benchorch.frameworks.module_precision import (
    half_precision,
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
