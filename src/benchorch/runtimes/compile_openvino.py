"""torch.compile with OpenVINO's own backend, whose fallbacks are counted or refused."""

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.frameworks.openvino_files import NOT_ON_GPU, import_openvino
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.frameworks.torch_compile_stats import compile_facts
from benchorch.frameworks.upstream_errors import raised_by_backend, wrap_errors
from benchorch.interfaces.conversion import by_option
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.runtimes.openvino_facts import compiled_facts, device_config

_HINTS = {"float32": "f32", "device": None}
_TOLERANCE_RATIOS = {"float32": 1e-4, "device": 3e-2}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOpenVino(Runtime):
    """OpenVINO under torch.compile; operators that it cannot run stay with PyTorch and are counted.

    Sizes are taken for constants. Nothing is kept: every process compiles anew while it loads.

    Args:
        precision: what floating operators are computed in. Left to the device it is bfloat16 on
            processors that have it.
    """

    consumes = (Format.MODULE, Format.EXPORTED_PROGRAM)
    requires = ("torch", "openvino")
    version = 2
    not_on_gpu = NOT_ON_GPU
    tolerance_ratio = by_option("precision", _TOLERANCE_RATIOS)

    precision: Literal["float32", "device"] = "float32"

    @property
    def requested_precision(self) -> str:
        """The hint; none where the device chooses."""
        return "" if self.precision == "device" else self.precision

    def cohabits(self, device: str, threads: int) -> bool:
        """No: the backend keeps its graphs in the process."""
        return False

    def load(self, request: LoadRequest) -> Executable:
        """Compiled by one call; MeasureError where OpenVINO would have PyTorch run the model."""
        import torch

        torch.set_num_threads(request.threads)
        module = module_in(request)
        facts = compile_facts(request.device)
        options: dict[str, Any] = {
            "device": "CPU",
            # Its other path keeps symbols that no input has, and fails on convolutions.
            "aot_autograd": True,
            "config": device_config(_HINTS[self.precision], request.threads),
        }
        with ExitStack() as resources:
            resources.enter_context(_openvinos_dynamo())
            kept = ExitStack()
            executable = live_executable(
                request,
                module,
                torch.compile(module, backend="openvino", dynamic=False, options=options),
                "OpenVINO under torch.compile",
                counts=lambda: {**facts(), **_partition_facts()},
                resources=kept,
            )
            with (
                wrap_errors(MeasureError, "torch.compile with OpenVINO refused the model"),
                _seen(),
            ):
                executable.bind(request.example.arrays)()
            _require_partitions()
            kept.push(resources.pop_all())
        return executable


@contextmanager
def _openvinos_dynamo() -> Iterator[None]:
    """Weights as constants; undo the changes that importing OpenVINO's backend makes in Dynamo."""
    import torch._dynamo.config

    import_openvino()
    # The setting by which the import itself asks for constants does nothing since torch 2.12.
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False, prepare_freezing=True):
        importlib.import_module("openvino.torch")
        try:
            yield
        finally:
            torch._dynamo.reset()
            _partitions().clear_caches()


@contextmanager
def _seen() -> Iterator[None]:
    """OpenVINO's backend hands what it cannot compile to Inductor; here it fails instead."""
    from openvino.frontend.pytorch.torchdynamo import backend

    inductor = backend.compile_fx
    backend.compile_fx = _fail
    try:
        with raised_by_backend():
            yield
    finally:
        backend.compile_fx = inductor


def _fail(*_: object) -> NoReturn:
    """Called where OpenVINO's backend handles its own exception."""
    raise RuntimeError("OpenVINO cannot compile the graph") from sys.exception()


def _partitions() -> Any:
    from openvino.frontend.pytorch.torchdynamo import execute

    return execute


def _modules() -> list[Any]:
    """The parts of all graphs that are meant for OpenVINO."""
    graphs = _partitions().partitioned_modules.values()
    parts = [part for graph in graphs for part in graph.modules()]
    return [part for part in parts if hasattr(part, "perm_fallback")]


def _require_partitions() -> None:
    if not any(not part.perm_fallback for part in _modules()):
        raise MeasureError(
            "OpenVINO runs no part of the model: its backend left all of it to PyTorch.",
            kind="provider_fallback",
            remedy="conversion=openvino",
        )


def _partition_facts() -> Mapping[str, Json]:
    """Counts of operators in OpenVINO and in PyTorch."""
    module = _partitions()
    parts = _modules()
    running = {part.partition_id for part in parts if not part.perm_fallback}
    compiled = [
        compiled_facts(model)
        for key, model in module.compiled_cache.items()
        if _partition_of(key) in running
    ]
    left = [
        node
        for graph in module.partitioned_modules.values()
        for node in graph.graph.nodes
        if node.op == "call_function" and "getitem" not in node.name
    ]
    return {
        **_summed(compiled),
        "partitions": len(parts),
        "fallback_partitions": sum(part.perm_fallback for part in parts),
        "fallback_nodes": len(left),
        "delegate": "OpenVINO",
        "delegated_subgraphs": sum(not part.perm_fallback for part in parts),
    }


def _partition_of(key: Any) -> object:
    """The partition of a compiled model; newer releases have its inputs' shapes beside it."""
    return key[0] if isinstance(key, tuple) else key


def _summed(parts: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    """The operators of all parts together; nothing where PyTorch runs every part by now."""
    if not parts:
        return {}
    types: Counter[str] = Counter()
    for part in parts:
        types.update(part["executed_dtypes"])
    return {
        "dtype": "+".join(sorted({word for part in parts for word in part["dtype"].split("+")})),
        "threads": max(part["threads"] for part in parts),
        "executed_nodes": types.total(),
        "executed_dtypes": dict(types),
    }
