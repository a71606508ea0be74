"""Torch-TensorRT: the parts of an exported program that TensorRT takes become its engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.tensorrt_support import (
    NOT_ON_CPU,
    Bounds,
    at_best_sizes,
    bounds_of,
    check_profile,
)
from benchorch.frameworks.torch_call import program_in, program_on, tensors_of
from benchorch.frameworks.torch_program import PROGRAM_FILE
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTensorRtCompile(FileStep):
    """The rest stays with PyTorch, and is counted when it is loaded.

    Args:
        min_block_size: of how many operators an engine must consist at least.
        refittable: build engines whose weights can be replaced, which fuse less.
        profile: smallest, best and largest size of each symbol of ``workload.dynamic``, e.g.
            ``{batch_size: [1, 8, 32]}``: the engines then serve all sizes between.
    """

    consumes = (Format.EXPORTED_PROGRAM,)
    # Not a plain exported program: only who has Torch-TensorRT can read it.
    produces = Format("torch_tensorrt_program")
    requires = ("torch", "torch-tensorrt")
    not_on_cpu = NOT_ON_CPU
    depends_on = ("arch", "compute_capability")
    # 2: arguments that are no tensors, sizes that are open; 3: inputs as the parameters are
    version = 3

    min_block_size: int = 1
    refittable: bool = False
    profile: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_profile(self.profile or {})

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2`` with the engines in it."""
        bounds = bounds_of(request.example, self.profile or {}, "torch_tensorrt")
        example = at_best_sizes(request.example, bounds)
        program = program_on(program_in(request), request.device)
        with wrap_errors(BuildError, "Torch-TensorRT refused the exported program"):
            import torch_tensorrt

            tensors = tensors_of(example.arrays, request.device, parameter_dtypes(program.module()))
            arguments = {**tensors, **example.keywords}
            shapes = _shapes(example, bounds)
            compiled = torch_tensorrt.dynamo.compile(
                _bounded(program, arguments, shapes) if shapes else program,
                arg_inputs=(),
                kwarg_inputs=tensors,
                disable_tf32=not request.tf32,
                min_block_size=self.min_block_size,
                immutable_weights=not self.refittable,
            )
            # `save` traces what it is given itself, and refuses arguments that are no tensors.
            whole = _traced(torch_tensorrt, compiled, arguments, shapes)
            torch_tensorrt.save(whole, str(request.out_dir / PROGRAM_FILE))


def _shapes(
    example: Example, bounds: Mapping[str, Bounds]
) -> dict[str, dict[int, object] | None] | None:
    """``dynamic_shapes`` for torch's exporter, one dimension for each symbol; None without any."""
    from torch.export import Dim

    if not bounds:
        return None
    ranges = {
        symbol: (each.smallest[axis], each.largest[axis])
        for each in bounds.values()
        for axis, symbol in each.axes.items()
    }
    dims = {symbol: Dim(symbol, min=low, max=high) for symbol, (low, high) in ranges.items()}
    open_ones: dict[str, dict[int, object] | None] = {
        name: {axis: dims[symbol] for axis, symbol in each.axes.items()}
        for name, each in bounds.items()
    }
    return dict.fromkeys((*example.arrays, *example.keywords)) | open_ones


def _bounded(
    program: torch.export.ExportedProgram, arguments: Mapping[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    """The program with bounds on its open sizes: Torch-TensorRT reads profiles off those."""
    import torch

    return torch.export.export(
        program.module(), (), kwargs=dict(arguments), dynamic_shapes=shapes, strict=False
    )


def _traced(
    torch_tensorrt: Any, compiled: torch.fx.GraphModule, arguments: Mapping[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    """The compiled graph as a program: as `torch_tensorrt.save` would, with every argument."""
    import torch

    if shapes is None:
        return torch.export.export(compiled, (), kwargs=dict(arguments), strict=False)
    # Not traced anew: what its engines do with an open size is not known outside of them.
    program: torch.export.ExportedProgram = torch_tensorrt.dynamo.export(
        compiled, arg_inputs=(), kwarg_inputs=dict(arguments), dynamic_shapes=shapes
    )
    return program
