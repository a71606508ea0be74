"""Environment variables: which count, and what is kept of them."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from benchorch.domain.artifact import digest_of

OWN_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH"),
    *("HF_HUB_DISABLE_TELEMETRY", "TOKENIZERS_PARALLELISM"),
)
"""Variables that benchorch sets for its processes."""

OWN_PREFIX = "BENCHORCH"
_OF_A_TERMINAL = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "STY"}
    | {"TMPDIR", "HYDRA_FULL_ERROR", "MPLBACKEND", "PYTHONFAULTHANDLER"}
)

_PREFIXES_OF_A_TERMINAL = (
    *(OWN_PREFIX, "SSH_", "TERM_", "TMUX", "VSCODE_", "PYTEST_"),
    *("XDG_SESSION", "XDG_RUNTIME", "XDG_CURRENT", "XDG_SEAT", "XDG_VTNR", "XDG_MENU"),
)
"""Variables that are others in each terminal, and those of benchorch itself."""

_OF_A_PROCESS = _OF_A_TERMINAL.union(OWN_VARIABLES)

ALL_VARIABLES: Final = "*"
"""Stands for the names of all variables, those of a terminal aside."""

_READ_BY_NATIVE_CODE = (
    *("LANG", "LC_", "TZ", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "ATEN_", "TORCH_", "PYTORCH_"),
    *("ONEDNN_", "DNNL_", "MKL_", "KMP_", "OMP_", "GOMP_", "OPENBLAS_", "BLIS_", "GLIBC_"),
    *("PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONUTF8"),
)
"""Beginnings of names of variables that no Python code has to read to depend on them."""


def is_of_process(name: str) -> bool:
    """Whether a variable is another in each terminal or process."""
    return name in _OF_A_PROCESS or name.startswith(_PREFIXES_OF_A_TERMINAL)


def native_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that native code is known to read, with their values."""
    names = (name for name in environment if name.startswith(_READ_BY_NATIVE_CODE))
    return {name: environment[name] for name in sorted(names) if name not in OWN_VARIABLES}


def variable_digest(environment: Mapping[str, str], name: str) -> str | None:
    """SHA-256 (hex) of a variable's value, or of all names; None where it is not set."""
    if name == ALL_VARIABLES:
        return digest_of(sorted(one for one in environment if not is_of_process(one)))
    value = environment.get(name)
    return None if value is None else sha256(value.encode(errors="replace")).hexdigest()
