"""Installation commands for absent packages: benchorch's extras by the packages they bring."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from benchorch.errors import ConfigError
from benchorch.host.environment import is_installed

INSTALL = "pip install"

TORCH_WHEELS = "https://download.pytorch.org/whl"
"""The index of PyTorch's builds, a folder for each device's tag; PyPI has one of each platform."""

_NO_REMEDY = frozenset({"all", "dev", "docs"})
"""Extras that are made of others, or bring tools of a developer's."""

_BROUGHT_BY = {
    "PIL": "pillow",
    "botocore": "boto3",
    "cv2": "opencv-python",
    "google": "onnx",
    "llama_cpp": "llama-cpp-python",
    "modelopt": "nvidia-modelopt",
    "onnx_ir": "onnxscript",
    "pynvml": "nvidia-ml-py",
    "sklearn": "scikit-learn",
    "sqlalchemy": "mlflow",
    "tvm": "apache-tvm",
}
"""Modules that come with another distribution than the one of their name."""


def install_command(distributions: Iterable[str]) -> str:
    """The command that installs them: by benchorch's extras as far as these have them."""
    wanted = dict.fromkeys(distributions)
    whole = [name for name, members in _extras().items() if members >= wanted.keys()]
    needed = whole[:1] or list(dict.fromkeys(e for d in wanted if (e := _extra_of(d))))
    extras = [f"'benchorch[{','.join(needed)}]'"] if needed else []
    others = [] if whole else [name for name in wanted if not _extra_of(name)]
    return " ".join([INSTALL, *extras, *others])


def require(distribution: str) -> None:
    """ConfigError with the command where a distribution is not installed."""
    if not is_installed(distribution):
        raise ConfigError(
            [f"{distribution} is not installed."], next=install_command([distribution])
        )


def needs(missing: Sequence[str]) -> str:
    """Reason of a skip because of absent packages."""
    return f"needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def module_remedy(module: str) -> str:
    """How to get a module that cannot be imported.

    Names no distribution after an unknown module: anyone may register such a name.
    """
    for name in _candidates(module):
        if name in _BROUGHT_BY.values() or _extra_of(name):
            return f"{INSTALL} --upgrade {name}" if is_installed(name) else install_command([name])
    return f"install the package that provides the module {module}"


def absence(error: ModuleNotFoundError) -> ConfigError | None:
    """A module that an extra would bring, with the command; None for any other."""
    for name in _candidates(error.name or ""):
        if _extra_of(name):
            return ConfigError([f"{name} is not installed."], next=install_command([name]))
    return None


def _candidates(module: str) -> tuple[str, str]:
    """Names of the distribution that a module may come with, the likelier first."""
    package = module.partition(".")[0]
    if module.startswith("google.") and not module.startswith("google.protobuf"):
        return module, module  # many distributions share that folder
    return _BROUGHT_BY.get(package, package.replace("_", "-")), package


def _extra_of(distribution: str) -> str | None:
    return next((name for name, members in _extras().items() if distribution in members), None)


@cache
def _extras() -> Mapping[str, frozenset[str]]:
    """Benchorch's extras with the names of their members."""
    from importlib import metadata

    try:
        lines = metadata.requires("benchorch") or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, set[str]] = {}
    for line in lines:
        extra = re.match(r"""([\w.-]+).*extra == ["']([\w-]+)["']""", line)
        if extra and extra[2] not in _NO_REMEDY:
            extras.setdefault(extra[2], set()).add(extra[1])
    return {extra: frozenset(members) for extra, members in extras.items()}
