"""AOTInductor: an exported program becomes a compiled library that needs no compiler to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import GENERATED
from benchorch.frameworks.inductor_cache_directory import inductor_cache
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torch_call import autocast_dtype, program_on
from benchorch.frameworks.torch_compile_stats import autotuned_kernels
from benchorch.frameworks.torch_program import load_program
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch

PACKAGE_FILE = "model.pt2"
NOTES_FILE = "notes.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AotInductor(FileStep):
    """Compiles for the instruction set and the device of the machine it runs on.

    Args:
        freezing: take the weights for constants, which lets them be folded and packed.
        max_autotune: time several kernels for each operator and keep the fastest.
    """

    consumes = (Format.EXPORTED_PROGRAM,)
    produces = Format.AOTI_PACKAGE
    depends_on = ("arch", "compute_capability", "cpu_isa", "threads", *GENERATED)
    version = 4  # 2: records autocast; 3: autotuned kernels; 4: dtypes of parameters alone

    freezing: bool = False
    max_autotune: bool = False

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """Autotuning that had nothing to choose from."""
        if self.max_autotune and facts.get("autotuned_kernels") == 0:
            return f"0 kernels were autotuned on this {device}: the same code as without"
        return None

    def preload(self) -> None:
        """Import Inductor, which takes longer than torch."""
        with suppress(ImportError):  # a private module
            import_module("torch._inductor.compile_fx")

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.pt2``."""
        import torch

        if request.threads is not None:
            torch.set_num_threads(request.threads)
        program = program_on(load_program(request.sources[Format.EXPORTED_PROGRAM]), request.device)
        with (
            inductor_cache(request.scratch_dir),
            wrap_errors(BuildError, "AOTInductor refused the model"),
        ):
            before = autotuned_kernels()
            torch._inductor.aoti_compile_and_package(
                program,
                package_path=str(request.out_dir / PACKAGE_FILE),
                inductor_configs=self._settings(program, request.threads),
            )
        notes = {"autotuned_kernels": autotuned_kernels() - before}
        (request.out_dir / NOTES_FILE).write_text(json.dumps(notes), encoding="utf-8")

    def _settings(
        self, program: torch.export.ExportedProgram, threads: int | None
    ) -> dict[str, object]:
        return {
            "freezing": self.freezing,
            "max_autotune": self.max_autotune,
            # It saves 2 of 8 CPU seconds from the second package on, and takes 9 for the first.
            "aot_inductor.precompile_headers": False,
            # Otherwise the number of threads of this process is compiled in.
            "cpp.dynamic_threads": threads is None,
            # None of them can be seen in a package: the runtime casts its inputs by the first and
            # refuses to run on another number of threads than the last.
            "aot_inductor.metadata": {
                "benchorch_dtypes": " ".join(parameter_dtypes(program.module())),
                "benchorch_autocast": autocast_dtype(program.graph_module) or "",
                "benchorch_threads": "" if threads is None else str(threads),
            },
        }
