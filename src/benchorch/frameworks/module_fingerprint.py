"""Fingerprint of a live module: its weights, and everything else that is reachable from it.

Used where only loading can tell what a model is, as with a user's own factory.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json
from benchorch.frameworks.tensor_parts import dense_parts

if TYPE_CHECKING:
    import torch

    from benchorch.frameworks.identity.start import Start
    from benchorch.frameworks.identity.walk import Walk

UNHASHABLE = "unhashable"
"""The field of an identity that can never be another's."""

_MOST_WEIGHTS = 256
_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContent:
    """Content of a live module.

    Attributes:
        fields: texts in groups, by path.
        clocks: Python modules, such as datetime, that its code takes the date from.
        asks_time: whether its code, or a package's, takes the time, perhaps to measure it.
        files: of the user's modules that were reached.
        listings: of the files of packages that were reached.
        named: files that values name.
    """

    fields: dict[str, Json]
    clocks: tuple[str, ...]
    asks_time: bool
    files: tuple[Path, ...]
    listings: tuple[str, ...]
    named: tuple[str, ...]


def state_digest(module: torch.nn.Module) -> str:
    """SHA-256 (hex) over names, dtypes, shapes and every byte of parameters and buffers."""
    import torch

    total = hashlib.sha256()
    for name, tensor in _tensors(module):
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        for part in dense_parts(tensor.detach()):
            flat = part.cpu().contiguous().reshape(-1).view(torch.uint8)
            total.update(flat.numpy().data)
    return total.hexdigest()


def content_of(
    module: torch.nn.Module,
    makers: Sequence[Callable[..., object]] = (),
    start: Start | None = None,
) -> ModuleContent:
    """Everything reachable from a live module that may change what it computes.

    Args:
        module: as it was loaded, before anything called it.
        makers: the user's callables that made it.
        start: the process before it loaded the module; None for as it is now.
    """
    from benchorch.frameworks.identity.leaves import Leaves, grouped
    from benchorch.frameworks.identity.reach import Reach
    from benchorch.frameworks.identity.start import Start
    from benchorch.frameworks.identity.walk import Walk

    leaves = Leaves()
    reach = Reach(leaves)
    walk = Walk(leaves, reach.add, start or Start())
    reach.value = walk.value
    walk.value("module", module)
    for maker in makers:
        walk.value("factory", maker)
    _settings(walk)
    reach.run()
    reach.finish()
    fields: dict[str, Json] = {
        name: dict(grouped(texts, _MOST_WEIGHTS) if name == "weights" else texts)
        for name, texts in sorted(leaves.groups.items())
    }
    if leaves.unhashable:
        fields[UNHASHABLE] = dict(leaves.unhashable)
    return ModuleContent(
        fields=fields,
        clocks=tuple(sorted(reach.clocks)),
        asks_time=reach.asks_time,
        files=tuple(sorted(reach.files)),
        listings=tuple(sorted(reach.listings)),
        named=tuple(sorted(walk.files)),
    )


def _settings(walk: Walk) -> None:
    """Settings of torch and Python in this process that change what the same code computes."""
    import torch
    import torch.nn.modules.module as machinery

    from benchorch.files import file_digest

    found = {
        "python": platform.python_version(),
        "assertions": sys.flags.optimize == 0,
        "default_dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "products": _products(),
        "compilers": _compiler_settings(),
        "flush_denormal": bool(torch.tensor([1e-310], dtype=torch.float64).mul(1)[0] == 0),
        "libraries": {
            Path(name).name: file_digest(Path(name))
            for name in sorted(torch.ops.loaded_libraries)
            if Path(name).is_file()
        },
        **{name: list(getattr(machinery, name).values()) for name in _GLOBAL_HOOKS},
    }
    for name, value in found.items():
        walk.value(f"settings.{name}", value)


def _compiler_settings() -> dict[str, str]:
    """Options of Dynamo and Inductor that are not as torch has them, where those are loaded."""
    found = {}
    for name in ("torch._dynamo.config", "torch._inductor.config"):
        options = sys.modules.get(name)
        usual = getattr(options, "_config", {})  # nothing public has the defaults
        for key, value in options.get_config_copy().items() if options and usual else ():
            if value != usual[key].default:
                found[f"{name}.{key}"] = repr(value)
    return found


def _products() -> dict[str, str]:
    """Rounding of float32 products: as set for all, and for oneDNN by kind of operator."""
    import torch

    kinds = {name: getattr(torch.backends.mkldnn, name, None) for name in ("matmul", "conv", "rnn")}
    found = {name: str(getattr(kind, "fp32_precision", "")) for name, kind in kinds.items()}
    with suppress(RuntimeError):  # of torch, where a model set these in the newer way
        found["all"] = torch.get_float32_matmul_precision()
    return found


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
