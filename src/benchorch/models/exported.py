"""A module that was exported as a program: a ``.pt2`` file, which needs none of its classes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, final
from zipfile import BadZipFile, ZipFile, is_zipfile

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.frameworks.torch_program import PROGRAM_FILE, load_program
from benchorch.models.callables import check_forward
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.weights import checkpoint_identity, load_checkpoint

if TYPE_CHECKING:
    import torch

_DRAWN_ANEW = "serialization_id"  # the one member that differs each time a program is written


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedModel(DeclaredModel):
    """The exported graph as a module: its eager is the graph run by PyTorch, operator by operator.

    Attributes:
        program: the directory that holds ``program.pt2``.
        digest: what `program_digest` said of it when it was written.
        architecture: the class of the module it was exported from, for people.
        labels: its name for people as ``model``, and others such as its author.
    """

    program: str
    digest: str
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def preload(self) -> None:
        """Import what reads a program: sympy and Dynamo among it, longer to import than torch."""
        with suppress(ImportError):  # a private module
            import_module("torch._export.serde.serialize")

    def load(self, seed: int) -> torch.nn.Module:
        """The graph; BuildError where the file has changed."""
        path = Path(self.program) / PROGRAM_FILE
        found = self._program_problems()
        if found:
            raise BuildError(found[0], kind="user_code")
        with suppress(OSError):
            os.utime(path.parent)  # it is in use: `kept_programs` removes the others
        try:
            module = load_program(path.parent).module(check_guards=False)
        except (RuntimeError, ValueError, KeyError, BadZipFile) as error:
            message = f"{path} cannot be loaded by this version of torch: {error}"
            raise BuildError(message, kind="user_code") from error
        names = [spec.name for spec in self.specs()]
        check_forward(str(path), module, (*names, *self.kwargs))
        load_checkpoint(module, self.checkpoint)
        return _served(module)

    def identity(self) -> Mapping[str, Json] | None:
        """The digest of the graph and its weights, and that of a checkpoint."""
        checkpoint = checkpoint_identity(self.checkpoint) if self.checkpoint else {}
        return {"digest": self.digest, **checkpoint}

    def requested(self) -> Mapping[str, Json]:
        """The same: neither its place nor its name enters."""
        return self.identity() or {}

    def problems(self, workload: Workload) -> Sequence[str]:
        """The file, the inputs and the checkpoint."""
        return [
            *(f"model.program: {problem}" for problem in self._program_problems()),
            *self.declared_problems(workload),
        ]

    def _program_problems(self) -> list[str]:
        path = Path(self.program) / PROGRAM_FILE
        if not path.is_file():
            return [f"there is no {path} on this machine."]
        if not is_zipfile(path) or program_digest(path.parent) != self.digest:
            return [f"{path} is not the program that was written there; export the model again."]
        return []


def program_digest(directory: Path) -> str:
    """SHA-256 (hex) of a program: the same for the same graph and weights, whenever written."""
    digest = hashlib.sha256()
    with ZipFile(directory / PROGRAM_FILE) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(_DRAWN_ANEW):
                content = hashlib.sha256(archive.read(name)).hexdigest()
                digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _served(module: torch.nn.Module) -> torch.nn.Module:
    """The module on the CPU without gradients; a graph exported in eval mode has no other mode.

    Its own checks of every input would be timed with each call, and compilers stop at them.
    """
    module._forward_pre_hooks.clear()
    for part in module.modules():
        part.training = False
    return module.to("cpu").requires_grad_(requires_grad=False)
