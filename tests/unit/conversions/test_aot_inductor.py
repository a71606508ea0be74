"""What AOTInductor is told when it compiles a package."""

from __future__ import annotations

import torch
import torch._inductor.config

from benchorch.conversions.aot_inductor import AotInductor


def test_no_header_is_precompiled_for_a_single_package() -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    assert torch._inductor.config.aot_inductor.precompile_headers
    with torch._inductor.config.patch(AotInductor()._settings(program, 1)):
        assert not torch._inductor.config.aot_inductor.precompile_headers


def test_inputs_are_cast_to_the_dtype_of_parameters_whatever_that_of_buffers() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2).bfloat16())
    model.register_buffer("positions", torch.ones(2))
    program = torch.export.export(model, (torch.ones(1, 2, dtype=torch.bfloat16),))
    metadata = AotInductor()._settings(program, 1)["aot_inductor.metadata"]
    assert metadata["benchorch_dtypes"] == "bfloat16"
