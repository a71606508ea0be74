"""Torch-TensorRT: the parts of an exported program that TensorRT takes become its engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.tensorrt_support import ELSEWHERE, products_ratio, refuse_open_sizes
from benchorch.frameworks.torch_call import floating_dtypes, program_in, program_on, tensors_of
from benchorch.frameworks.torch_program import PROGRAM_FILE
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTensorRtCompile(FileStep):
    """The rest stays with PyTorch, and is counted when it is loaded.

    Args:
        tf32: let float32 products be rounded to 10 bits of mantissa, as tensor cores want them.
        min_block_size: of how many operators an engine must consist at least.
    """

    consumes = (Format.EXPORTED_PROGRAM,)
    # Not a plain exported program: only who has Torch-TensorRT can read it.
    produces = Format("torch_tensorrt_program")
    requires = ("torch", "torch-tensorrt")
    depends_on = ("arch", "compute_capability")

    tf32: bool = False
    min_block_size: int = 1

    @property
    def tolerance_ratio(self) -> float:
        """Error of such products, or of another order of the same operations."""
        return products_ratio(tf32=self.tf32)

    def unavailable(self, device: str) -> str | None:
        """Unavailable except on NVIDIA GPUs."""
        return None if device == "cuda" else ELSEWHERE

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2`` with the engines in it."""
        refuse_open_sizes(request.example)
        program = program_on(program_in(request), "cuda")
        dtypes = floating_dtypes(program.module())
        tensors = tensors_of(request.example.arrays, "cuda", dtypes)
        arguments = {**tensors, **request.example.keywords}
        with wrap_errors(BuildError, "Torch-TensorRT refused the exported program"):
            import torch_tensorrt

            compiled = torch_tensorrt.dynamo.compile(
                program,
                arg_inputs=(),
                kwarg_inputs=arguments,
                disable_tf32=not self.tf32,
                min_block_size=self.min_block_size,
            )
            file = str(request.out_dir / PROGRAM_FILE)
            torch_tensorrt.save(compiled, file, arg_inputs=(), kwarg_inputs=arguments)
