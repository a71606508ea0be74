"""torch.compile with ONNX Runtime behind it: Dynamo's graphs become sessions."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.frameworks.onnx_files import MODEL_FILE, runtime_distribution
from benchorch.frameworks.onnx_operators import translations
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.frameworks.torch_compile_stats import compile_facts
from benchorch.frameworks.upstream_errors import raised_by_backend
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.runtimes.onnx_session import (
    PROVIDERS,
    Provider,
    assignment,
    open_session,
    refused,
)

if TYPE_CHECKING:
    import torch

# ONNX's numbers for the types that a tensor of torch can have.
_ELEMENT_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "bfloat16": 16,
}
_TORCH_TYPES = {
    f"tensor({ {'float32': 'float', 'float64': 'double'}.get(name, name) })": name
    for name in _ELEMENT_TYPES
}
"""ONNX Runtime's words for them."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOnnxRuntime(Runtime):
    """Replacement of PyTorch's own backend ``onnxrt``, which torch 2.13 removed.

    Graph breaks are PyTorch's business: each graph between two of them gets a session. Sizes are
    taken for constants. Nothing is kept: every process exports anew while it loads.
    """

    consumes = (Format.MODULE, Format.EXPORTED_PROGRAM)
    requires = ("torch", "onnx", "onnxscript", runtime_distribution())
    version = 2

    def cohabits(self, device: str, threads: int) -> bool:
        """No: its setting of Dynamo is the process's."""
        return False

    def unavailable(self, device: str) -> str | None:
        """The provider of this device is missing."""
        return PROVIDERS[device].unavailable(device)

    def load(self, request: LoadRequest) -> Executable:
        """Compiled by one call; MeasureError where exporter or session refuse a graph."""
        import torch
        import torch._dynamo.config

        torch.set_num_threads(request.threads)
        module = module_in(request)
        facts = compile_facts(request.device)
        with ExitStack() as resources:
            directory = Path(resources.enter_context(TemporaryDirectory()))
            backend = _Backend(request=request, directory=directory)
            resources.callback(torch._dynamo.reset)
            # Otherwise the weights would be inputs, and no operator could be folded into them.
            patched = torch._dynamo.config.patch(prepare_freezing=True)
            resources.enter_context(patched)
            kept = ExitStack()
            executable = live_executable(
                request,
                module,
                torch.compile(module, backend=backend, dynamic=False),
                f"{backend.provider.name} under torch.compile",
                counts=lambda: {**facts(), **backend.facts()},
                resources=kept,
            )
            with refused("torch.compile with ONNX Runtime refused the model"), raised_by_backend():
                executable.bind(request.example.arrays)()
            kept.push(resources.pop_all())
        return executable


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Backend:
    """The backend of Dynamo's graphs.

    Attributes:
        request: device and threads.
        directory: where graphs lie while they are loaded.
        sessions: one for each graph.
    """

    request: LoadRequest
    directory: Path
    sessions: list[Any] = field(default_factory=list)

    @property
    def provider(self) -> Provider:
        return PROVIDERS[self.request.device]

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]
    ) -> Callable[..., object]:
        folder = self.directory / str(len(self.sessions))
        folder.mkdir()
        outputs = _outputs_of(graph)
        _export(graph, inputs, folder / MODEL_FILE)
        session = open_session(
            folder / MODEL_FILE,
            self.provider,
            self.request.threads,
            self.request.scratch_dir,
            tf32=self.request.tf32,
        )
        self.sessions.append(session)
        return _caller(session, outputs, self.request.device)

    def facts(self) -> Mapping[str, Json]:
        """Nodes by provider over all sessions, where this version of ONNX Runtime tells them."""
        placed = [assignment(session) for session in self.sessions]
        if not all(placed):
            return {"sessions": len(placed)}
        nodes: Counter[str] = Counter()
        for each in placed:
            nodes.update(each.get("nodes", {}))  # type: ignore[arg-type]
        on_others = nodes.total() - nodes[self.provider.name]
        return {"sessions": len(placed), "nodes": dict(nodes), "fallback_nodes": on_others}


def _outputs_of(graph: torch.fx.GraphModule) -> list[torch.Tensor]:
    """The graph's outputs as Dynamo foresees them: tensors without values."""
    import torch

    returned = graph.graph.output_node().args[0]
    found = [getattr(each, "meta", {}).get("example_value") for each in returned]  # type: ignore[union-attr]
    if not all(isinstance(each, torch.Tensor) for each in found):
        raise RuntimeError("a graph of the model returns something that is no tensor")
    return found  # type: ignore[return-value]


def _export(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor], model: Path) -> None:
    """Inputs are called ``0``, ``1``, ... in their order: unused ones vanish from the graph."""
    import torch

    real = [torch.zeros(each.shape, dtype=each.dtype) for each in inputs]
    with torch.no_grad():
        torch.onnx.export(
            copy.deepcopy(graph).to("cpu"),  # its submodules may be the model's own
            tuple(real),
            str(model),
            input_names=[str(index) for index in range(len(real))],
            external_data=True,
            custom_translation_table=translations(),
            dynamo=True,
            verbose=False,
        )


def _caller(session: Any, outputs: Sequence[torch.Tensor], device: str) -> Callable[..., object]:
    """Run a session on tensors without copies."""
    import torch

    names = [node.name for node in session.get_inputs()]
    results = [node.name for node in session.get_outputs()]
    # Some of the exporter's operators give another type than torch's, sums in float16 for one.
    made_as = [_TORCH_TYPES[node.type] for node in session.get_outputs()]
    like = list(zip((tuple(each.shape) for each in outputs), made_as, strict=True))

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        binding = session.io_binding()
        held = [tensors[int(name)].contiguous() for name in names]
        made = [
            torch.empty(shape, dtype=getattr(torch, name), device=device) for shape, name in like
        ]
        for name, each in zip(names, held, strict=True):
            binding.bind_input(name, *_place(each, device))
        for name, each in zip(results, made, strict=True):
            binding.bind_output(name, *_place(each, device))
        if device != "cpu":
            torch.cuda.synchronize()  # what torch computes and what a session does not share
        session.run_with_iobinding(binding)
        return [each.to(expected.dtype) for each, expected in zip(made, outputs, strict=True)]

    return call


def _place(tensor: torch.Tensor, device: str) -> tuple[str, int, int, tuple[int, ...], int]:
    """Device, its number, type, shape and address, in the order of a binding's arguments."""
    name = str(tensor.dtype).removeprefix("torch.")
    return device, 0, _ELEMENT_TYPES[name], tuple(tensor.shape), tensor.data_ptr()
