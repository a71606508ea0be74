"""torch.compile: Inductor's generated code for a module, loaded before it compiles again."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import GENERATED
from benchorch.frameworks.inductor_cache_directory import inductor_cache
from benchorch.frameworks.torch_call import call_by_keyword, live_tensors, module_in
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

CACHE_FILE = "cache.bin"
OPTIONS_FILE = "options.json"

Options = Mapping[str, dict[str, object]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InductorCompile(FileStep):
    """Compiles what the chain has so far and calls it once; its options travel with the artifact.

    Args:
        mode: torch.compile's preset.
        freezing: take the weights for constants, which lets them be folded and packed.
        fullgraph: refuse a model that Dynamo cannot capture as one graph.
        dynamic: true leaves sizes open from the start, false never, null where they change.
        eager_fallback: run what cannot be compiled operator by operator instead of failing; the
            runtime's facts count it.
    """

    consumes = (Format.MODULE, Format.EXPORTED_PROGRAM)
    produces = Format.INDUCTOR_CACHE
    depends_on = ("arch", "compute_capability", "cpu_isa", "threads", *GENERATED)
    version = 2  # 2: options for Dynamo beside Inductor's

    mode: Literal[
        "default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"
    ] = "default"
    freezing: bool = False
    fullgraph: bool = False
    dynamic: bool | None = None
    eager_fallback: bool = False

    def __post_init__(self) -> None:
        if self.fullgraph and self.eager_fallback:
            raise ValueError("fullgraph refuses what eager_fallback lets pass: choose one of them.")

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """Modes that do nothing on a CPU, or did nothing there."""
        if device != "cpu":
            return None
        if self.mode == "reduce-overhead":
            return "a CPU has no CUDA graphs: the same code as mode=default"
        if self.mode.startswith("max-autotune") and facts.get("autotuned_kernels") == 0:
            return "0 kernels were autotuned on this CPU: the same code as mode=default"
        return None

    def build(self, request: BuildRequest) -> None:
        """Writes ``cache.bin`` (empty where Inductor keeps nothing) and ``options.json``."""
        if self.dynamic is False and request.example.dynamic:
            raise BuildError(
                "dynamic=false leaves no size open, but workload.dynamic requires "
                f"{', '.join(request.example.dynamic)}.",
                remedy="conversion.steps.inductor.dynamic=null",
            )
        options = self._options(request.threads)
        (request.out_dir / OPTIONS_FILE).write_text(json.dumps(options, indent=1), encoding="utf-8")
        (request.out_dir / CACHE_FILE).write_bytes(_compile(request, options))

    def _options(self, threads: int | None) -> Options:
        return {
            "compile": {
                "mode": self.mode,
                "fullgraph": self.fullgraph,
                "dynamic": self.dynamic,
            },
            # Dynamo looks at these too, so they are set for the process, not for the call.
            "inductor": {
                "freezing": self.freezing,
                "cpp.dynamic_threads": threads is None,
            },
            "dynamo": {"suppress_errors": self.eager_fallback},
        }


def _compile(request: BuildRequest, options: Options) -> bytes:
    """Inductor's cache after one call."""
    import torch
    import torch._dynamo.config
    import torch._inductor.config
    from torch.compiler._cache import CacheArtifactManager

    if request.threads is not None:
        torch.set_num_threads(request.threads)
    module = module_in(request)
    with (
        inductor_cache(request.scratch_dir),
        _no_compiled_code(),
        torch._inductor.config.patch(options["inductor"]),
        torch._dynamo.config.patch(options["dynamo"]),
        CacheArtifactManager.with_fresh_cache(),
        wrap_errors(BuildError, "torch.compile refused the model"),
    ):
        compiled = torch.compile(module, **options["compile"])  # type: ignore[call-overload]
        inputs = live_tensors(module, request.example.arrays, request.device)
        call_by_keyword(compiled, request.example.keywords)(inputs)()
        saved = torch.compiler.save_cache_artifacts()
    return saved[0] if saved else b""


@contextmanager
def _no_compiled_code() -> Iterator[None]:
    """Reset Dynamo before and after: else it would reuse what this process compiled."""
    import torch

    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()
