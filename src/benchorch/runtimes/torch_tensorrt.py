"""A program with TensorRT's engines in it, and torch.compile with TensorRT behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final
from zipfile import BadZipFile

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.frameworks.tensorrt_engines import engine_cache
from benchorch.frameworks.tensorrt_support import NOT_ON_CPU
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.frameworks.torch_compile_stats import compile_facts
from benchorch.frameworks.torch_program import load_unchecked_program
from benchorch.frameworks.upstream_errors import raised_by_backend, wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch

_PROGRAM = Format("torch_tensorrt_program")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTensorRt(Runtime):
    """PyTorch calls the engines, and runs itself what they leave out."""

    consumes = (_PROGRAM,)
    requires = ("torch", "torch-tensorrt")
    not_on_cpu = NOT_ON_CPU

    def load(self, request: LoadRequest) -> Executable:
        """Ready to be called; MeasureError where no part of the program is an engine."""
        import torch

        torch.set_num_threads(request.threads)
        with wrap_errors(MeasureError, "The Torch-TensorRT program cannot be loaded", BadZipFile):
            import torch_tensorrt  # noqa: F401  # registers what the program calls

            program = load_unchecked_program(request.sources[_PROGRAM])  # engines are objects
            module = program.module()
        counts = _engine_counts(program)
        if not counts["engines"]:
            raise MeasureError(
                "TensorRT runs no part of the model: all of it was left to PyTorch.",
                kind="provider_fallback",
                remedy="conversion=tensorrt",
            )
        return live_executable(request, module, module, "Torch-TensorRT", counts=lambda: counts)


def _engine_counts(program: torch.export.ExportedProgram) -> Mapping[str, Json]:
    """Number of engines in the program, and of operators left to PyTorch."""
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    engines = sum("execute_engine" in target for target in targets)
    picked = sum("getitem" in target for target in targets)
    return {"engines": engines, "fallback_nodes": len(targets) - engines - picked}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTensorRtJit(Runtime):
    """torch.compile with TensorRT's backend: traced in every process, engines built in the first.

    Args:
        min_block_size: of how many operators an engine must consist at least.
        keep_engines: for the processes that follow, which takes engines whose weights can be
            replaced and that fuse less; false builds them in every process, with the weights as
            constants, as people deploy them.
    """

    consumes = (Format.MODULE, Format.EXPORTED_PROGRAM)
    requires = ("torch", "torch-tensorrt")
    not_on_cpu = NOT_ON_CPU
    version = 3  # 2: keeps its engines. 3: keeps none unless asked

    min_block_size: int = 1
    keep_engines: bool = False

    def load(self, request: LoadRequest) -> Executable:
        """Compiled by one call; MeasureError where TensorRT refuses a part that it ought to run."""
        import torch

        torch.set_num_threads(request.threads)
        module = module_in(request)
        options: dict[str, Any] = {
            "disable_tf32": not request.tf32,
            "min_block_size": self.min_block_size,
            "immutable_weights": not self.keep_engines,  # what can be replaced alone is cached
            # Else the backend runs with PyTorch what it cannot build, and says so in a log alone.
            "pass_through_build_failures": True,
        }
        with (
            ExitStack() as loading,
            wrap_errors(MeasureError, "torch.compile with TensorRT failed"),
        ):
            loading.callback(torch._dynamo.reset)
            import torch_tensorrt  # noqa: F401  # registers the backend

            if self.keep_engines:
                options |= _kept(engine_cache(request.scratch_dir, module, options))
            # Sizes are constants: the backend wants bounds for open ones.
            compiled = torch.compile(module, backend="tensorrt", dynamic=False, options=options)
            kept = ExitStack()
            executable = live_executable(
                request,
                module,
                compiled,
                "TensorRT under torch.compile",
                counts=partial(self._facts, compile_facts(request.device)),
                resources=kept,
            )
            with raised_by_backend():
                executable.bind(request.example.arrays)()
            kept.push(loading.pop_all())
        return executable

    def _facts(self, compiled: Callable[[], Mapping[str, Json]]) -> Mapping[str, Json]:
        return {"refittable": self.keep_engines, **compiled()}


def _kept(engines: Any) -> dict[str, Any]:
    """Options of the backend that make it keep and reuse engines."""
    return {
        "cache_built_engines": True,
        "reuse_cached_engines": True,
        "custom_engine_cache": engines,
    }
