"""torch.compile with a backend that leaves nothing behind."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, final

from benchorch.domain.artifact import Format
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.frameworks.torch_compile_stats import compile_facts
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Runtime):
    """Traced again in every process, at the first call.

    Args:
        backend: ``eager`` is Dynamo alone, ``aot_eager`` adds AOTAutograd's decompositions,
            ``cudagraphs`` records the model's kernels once and replays them.
        dynamic: true leaves sizes open from the start, false never, null where they change.
    """

    generates = True
    consumes = (Format.MODULE, Format.EXPORTED_PROGRAM)

    backend: Literal["eager", "aot_eager", "cudagraphs"]
    dynamic: bool | None = None

    def unavailable(self, device: str) -> str | None:
        """Unavailable for CUDA graphs on a CPU."""
        if self.backend == "cudagraphs" and device != "cuda":
            return "CUDA graphs do nothing on a CPU: torch would run the model as it is."
        return None

    def preload(self) -> None:
        """Import Dynamo."""
        import torch._dynamo  # noqa: F401

    def load(self, request: LoadRequest) -> Executable:
        """The module wrapped; it is compiled at the first call."""
        import torch

        torch.set_num_threads(request.threads)
        resources = ExitStack()
        resources.callback(torch._dynamo.reset)
        module = module_in(request)
        compiled = torch.compile(module, backend=self.backend, dynamic=self.dynamic)
        return live_executable(
            request,
            module,
            compiled,
            f"torch.compile {self.backend}",
            counts=compile_facts(request.device),
            resources=resources,
        )
