"""A package that AOTInductor compiled, loaded without the compiler."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final
from zipfile import BadZipFile, ZipFile

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.torch_call import Bound, TorchExecutable, tensors_of
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch

_NOTES_FILE = "notes.json"
# How Inductor names the kernels that it generates.
_KERNEL = re.compile(r"\b(?:cpp_fused|triton)_\w+")
# What torch says of this processor for each word of AOTI_CPU_ISA; other words are not checked.
_CHECKS = {
    "AVX2": "_is_avx2_supported",
    "AVX512": "_is_avx512_supported",
    "AVX512_VNNI": "_is_vnni_supported",
    "AMX_TILE": "_is_amx_tile_supported",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Aoti(Runtime):
    """Calls the compiled library directly; Dynamo and Inductor are never imported."""

    generates = True
    consumes = (Format.AOTI_PACKAGE,)
    version = 2

    def load(self, request: LoadRequest) -> Executable:
        """The library in this process; MeasureError where it was compiled for another machine."""
        import torch

        package = request.sources[Format.AOTI_PACKAGE] / "model.pt2"
        torch.set_num_threads(request.threads)
        with wrap_errors(MeasureError, "The AOTInductor package cannot be loaded"):
            loader = _loader(package)
        metadata = loader.get_metadata()
        _check_host(metadata, request)
        dtypes = tuple(metadata.get("benchorch_dtypes", "").split())
        return TorchExecutable(
            place=partial(tensors_of, device=request.device, dtypes=dtypes),
            prepare=partial(_prepare, loader, _keywords(loader)),
            provider="aot inductor",
            dtypes=dtypes,
            autocast=metadata.get("benchorch_autocast") or None,
            device=request.device,
            counts=partial(_counts, metadata, package),
        )


def _loader(package: Path) -> Any:
    """Torch's own loader; the public function returns the same one but imports the compiler."""
    import torch

    native = torch._C._aoti.AOTIModelPackageLoader
    single_threaded, runners, default_device = False, 1, -1
    return native(str(package), "model", single_threaded, runners, default_device)


def _counts(metadata: Mapping[str, str], package: Path) -> dict[str, Json]:
    beside = package.with_name(_NOTES_FILE)
    notes: dict[str, Json] = read_json(beside) if beside.exists() else {}
    isa = metadata.get("AOTI_CPU_ISA", "")
    return {**notes, "cpu_isa": isa, "fused_kernels": _fused_kernels(package)}


def _fused_kernels(package: Path) -> int | None:
    """Number of Inductor's own kernels in the package; None without its source."""
    try:
        with ZipFile(package) as archive:
            sources = [name for name in archive.namelist() if name.endswith("wrapper.cpp")]
            text = "".join(archive.read(name).decode() for name in sources)
    except (OSError, BadZipFile):
        return None
    return len(set(_KERNEL.findall(text))) if sources else None


def _keywords(loader: Any) -> tuple[str, ...]:
    """The order in which the library takes its inputs, from the call it was exported with."""
    _, spec = json.loads(loader.get_call_spec()[0])
    _, by_keyword = spec["children_spec"]
    return tuple(json.loads(by_keyword["context"]))


def _prepare(loader: Any, order: tuple[str, ...], tensors: Mapping[str, torch.Tensor]) -> Bound:
    # Arguments that are no tensors were built in as constants.
    return partial(loader.run, [tensors[name] for name in order if name in tensors])


def _check_host(metadata: Mapping[str, str], request: LoadRequest) -> None:
    """MeasureError where the package was compiled for another machine."""
    here = {
        "AOTI_MACHINE": platform.machine(),
        "AOTI_DEVICE_KEY": request.device,
        "benchorch_threads": str(request.threads),
    }
    wrong = [
        f"{name} is {metadata[name]!r} in the package and {value!r} here"
        for name, value in here.items()
        if metadata.get(name) not in (None, "", value)
    ]
    wrong += [f"this processor has no {word}" for word in _missing_instructions(metadata)]
    if wrong:
        raise MeasureError(
            f"The AOTInductor package was compiled for another machine: {'; '.join(wrong)}.",
            kind="wrong_host",
            remedy="rebuild=always",
        )


def _missing_instructions(metadata: Mapping[str, str]) -> list[str]:
    import torch.cpu

    words = metadata.get("AOTI_CPU_ISA", "").split()
    return [word for word in words if word in _CHECKS and not getattr(torch.cpu, _CHECKS[word])()]
