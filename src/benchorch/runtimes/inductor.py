"""torch.compile on the live module or an exported program, its code taken from the artifact."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.inductor_cache_directory import inductor_cache
from benchorch.frameworks.inductor_provenance import kept_provenance
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.frameworks.torch_compile_stats import compile_facts
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inductor(Runtime):
    """Dynamo traces once in every process, so the first call is slow even on a full cache."""

    generates = True
    consumes = (Format.INDUCTOR_CACHE,)
    version = 2

    def preload(self) -> None:
        """Import Dynamo and Inductor, which together take longer than torch."""
        with suppress(ImportError):  # a private module
            import_module("torch._inductor.compile_fx")

    def load(self, request: LoadRequest) -> Executable:
        """The module wrapped as the step wrapped it; compilation waits for the first call."""
        import torch

        source = request.sources[Format.INDUCTOR_CACHE]
        torch.set_num_threads(request.threads)
        with ExitStack() as opened:
            options = _open(opened, source, request.scratch_dir)
            if not (request.comes_again and _fits_any_weights(options)):
                opened.callback(torch._dynamo.reset)
            if request.profile_dir is not None:
                opened.enter_context(kept_provenance(request.profile_dir))
            module = module_in(request)
            resources = opened.pop_all()
        compiled = torch.compile(module, **options["compile"])
        wants_cuda_graphs = options["compile"]["mode"] in _WITH_CUDA_GRAPHS
        return live_executable(
            request,
            module,
            compiled,
            "torch inductor",
            counts=compile_facts(request.device, wants_cuda_graphs=wants_cuda_graphs),
            resources=resources,
        )


def _fits_any_weights(options: Mapping[str, Mapping[str, Json]]) -> bool:
    """Whether compiled code takes the weights as inputs, and so serves the next module as well.

    Frozen weights are part of the code, and CUDA graphs remember where weights lie.
    """
    return (
        not options["inductor"]["freezing"] and options["compile"]["mode"] not in _WITH_CUDA_GRAPHS
    )


def _open(resources: ExitStack, source: Path, scratch: Path) -> dict[str, Any]:
    """The step's options, in force until `resources` are closed, and its cache put in place."""
    with wrap_errors(MeasureError, "The Inductor cache cannot be loaded"):
        options: dict[str, Any] = read_json(source / "options.json")
        _prepare_process(resources, scratch, options)
        _seed((source / "cache.bin").read_bytes())
    return options


def _prepare_process(
    resources: ExitStack, scratch: Path, options: Mapping[str, Mapping[str, Json]]
) -> None:
    """The step's settings until `resources` are closed: compilation happens in between."""
    import torch
    import torch._dynamo.config
    import torch._inductor.config

    resources.enter_context(inductor_cache(scratch, is_full=True))
    # One compile thread keeps Inductor from starting processes beside the one that is measured.
    patched = torch._inductor.config.patch({**options["inductor"], "compile_threads": 1})
    resources.enter_context(patched)
    resources.enter_context(torch._dynamo.config.patch({**options["dynamo"]}))


def _seed(saved: bytes) -> None:
    """Put what the step saved into Inductor's cache; frozen weights leave nothing to save."""
    import torch

    if saved:
        torch.compiler.load_cache_artifacts(saved)
