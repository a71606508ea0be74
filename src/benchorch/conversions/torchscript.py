"""torch.jit: a module becomes a TorchScript graph, traced from a call or compiled from source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Array, Arrays, Example, half_size
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import KERNELS
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.program_outputs import write_outputs
from benchorch.frameworks.torch_call import know_dataclasses, tensors_of
from benchorch.frameworks.torch_tracing import (
    open_axes,
    positional,
    tensor_places,
    traceable,
    traced_outputs,
)
from benchorch.frameworks.torchscript_files import write_script
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchScript(FileStep):
    """Traces one call, whose branches not taken are lost, or compiles the source of forward.

    Done on the device: where the model makes tensors of its own, the graph names their device.

    Args:
        method: ``trace`` or ``script``.
        optimize: ``none``; ``freeze`` takes the weights for constants; ``inference`` folds batch
            norms and packs weights for this processor too.
    """

    consumes = (Format.MODULE,)
    produces = Format.TORCHSCRIPT
    typical_build_s = 10.0
    # A host without a GPU has none: the fact tells the two kinds of traces apart.
    depends_on = ("arch", "compute_capability", *KERNELS)
    # 3: with how it is called, and what a trace returned; 4: of objects too; 5: for inputs in the
    # dtype of the parameters, whatever that of the buffers
    # 6: with tensors that a dataclass computes
    version = 6

    method: Literal["trace", "script"] = "trace"
    optimize: Literal["none", "freeze", "inference"] = "none"

    @property
    def follows_example(self) -> bool:
        """A trace has the branches of its example alone."""
        return self.method == "trace"

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.pt`` and ``call.json``."""
        import torch
        from torch.jit.frontend import FrontendError

        module = request.module().to(request.device)
        who = f"torch.jit.{self.method}"
        # Scripting reads source files, and says OSError where there is none.
        errors = (FrontendError, OSError)
        refusing = wrap_errors(BuildError, f"{who} refused the model", *errors)
        with refusing, torch.no_grad(), _without_trainers(module):
            made = _traced if self.method == "trace" else _scripted
            script = _optimized(made(module, request), self.optimize)
        write_script(
            script,
            request.out_dir,
            method=self.method,
            dtypes=parameter_dtypes(module),
            device=request.device,
        )


@contextmanager
def _without_trainers(module: torch.nn.Module) -> Iterator[None]:
    """Lightning's modules, whose every attribute is looked at, answer that they have no trainer.

    Otherwise they raise an error, unless they are told that they are being scripted.
    """
    told = [one for one in module.modules() if hasattr(type(one), "_jit_is_scripting")]
    for one in told:
        setattr(one, "_jit_is_scripting", True)  # noqa: B010 no nn.Module declares it
    try:
        yield
    finally:
        for one in told:
            delattr(one, "_jit_is_scripting")


def _scripted(module: torch.nn.Module, request: BuildRequest) -> Any:
    """Compiled from the source: branches and loops are kept."""
    import torch

    return torch.jit.script(module)


def _traced(module: torch.nn.Module, request: BuildRequest) -> Any:
    """Trace of one call, which returns a flat tuple; with open sizes, checked on another size."""
    import torch

    example = request.example
    names, dtypes = tuple(example.arrays), parameter_dtypes(module)
    shown = traceable(example)
    placed = tensors_of(shown, request.device, dtypes)
    raw = module(**placed, **example.keywords)
    know_dataclasses(raw)
    write_outputs(traced_outputs(raw, example), request.out_dir)
    flat = positional(module, names, example.keywords, tensor_places(raw))
    inputs = tuple(placed.values())
    # What the trace computes is compared with the model by the verify stage.
    traced = torch.jit.trace(flat, inputs, check_trace=False)  # type: ignore[no-untyped-call]
    if example.dynamic:
        other = tuple(tensors_of(_resized(example, shown), request.device, dtypes).values())
        _check_sizes(flat, traced, other, example.dynamic)
    return traced


def _resized(example: Example, arrays: Arrays) -> dict[str, Array]:
    """The same call with half of every open size, which may be the model's largest; 3 below 3."""
    resized = dict(arrays)
    for name, axes in open_axes(example).items():
        for axis in axes:
            size = resized[name].shape[axis]
            places = [place % size for place in range(half_size(size))]
            resized[name] = resized[name].take(places, axis)
    return resized


def _check_sizes(
    module: torch.nn.Module,
    traced: Any,
    inputs: tuple[torch.Tensor, ...],
    symbols: tuple[str, ...],
) -> None:
    """BuildError where the trace has taken an open size for a constant."""
    import torch

    # Each call gets tensors of its own, which a model may change.
    own = [tuple(each.clone() for each in inputs) for _ in range(2)]
    try:
        expected = module(*own[0])
    except (RuntimeError, ValueError, IndexError):
        return  # the model itself does not take this size
    try:
        pairs = zip(traced(*own[1]), expected, strict=True)
        same = all(torch.allclose(*pair, equal_nan=True) for pair in pairs)
    except (RuntimeError, ValueError):
        same = False
    if not same:
        raise BuildError(
            f"torch.jit.trace has fixed a size that workload.dynamic leaves open "
            f"({', '.join(symbols)}): at another size the trace does not do what the model does.",
            remedy="conversion=torchscript_script, conversion=export or workload.dynamic=[]",
        )


def _optimized(script: Any, how: str) -> Any:
    import torch

    if how == "none":
        return script
    frozen = torch.jit.freeze(script.eval())
    return torch.jit.optimize_for_inference(frozen) if how == "inference" else frozen
