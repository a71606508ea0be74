"""OpenVINO's converter: a module, an exported program or an ONNX graph becomes its own format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final
from zipfile import BadZipFile

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE, own_name
from benchorch.frameworks.openvino_files import NOT_ON_GPU, import_openvino, write_graph
from benchorch.frameworks.program_outputs import write_outputs
from benchorch.frameworks.torch_call import know_dataclasses, live_tensors
from benchorch.frameworks.torch_program import arguments_of, load_program
from benchorch.frameworks.torch_tracing import (
    open_axes,
    positional,
    tensor_places,
    traceable,
    traced_outputs,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoConvert(FileStep):
    """Takes the furthest that the chain has come: ONNX, else a program, else the live module.

    A live module is traced, which follows the path that the example takes.
    """

    consumes = (
        Format.MODULE,
        Format.EXPORTED_PROGRAM,
        Format.ONNX,
    )
    produces = Format.OPENVINO_IR
    requires = ("torch", "openvino")
    not_on_gpu = NOT_ON_GPU
    # 2: beside a traced one, what it returned; 3: of objects too; 4: inputs under the model's names
    # 5: with tensors that a dataclass computes
    version = 5

    @property
    def follows_example(self) -> bool:
        """A trace does; of files it is not asked."""
        return True

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.xml`` and ``model.bin``."""
        model, names = _converted(request)
        with wrap_errors(BuildError, "OpenVINO refused the model"):
            _name_inputs(model, names)
            write_graph(model, request.out_dir)


def _converted(request: BuildRequest) -> tuple[Any, Sequence[str | None]]:
    """The ``openvino.Model`` and the names of its inputs in their order; None for constants."""
    openvino = import_openvino()
    if Format.ONNX in request.sources:
        with wrap_errors(BuildError, "OpenVINO refused the ONNX graph"):
            model = openvino.convert_model(str(request.sources[Format.ONNX] / MODEL_FILE))
        names = request.example.arrays
        return model, [own_name(port.any_name, names) or port.any_name for port in model.inputs]
    if Format.EXPORTED_PROGRAM in request.sources:
        with wrap_errors(BuildError, "OpenVINO refused the exported program", BadZipFile):
            program = load_program(request.sources[Format.EXPORTED_PROGRAM])
            return openvino.convert_model(program), _user_inputs(program)
    with wrap_errors(BuildError, "OpenVINO refused the model"):
        return _traced(request)


def _user_inputs(program: torch.export.ExportedProgram) -> list[str | None]:
    """The keywords of the program's tensors; other arguments, built in as constants, are None."""
    from torch.export.graph_signature import InputKind

    keywords = {name: keyword for keyword, name in arguments_of(program).items()}
    return [
        keywords.get(each.arg.name)
        for each in program.graph_signature.input_specs
        if each.kind is InputKind.USER_INPUT
    ]


def _traced(request: BuildRequest) -> tuple[Any, Sequence[str]]:
    import torch

    module = request.module().to("cpu")
    example = request.example
    tensors = live_tensors(module, traceable(example), "cpu")
    axes = open_axes(example)
    shapes = [
        [-1 if axis in axes[name] else size for axis, size in enumerate(tensor.shape)]
        for name, tensor in tensors.items()
    ]
    with torch.no_grad():
        raw = module(**tensors, **example.keywords)
        know_dataclasses(raw)
        write_outputs(traced_outputs(raw, example), request.out_dir)
        flat = positional(module, tuple(tensors), example.keywords, tensor_places(raw))
        model = import_openvino().convert_model(
            flat, example_input=tuple(tensors.values()), input=shapes
        )
    return model, list(tensors)


def _name_inputs(model: Any, names: Sequence[str | None]) -> None:
    """Each input gets the keyword of forward; constants, which nothing reads, are dropped."""
    for port, name in zip(model.inputs, names, strict=True):
        if name is None:
            model.remove_parameter(port.get_node())
        else:
            port.get_tensor().set_names({name})
