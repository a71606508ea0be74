"""A module that a script makes and calls, taken from a run of the script."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.files import file_digest
from benchorch.frameworks.identity.code import file_syntax_digest
from benchorch.models import trust
from benchorch.models.callables import user_code
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.script_files import GRAPH_SUFFIX, MODEL_SUFFIXES, SEED
from benchorch.models.seeding import frozen
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch

    from benchorch.models.script_watch import FirstCall


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptModel(DeclaredModel):
    """A module as it is once a script has made a certain call of it.

    It is taken from a run of the script that ends there; nothing of it is ever pickled.

    Attributes:
        script: its path.
        digest: SHA-256 (hex) of the script's bytes when the call was found.
        call: the call's hash, as ``benchorch script`` shows it.
        arguments: the script's own.
        max_depth: how far inside other modules' calls it was looked for.
        weights: SHA-256 (hex) of the module's state at that call, with seed 0; or None.
        architecture: the module's class, for people.
        labels: those of the script's first line, such as its author.
    """

    script: str
    digest: str
    call: str
    arguments: Sequence[str] = ()
    max_depth: int = 0
    weights: str | None = None
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    version = 2  # 2: it returns the tensors of objects

    @property
    def gives(self) -> tuple[Format, ...]:
        """For an ONNX file its graph, whose module is opaque."""
        if Path(self.script).suffix == GRAPH_SUFFIX:
            return (Format.ONNX, Format.CALLABLE)
        return (Format.MODULE, Format.CALLABLE)

    def load(self, seed: int) -> torch.nn.Module:
        """The module at the call; BuildError of kind user_code where there is none."""
        self._check_script()
        first_call = self._run(seed)
        self._check_weights(first_call.module, seed)
        module = _callable_by_name(first_call)
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def _check_script(self) -> None:
        found = self._script_problems()
        if found:
            raise BuildError(found[0], kind="user_code", remedy=f"benchorch script {self.script}")

    def _run(self, seed: int) -> FirstCall:
        """Run the script as far as the call."""
        from benchorch.models.script_run import run_script
        from benchorch.models.script_watch import Watch

        found: list[FirstCall] = []

        def look(first_call: FirstCall) -> None:
            if first_call.invocation.hash == self.call:
                found.append(first_call)
                watch.stop()

        watch = Watch(self.max_depth, look)
        with user_code(self.script):
            run_script(Path(self.script), self.arguments, watch, seed)
        if not found:
            seen = [call for model in watch.models for call in model.invocations]
            raise BuildError(
                f"{self.script} did not make the call {self.call} again; it made "
                f"{', '.join(seen) or 'none'}",
                kind="user_code",
                remedy="a script that draws lots must seed them",
            )
        if watch.main is not None:  # whoever reads the module's code looks for it there
            sys.modules["__main__"] = watch.main
        return found[0]

    def _check_weights(self, module: torch.nn.Module, seed: int) -> None:
        """Require the same weights in every run: outputs are compared across processes."""
        from benchorch.frameworks.module_fingerprint import state_digest

        if self.weights is None or seed != SEED or state_digest(module) == self.weights:
            return
        raise BuildError(
            f"{self.script} makes other weights each time it runs",
            kind="user_code",
            remedy="seed its random numbers, or let it load its weights from a file",
        )

    def identity(self) -> Mapping[str, Json] | None:
        """None: a script may do anything, so the module is hashed after loading."""
        return None

    def requested(self) -> Mapping[str, Json]:
        """The call, and the script without its place and its comments."""
        path = Path(self.script)
        tree = path.suffix not in MODEL_SUFFIXES
        return {
            "class": "benchorch.models.script.ScriptModel",
            "version": self.version,
            "call": self.call,
            "arguments": list(self.arguments),
            "max_depth": self.max_depth,
            "source": file_syntax_digest(path) if tree else self.digest,
        }

    def problems(self, workload: Workload) -> Sequence[str]:
        """The script, the inputs and the checkpoint."""
        return [
            *(f"model.script: {problem}" for problem in self._script_problems()),
            *self.declared_problems(workload),
        ]

    def _script_problems(self) -> list[str]:
        path = Path(self.script)
        if not path.is_file():
            return [f"there is no script {self.script} on this machine."]
        if file_digest(path) != self.digest:
            return [
                f"{self.script} has changed since its models were found; "
                f"find them again: benchorch script {self.script}"
            ]
        refused = trust.refusal(str(self.script))
        is_code = path.suffix not in MODEL_SUFFIXES
        return [refused.within(f"{path} may not be run: ", ".")] if refused and is_code else []


def _callable_by_name(first_call: FirstCall) -> torch.nn.Module:
    """The module itself where keywords suffice and its result is plain; else a wrapper of it."""
    from benchorch.models.architectures.called import called, goes_by_name

    arguments, dtype = first_call.arguments, first_call.autocast
    if not dtype and goes_by_name(first_call.module, arguments, first_call.answer):
        return first_call.module
    return called(first_call.module, arguments, dtype)
