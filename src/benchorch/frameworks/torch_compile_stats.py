"""Statistics of torch.compile in this process since the model was loaded."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json

if TYPE_CHECKING:
    from torch._dynamo.utils import CompilationMetrics

_SHOWN = 5  # distinct reasons; a model that breaks more often than that needs another tool
_LONGEST_REASON = 160
# How Inductor's generated Python begins each kernel of its own.
_KERNEL = re.compile(r"= async_compile\.(?:cpp_pybinding|cpp|triton|multi_kernel)\(")


def compile_facts(device: str, *, wants_cuda_graphs: bool = False) -> Callable[[], dict[str, Json]]:
    """Function that returns the increase of Dynamo's counters from now on.

    Args:
        device: ``cpu`` or ``cuda``.
        wants_cuda_graphs: whether the mode asks for them, which does nothing on a CPU.
    """
    before = _counters()
    generated = _generated()
    known = {id(each): each for each in _compilations()}

    def facts() -> dict[str, Json]:
        since = _since(before)
        new = [each for each in _compilations() if id(each) not in known]
        told: dict[str, Json] = {
            "compiled_graphs": since["stats"].get("unique_graphs", 0),
            "graph_breaks": len(since["resumes"]),
            "graph_break_reasons": _reasons({**since["graph_break"], **since["unimplemented"]}),
            "graph_break_lines": _lines(new),
            # What Dynamo gave up on runs eagerly.
            "uncompiled_frames": since["frames"].get("total", 0) - since["frames"].get("ok", 0),
            "compile_errors": _reasons({each.fail_reason: 1 for each in new if each.fail_reason}),
            "recompiles": sum(each.recompile_reason is not None for each in new),
            "recompile_reasons": _reasons(
                {each.recompile_reason: 1 for each in new if each.recompile_reason}
            ),
            "autotuned_kernels": since["inductor"].get("select_algorithm_autotune", 0),
            "fused_kernels": sum(map(_kernels_of, _new_files(generated))),
        }
        if wants_cuda_graphs:
            told["cuda_graphs"] = _cuda_graphs(device, since)
        return told

    return facts


def autotuned_kernels() -> int:
    """Kernels that Inductor has chosen by timing several, in this process."""
    from torch._dynamo.utils import counters

    return counters["inductor"]["select_algorithm_autotune"]


def _cuda_graphs(device: str, since: Mapping[str, Mapping[str, int]]) -> str:
    if device == "cpu":
        return "none: a CPU has no CUDA graphs, so this mode is the same as the one without them"
    skipped = since["inductor"].get("cudagraph_skips", 0)
    return f"skipped for {skipped} graphs" if skipped else "recorded"


def _counters() -> dict[str, dict[str, int]]:
    from torch._dynamo.utils import counters

    names = ("stats", "resumes", "graph_break", "unimplemented", "frames", "inductor")
    return {name: dict(counters[name]) for name in names}


def _since(before: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Increase of each counter; unchanged counters are absent."""
    return {
        name: {
            key: value - before[name].get(key, 0)
            for key, value in now.items()
            if value > before[name].get(key, 0)
        }
        for name, now in _counters().items()
    }


def _generated() -> dict[int, ModuleType]:
    """The modules that Inductor generated or found in its cache, in this process."""
    codecache = sys.modules.get("torch._inductor.codecache")  # only if Inductor has been at work
    modules = codecache.PyCodeCache.modules if codecache else ()
    return {id(each): each for each in modules}


def _new_files(known: Mapping[int, ModuleType]) -> set[str]:
    new = [each for number, each in _generated().items() if number not in known]
    return {str(each.__file__) for each in new}


def _kernels_of(file: str) -> int:
    """Number of Inductor's own kernels in a generated file; 0 where the file is gone."""
    try:
        return len(_KERNEL.findall(Path(file).read_text(encoding="utf-8")))
    except OSError:
        return 0


def _compilations() -> list[CompilationMetrics]:
    from torch._dynamo.utils import get_compilation_metrics

    return list(get_compilation_metrics())


def _lines(compilations: Sequence[CompilationMetrics]) -> list[Json]:
    """Lines at which the model resumed after a graph break: ``model.py:12``."""
    places: list[Json] = [
        f"{Path(each.co_filename or '').name}:{each.co_firstlineno}"
        for each in compilations
        if (each.co_name or "").startswith("torch_dynamo_resume_in_")
    ]
    return [*dict.fromkeys(places)][:_SHOWN]


def _reasons(counted: Mapping[str, int]) -> list[Json]:
    """The beginnings of Dynamo's explanations, each once."""
    lines: list[Json] = [_first_words(reason) for reason in counted if reason]
    return [*dict.fromkeys(lines)][:_SHOWN]


def _first_words(reason: str) -> str:
    """The first line, and what it announces where it ends in a colon."""
    first, *more = reason.strip().splitlines()
    announced = f" {more[0].strip()}" if first.endswith(":") and more else ""
    return f"{first}{announced}"[:_LONGEST_REASON]
