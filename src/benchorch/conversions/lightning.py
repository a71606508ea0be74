"""A LightningModule's own exports, by ``to_onnx`` and ``to_torchscript``.

Where a module overrides them, it is the override that is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.onnx_files import MODEL_FILE
from benchorch.frameworks.torch_call import live_tensors
from benchorch.frameworks.torch_tracing import open_shapes, traceable
from benchorch.frameworks.torchscript_files import write_script
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LightningOnnx(FileStep):
    """``module.to_onnx(file, input_sample, ...)``, which hands its options to torch's exporter."""

    consumes = (Format.LIGHTNING_MODULE,)
    produces = Format.ONNX
    requires = ("torch", "onnx", "onnxscript")

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        module, inputs = _call(request, "cpu")
        options: dict[str, Any] = {"input_names": list(inputs), "dynamo": True, "verbose": False}
        if request.example.keywords:
            options["kwargs"] = dict(request.example.keywords)
        if request.example.dynamic:
            options["dynamic_shapes"] = open_shapes(request.example)
        path = request.out_dir / MODEL_FILE
        with wrap_errors(BuildError, f"{_name(module)}.to_onnx refused the model"):
            module.to_onnx(path, tuple(inputs.values()), **options)
        if not path.is_file():
            raise BuildError(f"{_name(module)}.to_onnx wrote no file.", kind="user_code")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LightningTorchScript(FileStep):
    """``module.to_torchscript(method=...)``.

    Args:
        method: ``script``, which is Lightning's default, or ``trace``.
    """

    consumes = (Format.LIGHTNING_MODULE,)
    produces = Format.TORCHSCRIPT
    # A host without a GPU has none: the fact tells the two kinds of traces apart.
    depends_on = ("arch", "compute_capability")
    version = 2  # 2: for inputs in the dtype of the parameters, whatever that of the buffers

    method: Literal["script", "trace"] = "script"

    @property
    def follows_example(self) -> bool:
        """A trace has the branches of its example alone."""
        return self.method == "trace"

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.pt`` and ``call.json``."""
        from torch.jit.frontend import FrontendError

        module, inputs = _call(request, request.device)
        options: dict[str, Any] = {}
        if self.method == "trace":
            if request.example.keywords:
                raise BuildError(
                    f"a trace takes tensors alone, and {_name(module)} is called with "
                    f"{', '.join(request.example.keywords)} too.",
                    remedy="conversion=lightning_torchscript",
                )
            options = {"example_inputs": tuple(inputs.values()), "strict": False}
        # Scripting reads source files, and says OSError where there is none.
        with wrap_errors(
            BuildError, f"{_name(module)}.to_torchscript refused the model", FrontendError, OSError
        ):
            script = module.to_torchscript(method=self.method, **options)
        if isinstance(script, dict):
            raise BuildError(
                f"{_name(module)}.to_torchscript made {len(script)} modules: {', '.join(script)}.",
                remedy="let it return one",
            )
        write_script(
            script,
            request.out_dir,
            method=self.method,
            dtypes=parameter_dtypes(module),
            device=request.device,
        )


def _call(request: BuildRequest, device: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """The LightningModule on the device, and the tensors that it is called with, in order."""
    module = request.module().to(device)
    return module, live_tensors(module, traceable(request.example), device)


def _name(module: object) -> str:
    return type(module).__name__
