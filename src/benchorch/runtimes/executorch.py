"""ExecuTorch's own runtime on the processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.torch_call import Bound, TorchExecutable, tensors_of
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch

_PROGRAM_FILE = "model.pte"
_NOTES_FILE = "model.json"
_METHOD = "forward"
_COUNTS = ("delegate_calls", "delegated_nodes", "fallback_nodes", "delegated_share")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Executorch(Runtime):
    """Outputs are copied out of its memory by every call, as its Python interface does it.

    Its pool of threads is the process's: the last program that was loaded sets its size.
    """

    consumes = (Format.EXECUTORCH_PROGRAM,)
    requires = ("torch", "executorch")
    not_on_gpu = "XNNPACK, to which ExecuTorch hands the model here, runs on processors alone"

    def cohabits(self, device: str, threads: int) -> bool:
        """No: one pool of threads for all programs of a process."""
        return False

    def load(self, request: LoadRequest) -> Executable:
        """Ready to be called; MeasureError where the files are none of ExecuTorch's."""
        source = request.sources[Format.EXECUTORCH_PROGRAM]
        with wrap_errors(MeasureError, "The ExecuTorch program cannot be loaded"):
            notes = read_json(source / _NOTES_FILE)
            _set_threads(request.threads)
            method = _method(source / _PROGRAM_FILE)
        dtypes = tuple(notes["dtypes"])
        return TorchExecutable(
            place=partial(tensors_of, device="cpu", dtypes=dtypes),
            prepare=partial(_prepare, method, notes["arguments"], request.example.keywords),
            provider="ExecuTorch XNNPACK" if notes["delegate_calls"] else "ExecuTorch portable",
            dtypes=dtypes,
            device="cpu",
            counts=lambda: {
                **{name: notes[name] for name in _COUNTS},
                "delegate": "XNNPACK" if notes["delegate_calls"] else "",
                "delegated_subgraphs": notes["delegate_calls"],
                "threads": _threads(),
            },
        )


def _method(path: Path) -> Any:
    from executorch.runtime import Runtime as Native

    return Native.get().load_program(path).load_method(_METHOD)


def _prepare(
    method: Any,
    arguments: list[str],
    keywords: Mapping[str, Json],
    tensors: Mapping[str, torch.Tensor],
) -> Bound:
    # What is no tensor was built in as a constant, but has its place among the inputs.
    return partial(method.execute, [{**keywords, **tensors}[name] for name in arguments])


def _set_threads(threads: int) -> None:
    """The pool gets that size where this version of ExecuTorch lets it be set."""
    from executorch.extension.pybindings import portable_lib

    resize = getattr(portable_lib, "_unsafe_reset_threadpool", None)
    if resize is not None and _threads() != threads:
        resize(threads)


def _threads() -> int | None:
    """Size of the pool; None where this version does not report it."""
    from executorch.extension.pybindings import portable_lib

    count = getattr(portable_lib, "_threadpool_get_thread_count", None)
    return None if count is None else int(count())
