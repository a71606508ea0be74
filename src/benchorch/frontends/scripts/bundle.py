"""Capture of a module that torch.export refuses: its weights and attributes with their source."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from benchorch.domain.codec import Json
from benchorch.errors import summary_of
from benchorch.files import folder_digest
from benchorch.frameworks.eval_mode import served
from benchorch.frontends.scripts.capture import NotCapturedError, alike
from benchorch.frontends.scripts.definitions import NotDefinedError, definitions
from benchorch.models.bundled import ATTRIBUTES, MAIN, TENSORS, Bundled, read_bundle
from benchorch.models.kept_programs import keep
from benchorch.models.notebook import code_cells
from benchorch.models.script_files import DEFINITIONS, NOTEBOOK_SUFFIX
from benchorch.models.script_watch import FirstCall

if TYPE_CHECKING:
    import torch


def bundle(
    first_call: FirstCall, script: Path, modules: Mapping[str, Path], folder: Path
) -> dict[str, Json]:
    """Write the module of a call with the code that makes it; the keys of ``model`` that name it.

    It is read again and called beside the script's own, so that what is kept is what was called.

    Args:
        first_call: of which module.
        script: where the module's classes may be defined.
        modules: files of the user's modules that the script has imported, by their names.
        folder: the one below which it is kept.

    Raises:
        NotCapturedError: a part is no data, or what was kept gives other answers.
    """
    import torch

    from benchorch.models.architectures.called import called, goes_by_name

    arguments, autocast = first_call.arguments, first_call.autocast
    direct = goes_by_name(first_call.module, arguments, first_call.answer) and not autocast
    names: dict[str, Any] = dict.fromkeys(arguments.tensors)
    bare = replace(arguments, tensors=names, keywords=None)
    given = {name: each.to("cpu") for name, each in arguments.tensors.items()}
    keywords = dict(arguments.keywords or {}) if direct else {}
    alone = torch.random.fork_rng(devices=[])
    try:
        with served(first_call.module) as module, alone, torch.no_grad():
            held = Bundled(module=module, arguments=None if direct else bare, autocast=autocast)

            def write(place: Path) -> str:
                _write(held, script, modules, place)
                return folder_digest(place)

            place, digest = keep(write, folder)
            again = read_bundle(place).requires_grad_(requires_grad=False)
            own = module if direct else called(module, arguments, autocast)
            with torch.autocast("cpu", enabled=False):
                expected, answer = own(**given, **keywords), again(**given, **keywords)
    except Exception as error:  # whatever a user's code or a pickled object raises
        raise NotCapturedError(f"its code: {summary_of(error)}") from error
    if not alike(expected, answer):
        shutil.rmtree(place, ignore_errors=True)
        raise NotCapturedError("its code gives other answers when it is loaded alone")
    return {"bundle": str(place), "source": str(place / DEFINITIONS), "digest": digest}


def _write(held: Bundled, script: Path, modules: Mapping[str, Path], place: Path) -> None:
    import torch
    from safetensors.torch import save_file

    variables = vars(sys.modules[MAIN])
    roots = _Writer.names_in(held)
    source, values = definitions(_source(script), variables, roots)
    more = _Writer.names_in(values) - roots
    if more:
        source, values = definitions(_source(script), variables, roots | more)
    with (place / ATTRIBUTES).open("wb") as file:
        writer = _Writer(file)
        writer.dump(replace(held, values=values))
    dense = torch.contiguous_format
    apart = {name: each.clone(memory_format=dense) for name, each in writer.tensors.items()}
    save_file(apart, place / TENSORS)
    (place / DEFINITIONS).write_text(source, encoding="utf-8")
    for name, path in modules.items():
        copy = place.joinpath(*name.split("."))
        copy = copy / path.name if path.name == "__init__.py" else copy.with_suffix(".py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _source(script: Path) -> str:
    """The script's Python, a notebook's as one."""
    if script.suffix == NOTEBOOK_SUFFIX:
        return "\n".join(code for _, code in code_cells(script))
    return script.read_bytes().decode()


def _is_plain(value: object) -> bool:
    """Whether a value is told from others by its text alone."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in (str, bytes, bool, int, float, type(None))


class _Writer(pickle.Pickler):
    """Keeps tensors apart and records which of the script's own names a pickle needs."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: dict[str, torch.Tensor] = {}
        self.names: set[str] = set()
        self._known: dict[int, tuple[str, object]] = {}

    @classmethod
    def names_in(cls, value: object) -> set[str]:
        """The script's names that a value's pickle needs."""
        import io

        writer = cls(io.BytesIO())
        writer.dump(value)
        return writer.names

    def persistent_id(self, value: object) -> tuple[object, ...] | None:
        import torch

        if type(value) in (set, frozenset) and all(map(_is_plain, cast("set[object]", value))):
            return self._in_order(cast("set[object] | frozenset[object]", value))
        if not isinstance(value, torch.Tensor):
            return None
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_quantized:
            raise NotDefinedError(f"a {type(value).__name__} holds no plain numbers")
        name = self._name_of(value)
        self.tensors[name] = value.detach()
        return name, isinstance(value, torch.nn.Parameter)

    def _in_order(self, values: set[object] | frozenset[object]) -> tuple[object, ...]:
        """A set, whose own order differs from one Python process to the next, as a sorted list."""
        items = sorted(values, key=lambda each: (type(each).__name__, repr(each)))
        return self._name_of(values), isinstance(values, frozenset), items

    def _name_of(self, value: object) -> str:
        name, _ = self._known.setdefault(id(value), (f"t{len(self._known)}", value))
        return name  # the value is held, so that no other gets its id

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            # Not by its own constructor, which may look at what it is given: slots for tensors.
            kind: Any = type(value)
            return kind._make, (list(value),)
        if isinstance(value, type | FunctionType) and value.__module__ == MAIN:
            self.names.add(value.__qualname__.partition(".")[0])
        return NotImplemented
