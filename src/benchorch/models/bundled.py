"""A module as the code of a script that made it left it: weights, attributes and their source."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.files import folder_digest
from benchorch.models import trust
from benchorch.models.callables import imported, user_code
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.script_files import DEFINITIONS
from benchorch.models.script_inputs import CapturedArguments
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch

ATTRIBUTES = "module.pkl"
TENSORS = "tensors.safetensors"
MAIN = "__main__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """What a bundle's pickle holds.

    Attributes:
        arguments: of the call, without its tensors; None where it goes by keyword.
        autocast: the dtype of the region it was made in; "" for none.
        values: variables of the script that its definitions read and its source does not spell.
    """

    module: torch.nn.Module
    arguments: CapturedArguments | None = None
    autocast: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel(DeclaredModel):
    """A module that torch.export refuses, taken once from a run of its script.

    Loading it runs code of the script: its definitions, the modules that it imports and what its
    pickle names. So it must be trusted as the script is.

    Attributes:
        bundle: the folder.
        source: the file of definitions in it, by which it is trusted.
        digest: SHA-256 (hex) of the folder's files.
        architecture: the module's class, for people.
        labels: its name for people as ``model``, and others such as its author.
    """

    bundle: str
    source: str
    digest: str
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    version = 2  # 2: it returns the tensors of objects

    def load(self, seed: int) -> torch.nn.Module:
        """The module; BuildError of kind user_code where its code fails or may not run."""
        found = self._bundle_problems()
        if found:
            raise BuildError(found[0], kind="user_code")
        with suppress(OSError):
            os.utime(self.bundle)  # it is in use: `kept_programs` removes the others
        with user_code(self.source), seeded(seed):
            module = read_bundle(Path(self.bundle))
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def identity(self) -> Mapping[str, Json] | None:
        """None: the module is hashed after loading, with its code."""
        return None

    def requested(self) -> Mapping[str, Json]:
        """The digest; neither its place nor its name enters."""
        return {"digest": self.digest, "version": self.version}

    def problems(self, workload: Workload) -> Sequence[str]:
        """The files, the inputs and the checkpoint."""
        return [
            *(f"model.bundle: {problem}" for problem in self._bundle_problems()),
            *self.declared_problems(workload),
        ]

    def _bundle_problems(self) -> list[str]:
        folder = Path(self.bundle)
        if Path(self.source) != folder / DEFINITIONS:
            return [f"source is {self.source}; it must be the {DEFINITIONS} of {folder}."]
        if not Path(self.source).is_file():
            return [f"there is no {self.source} on this machine."]
        if any(path.is_symlink() for path in (folder, *folder.rglob("*"))):
            return [f"{folder} holds a link, whose file would be trusted in place of the folder."]
        refused = trust.refusal(self.source)
        if refused:
            return [refused.within(f"{self.source} may not be run: ", ".")]
        if folder_digest(folder) != self.digest:
            return [f"{folder} is not the bundle that was written there; run its script again."]
        return []


def read_bundle(folder: Path) -> torch.nn.Module:
    """The module of a trusted bundle, to be called with the call's tensors."""
    from safetensors.torch import load_file

    from benchorch.models.architectures.called import called

    with _first_on_path(folder), (folder / ATTRIBUTES).open("rb") as file:
        definitions = imported(str(folder / DEFINITIONS))
        held: Bundled = _ScriptUnpickler(file, definitions, load_file(folder / TENSORS)).load()
    vars(definitions).update(held.values)
    if held.arguments is None:
        return held.module
    return called(held.module, held.arguments, held.autocast)


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Modules of the bundle come first, as those beside a script do while it runs."""
    sys.dont_write_bytecode = True  # for good: the digest is of what the bundle was written with
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


class _ScriptUnpickler(pickle.Unpickler):
    """Takes the script's own names from its definitions, and tensors from a file beside it."""

    def __init__(
        self, file: BinaryIO, definitions: ModuleType, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__(file)
        self._definitions = definitions
        self._tensors = tensors
        self._sets: dict[str, set[object] | frozenset[object]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module != MAIN:
            return super().find_class(module, name)
        found: Any = self._definitions
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, reference: tuple[Any, ...]) -> object:
        import torch

        name, flag, *items = reference
        if items:
            values: list[object] = items[0]
            return self._sets.setdefault(name, frozenset(values) if flag else set(values))
        tensor = self._tensors[name]
        return torch.nn.Parameter(tensor, requires_grad=False) if flag else tensor
