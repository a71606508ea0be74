"""Software dependencies of compiled and tuned code: compilers, libraries, options.

The variables are listed here and nowhere else. Only formats that hold such code depend on them.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.frameworks.identity.distributions import DIGITS, record_digest

GENERATED = ("compiler", "compiler_options", "kernel_options", "math_libraries")
"""Facts of code that a C++ compiler or Triton made."""

KERNELS = ("kernel_options", "math_libraries")
"""Facts of weights that were packed, or kernels chosen, by torch's own libraries."""

COMPILED_FACTS = GENERATED

_COMPILER_VARIABLES = (
    *("CC", "CXX", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH"),
    *("CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_PREFIX"),
    *("CUDA_HOME", "CUDA_PATH", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "TORCH_CUDA_ARCH_LIST"),
    "TORCH_COMPILE_DISABLE",
)
_COMPILER_PREFIXES = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "AOT_INDUCTOR_")
_KERNEL_VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"),
    *("DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_DEFAULT_FPMATH_MODE", "MKL_CBWR"),
    *("MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_THREADING_LAYER", "MKL_DYNAMIC"),
    *("OMP_DYNAMIC", "OMP_SCHEDULE", "OMP_PROC_BIND", "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
)
_PLACES = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME"})
"""Variables with the places of compiler caches, which do not change compiled code."""

_MATH_PACKAGES = ("mkl", "intel-openmp", "openblas", "onednn")


def compiled_facts(device: str) -> dict[str, Json]:
    """The facts of `GENERATED` for a device, ``cpu`` or ``cuda``."""
    names = [*_COMPILER_VARIABLES, *filter(_is_an_option, sorted(os.environ))]
    compilers = {"c++": _version_of(os.environ.get("CXX") or "g++")}
    if device == "cuda":
        compilers["ptxas"] = _version_of(os.environ.get("TRITON_PTXAS_PATH") or "ptxas")
    return {
        "compiler": compilers,
        "compiler_options": _set_ones(names),
        "kernel_options": _set_ones(_KERNEL_VARIABLES),
        "math_libraries": _math_libraries(),
    }


def reference_options() -> dict[str, Json]:
    """Variables that make oneDNN round float32 to fewer bits, in the baseline as well."""
    return _set_ones([name for name in _KERNEL_VARIABLES if name.endswith("_FPMATH_MODE")])


def _is_an_option(name: str) -> bool:
    return name.startswith(_COMPILER_PREFIXES) and name not in _PLACES


def _set_ones(names: tuple[str, ...] | list[str]) -> dict[str, Json]:
    return {name: os.environ[name] for name in dict.fromkeys(names) if name in os.environ}


def _version_of(command: str) -> str:
    """Version output and path of a program: the same name may become another program."""
    words = command.split()
    path = shutil.which(words[0]) if words else None
    if path is None:
        return f"{command} (not found)"
    real = Path(path).resolve()
    try:
        arguments = [str(path), *words[1:], "--version"]
        output = subprocess.run(
            arguments, capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return f"{real} ({type(error).__name__})"
    return f"{output.strip().splitlines()[0] if output.strip() else '(no version)'} at {real}"


def _math_libraries() -> Mapping[str, str]:
    """Torch with the BLAS and oneDNN that were built into it, and those that are beside it.

    A wheel's RECORD has the digest of every library in it, and so stands for its build flags.
    """
    found: dict[str, str] = {}
    for name in ("torch", *_MATH_PACKAGES):
        try:
            distribution = Distribution.from_name(name)
        except PackageNotFoundError:
            continue
        found[name] = f"{distribution.version} {record_digest(distribution)[:DIGITS]}"
    return found
