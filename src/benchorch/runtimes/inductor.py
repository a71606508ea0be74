"""torch.compile on the live module, its generated code taken from the artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, final

from benchorch.compiler_cache import inductor_cache
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.torch_call import (
    TorchExecutable,
    call_by_keyword,
    floating_dtypes,
    live_tensors,
    missing_torch,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inductor(Runtime):
    """Dynamo traces again in every process, so the first call is slow even on a full cache."""

    consumes: ClassVar[Format] = Format.INDUCTOR_CACHE
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 2

    def unavailable(self, device: str) -> str | None:
        """A reason only where torch is missing."""
        return missing_torch()

    def load(self, request: LoadRequest) -> Executable:
        """The module wrapped as the step wrapped it; compilation waits for the first call."""
        import torch

        assert request.source is not None  # an Inductor cache is files
        torch.set_num_threads(request.threads)
        options = json.loads((request.source / "options.json").read_text())
        resources = ExitStack()
        _prepare_process(resources, request.scratch_dir, options["inductor"])
        _seed((request.source / "cache.bin").read_bytes())
        module = request.module().to(request.device)
        compiled = torch.compile(module, **options["compile"])
        return TorchExecutable(
            place=partial(live_tensors, module, device=request.device),
            prepare=call_by_keyword(compiled, request.example.keywords),
            provider="torch inductor",
            dtypes=floating_dtypes(module),
            device=request.device,
            counts=partial(_graphs_since, _graphs()),
            resources=resources,
        )


def _prepare_process(resources: ExitStack, scratch: Path, settings: Mapping[str, Json]) -> None:
    """The step's settings until `resources` are closed: compilation happens in between."""
    import torch
    import torch._inductor.config

    resources.callback(torch._dynamo.reset)
    resources.enter_context(inductor_cache(scratch))
    # One compile thread keeps Inductor from starting processes beside the one that is measured.
    patched = torch._inductor.config.patch({**settings, "compile_threads": 1})
    resources.enter_context(patched)


def _seed(saved: bytes) -> None:
    """Put what the step saved into Inductor's cache; frozen weights leave nothing to save."""
    import torch

    if saved:
        torch.compiler.load_cache_artifacts(saved)


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def _graphs_since(before: int) -> dict[str, Json]:
    """Above 1 after the first call, Dynamo could not hold the model in one graph.

    Dynamo's own count of graph breaks leaves out branches on data.
    """
    return {"compiled_graphs": _graphs() - before}
