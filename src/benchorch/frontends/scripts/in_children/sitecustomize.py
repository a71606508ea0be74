"""Record of the models of a Python process that a script starts, from its import of torch on."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any


def _run_the_other() -> None:
    """Run the sitecustomize that this one is found in place of, if there is one."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != here]
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = own


class _Torch:
    """Finder that starts the record once torch has been imported."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(_Torch)
        spec: Any = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader.exec_module = partial(_run, spec.loader.exec_module)
        return spec


def _run(execute: Callable[[ModuleType], None], torch: ModuleType) -> None:
    execute(torch)
    with contextlib.suppress(Exception):  # another environment, without benchorch
        from benchorch.frontends.scripts.discovery_process import watch_child

        watch_child()


if __name__ == "sitecustomize":  # Python found it at the start of a process
    _run_the_other()
    sys.meta_path.insert(0, _Torch)
