"""What ran is read from facts, and a step that changed nothing is named with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from benchorch.domain.execution import Execution
from benchorch.domain.tensors import Example
from benchorch.frameworks.torch_call import quantised_parts
from benchorch.frameworks.torch_operators import operator_facts, program_operators
from benchorch.interfaces.runtime import LoadRequest
from benchorch.runtimes.eager import Eager
from benchorch.trial.execution import execution_of
from support import conversions as lab


def ran(name: str, directory: Path, model: str = "Mlp") -> Execution:
    chain = lab.chain_of(name, model)
    executable = lab.converted(chain, directory)
    found = execution_of(chain, executable.facts())
    executable.close()
    return found


def eager_facts(module: torch.nn.Module, directory: Path) -> dict[str, object]:
    example = Example(
        arrays=lab.inputs_of(lab.chain_of("eager")), keywords={}, specs=(), dynamic=()
    )
    request = LoadRequest(
        module=lambda: module,
        source=None,
        sources={},
        example=example,
        device="cpu",
        threads=1,
        scratch_dir=directory,
    )
    return dict(Eager().load(request).facts())


def test_a_cast_and_an_autocast_execute_in_what_they_request(tmp_path: Path) -> None:
    cast = ran("bf16", tmp_path)
    assert (cast.requested, cast.executed, cast.executed_ratio) == ("bfloat16", "bfloat16", 1.0)
    assert ran("autocast_bf16", tmp_path).casts == 3


def test_float16_on_a_cpu_is_said_to_run_in_float32_with_casts(tmp_path: Path) -> None:
    found = ran("onnxruntime_fp16", tmp_path, "Transformer")
    assert (found.requested, found.executed) == ("float16", "float32")
    assert found.differs
    assert found.casts


def test_int8_reports_its_share_of_products(tmp_path: Path) -> None:
    found = ran("onnxruntime_int8_dynamic", tmp_path)
    assert (found.requested, found.executed, found.executed_ratio) == ("int8", "int8", 1.0)


@pytest.mark.parametrize("name", ["dynamic_int8", "quanto_int8", "fx_int8"])
def test_products_outside_of_quantised_layers_count_as_well(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name)
    if lab.cannot_run(chain):
        pytest.skip(f"{name}: {lab.cannot_run(chain)}")
    found = ran(name, tmp_path, "Transformer")
    # Three linear layers, and attention between them.
    precision = "int8 weights" if name == "quanto_int8" else "int8"
    assert (found.executed, found.executed_ratio) == (precision, 0.75)


def test_roundings_that_nothing_compiles_are_multiplied_in_floats() -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            held = torch.ops.quantized_decomposed.quantize_per_tensor(
                x, 0.1, 0, -128, 127, torch.int8
            )
            wide = torch.ops.quantized_decomposed.dequantize_per_tensor(
                held, 0.1, 0, -128, 127, torch.int8
            )
            return wide.T @ wide

    program = torch.export.export(Rounded(), (torch.ones(4, 4),))
    assert program_operators(program)["quantized_share"] == 1.0
    assert quantised_parts(program.module(), compiled=False)["quantized_share"] == 0.0
    assert "quantized_share" not in quantised_parts(program.module(), compiled=True)


def test_a_half_precision_input_that_is_taken_in_another_dtype_is_named() -> None:
    chain = lab.chain_of("eager")
    spec = replace(chain.model.specs()[0], dtype="bfloat16")
    half = replace(chain, model=mock.Mock(specs=lambda: (spec,)))
    assert execution_of(half, {"dtype": "float32"}).inputs_cast == ("x from bfloat16",)
    assert execution_of(half, {"dtype": "bfloat16"}).inputs_cast == ()
    assert execution_of(chain, {"dtype": "bfloat16"}).inputs_cast == ()


def test_fake_quantisation_that_computes_in_float32_is_not_called_int8(tmp_path: Path) -> None:
    chain = lab.chain_of("fx_fake_int8", "Convolution")
    facts = {"dtype": "float32", "quantized_share": 0.0, "executed_dtypes": {"float32": 9}}
    assert execution_of(chain, facts).executed == "float32"


def test_channels_last_without_images_has_no_effect(tmp_path: Path) -> None:
    (reason,) = ran("channels_last", tmp_path).no_effect
    assert "no 4-D weights" in reason
    assert not ran("channels_last", tmp_path / "cnn", "Convolution").no_effect


def test_oneDNN_reports_the_layers_it_packed(tmp_path: Path) -> None:  # noqa: N802
    assert ran("mkldnn", tmp_path, "Transformer").packed_layers == 3
    chain = lab.chain_of("mkldnn")
    (reason,) = execution_of(chain, {"packed_layers": 0}).no_effect
    assert "0 layers were packed" in reason


def test_a_cast_of_a_model_without_parameters_has_no_effect(tmp_path: Path) -> None:
    facts = eager_facts(torch.nn.GELU(), tmp_path)
    (reason,) = execution_of(lab.chain_of("bf16"), facts).no_effect  # type: ignore[arg-type]
    assert "no floating-point parameter" in reason


@pytest.mark.parametrize(
    ("name", "autotuned", "words"),
    [
        ("inductor_max_autotune", 0, "0 kernels were autotuned"),
        ("inductor_max_autotune", 2, ""),
        ("inductor_max_autotune_no_cudagraphs", 0, "0 kernels were autotuned"),
        ("inductor_reduce_overhead", 0, "no CUDA graphs"),
        ("aot_inductor_max_autotune", 0, "0 kernels were autotuned"),
        ("inductor", 0, ""),
    ],
)
def test_a_mode_that_did_nothing_on_a_cpu_is_marked(name: str, autotuned: int, words: str) -> None:
    reasons = execution_of(lab.chain_of(name), {"autotuned_kernels": autotuned}).no_effect
    assert words in " ".join(reasons)
    assert bool(reasons) == bool(words)


def test_views_and_casts_are_no_operators_of_a_precision() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.bfloat16() @ x.bfloat16().T).float().exp()

    facts = operator_facts(Mixed(), {"x": torch.ones(4, 4)}, {})
    assert facts["executed_dtypes"] == {"bfloat16": 1, "float32": 1}
    assert facts["casts"] == 3


def test_a_model_that_eager_cannot_call_has_no_counts() -> None:
    assert operator_facts(torch.nn.Linear(3, 3), {"y": torch.ones(2)}, {}) == {}


def test_a_model_that_is_bfloat16_by_itself_is_said_to_run_in_it(tmp_path: Path) -> None:
    module = torch.nn.Linear(16, 4).bfloat16()
    found = execution_of(lab.chain_of("eager"), eager_facts(module, tmp_path))  # type: ignore[arg-type]
    assert (found.requested, found.executed) == ("", "bfloat16")


def test_requested_precision_is_the_fewest_bits_of_the_chain() -> None:
    chain = lab.chain_of("bf16+torchao_int8_weight_only")
    assert execution_of(chain, {}).requested == "int8 weights"
    dynamic = lab.chain_of("bf16+torchao_int8_dynamic")
    assert execution_of(dynamic, {}).requested == "int8"
    assert execution_of(replace(chain, steps=chain.steps[:1]), {}).requested == "bfloat16"


def test_operators_of_a_program_are_counted_by_what_they_compute() -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).bfloat16().relu().view(-1)

    program = torch.export.export(Mixed(), (torch.ones(2, 4),))
    found = program_operators(program)
    assert found == {"executed_dtypes": {"float32": 1, "bfloat16": 1}, "casts": 1}


def test_only_products_of_rounded_values_count_as_int8() -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    rounding = torch.ops.quantized_decomposed

    class Rounded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            limits = (0.1, 0, -128, 127, torch.int8)
            x = rounding.quantize_per_tensor(x, *limits)
            x = rounding.dequantize_per_tensor(x, *limits)
            return self.second(self.first(x))

    found = program_operators(torch.export.export(Rounded(), (torch.ones(2, 4),)))
    assert found["quantized_share"] == 0.5


def test_a_share_that_nobody_counts_is_said_to_be_unknown_and_why() -> None:
    chain = lab.chain_of("eager", "Mlp")
    found = execution_of(chain, {"dtype": "float32", "provider": "somebody"})
    assert found.executed == "float32"
    assert found.unknown.startswith("somebody does not report its operators")
    counted = execution_of(chain, {"dtype": "float32", "executed_dtypes": {"float32": 2}})
    assert counted.unknown == ""
