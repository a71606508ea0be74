"""TVM's virtual machine on the processor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.torch_call import Bound, arrays_in, tensors_of
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

_LIBRARY_FILE = "model.so"
_NOTES_FILE = "model.json"
_PERFORMANCE_CORES = 1  # config_threadpool's word for "the fast ones first"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tvm(Runtime):
    """TVM sharing tensors with torch, which supports the dtypes that numpy lacks."""

    consumes = (Format.TVM_LIBRARY,)
    requires = ("torch", "apache-tvm")
    not_on_gpu = "TVM compiles for processors here: its kernels for GPUs need a tuned schedule"

    def cohabits(self, device: str, threads: int) -> bool:
        """No: one pool of threads for all libraries of a process."""
        return False

    def load(self, request: LoadRequest) -> Executable:
        """Ready to be called; MeasureError where the library cannot be loaded."""
        source = request.sources[Format.TVM_LIBRARY]
        with wrap_errors(MeasureError, "The TVM library cannot be loaded"):
            notes = read_json(source / _NOTES_FILE)
            machine = _machine(str(source / _LIBRARY_FILE), request.threads)
        return TvmExecutable(
            function=machine["main"],
            arguments=tuple(notes["arguments"]),
            dtypes=tuple(notes["dtypes"]),
        )


def _machine(path: str, threads: int) -> Any:
    import tvm
    from tvm import relax

    # The pool's upper bound for good, read when it is made; it would be half the processors.
    os.environ["TVM_NUM_THREADS"] = str(max(threads, os.cpu_count() or 1))
    tvm.get_global_func("runtime.config_threadpool")(_PERFORMANCE_CORES, threads)
    return relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TvmExecutable(Executable):
    """A function of the machine.

    Attributes:
        function: takes and returns TVM's tensors.
        arguments: the keywords of its inputs, in their order.
        dtypes: floating dtypes of its weights.
    """

    function: Any
    arguments: tuple[str, ...]
    dtypes: tuple[str, ...]

    def bind(self, arrays: Arrays) -> Bound:
        """A call on tensors of TVM's."""
        import tvm

        tensors = tensors_of(arrays, "cpu", self.dtypes)
        placed = [tvm.runtime.from_dlpack(tensors[name]) for name in self.arguments]
        return partial(self.function, *placed)

    def outputs(self, raw: object) -> Arrays:
        """Outputs of a call, half precision widened to float32."""
        from torch.utils.dlpack import from_dlpack

        return arrays_in([from_dlpack(each) for each in _flat(raw)])

    def facts(self) -> Mapping[str, Json]:
        """The weights' dtype and the pool's size."""
        import tvm

        return {
            "dtype": "+".join(self.dtypes) or "none",
            "threads": int(tvm.get_global_func("runtime.NumThreads")()),
            "provider": "TVM llvm, untuned",
            "device": "cpu",
        }


def _flat(raw: Any) -> Iterator[Any]:
    """The tensors of TVM's arrays in arrays."""
    if hasattr(raw, "__dlpack__"):
        yield raw
    else:
        for each in raw:
            yield from _flat(each)
