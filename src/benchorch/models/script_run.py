"""Run a user's script as Python would, in this process, with its modules' calls recorded."""

import ast
import os
import re
import runpy
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path

from benchorch.frameworks.program_archive import read_program
from benchorch.models.notebook import run_notebook
from benchorch.models.script_files import GRAPH_SUFFIX, NOTEBOOK_SUFFIX, PROGRAM_SUFFIX
from benchorch.models.script_watch import Watch
from benchorch.models.seeding import seeded

_POOLS = {
    "concurrent.futures.thread": "_threads_queues",
    "concurrent.futures.process": "_threads_wakeups",
    "joblib.externals.loky.process_executor": "_threads_wakeups",
}
"""Where each kind of pool keeps its threads."""
_SIZE = re.compile(r"([^=\s]+)=(\d+)")


def run_script(
    path: Path, arguments: Sequence[str], watch: Watch, seed: int
) -> Mapping[str, object]:
    """Run a script until it ends or the watch stops it; return its variables.

    Its random numbers are seeded, so that it makes the same weights each time unless it asks for
    others. A child that it forks ends here.
    """
    import torch  # noqa: F401  it is what is watched, whether the script imports it or not

    process = os.getpid()
    with _as_main(path, arguments), seeded(seed), watch:
        try:
            if path.suffix == PROGRAM_SUFFIX:
                return {"model": _call_program(path)}
            if path.suffix == GRAPH_SUFFIX:
                return {"model": _call_graph(path, arguments)}
            before = set(threading.enumerate())
            variables = _run_code(path)
            _wait_for_threads(set(threading.enumerate()) - before)
            return variables
        finally:
            if os.getpid() != process:
                os._exit(0)
    return {}


def _run_code(path: Path) -> Mapping[str, object]:
    if path.suffix == NOTEBOOK_SUFFIX:
        return run_notebook(path)
    if path.suffix == ".py" and _imports_from_its_package(path):
        folders = [path.parent, *path.parents[1:]]
        packages = list(takewhile(lambda each: (each / "__init__.py").is_file(), folders))
        sys.path.insert(0, str(packages[-1].parent))
        names = [each.name for each in reversed(packages)]
        return runpy.run_module(".".join([*names, path.stem]), run_name="__main__", alter_sys=True)
    return runpy.run_path(str(path), run_name="__main__")


def _imports_from_its_package(path: Path) -> bool:
    """Whether it can only be run as ``python -m package.module``: by its relative imports."""
    if not (path.parent / "__init__.py").is_file():
        return False
    nodes = ast.walk(ast.parse(path.read_bytes()))
    return any(isinstance(node, ast.ImportFrom) and node.level for node in nodes)


def _call_program(path: Path) -> object:
    """Call an exported program with its example inputs."""
    import torch

    program = read_program(path)
    if program.example_inputs is None:
        raise ValueError("the program was saved without the inputs it was exported with")
    model = program.module()
    positional, named = program.example_inputs
    with torch.inference_mode():
        model(*positional, **named)
    return model


def _call_graph(path: Path, arguments: Sequence[str]) -> object:
    """Call a graph with inputs of its declared sizes; words such as ``batch=8`` set open ones."""
    from benchorch.frameworks.onnx_module import OnnxGraph

    sizes = {found[1]: int(found[2]) for word in arguments if (found := _SIZE.fullmatch(word))}
    model = OnnxGraph(path)
    model(**model.tensors(sizes))
    return model


@contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The arguments, the import path and the settings that a script of its own would have."""
    with ExitStack() as undo:
        undo.callback(setattr, sys, "argv", sys.argv)
        sys.argv = [str(path), *arguments]
        if sys.path[:1] != [str(path.parent)]:
            sys.path.insert(0, str(path.parent))
        # Keras asks only this which framework it is to run on; torch is the one that is watched.
        os.environ.setdefault("KERAS_BACKEND", "torch")
        yield


def _wait_for_threads(started: Collection[threading.Thread]) -> None:
    """Wait for a script's threads as Python does at exit: they may call its models.

    Threads of a pool that nobody shut down wait for work and would never end; Python tells them to,
    once and for all, and this process may still want pools.
    """
    workers = {
        thread
        for name, registry in _POOLS.items()
        for thread in list(getattr(sys.modules.get(name), registry, ()))
    }
    for thread in started:
        if not thread.daemon and thread not in workers:
            thread.join()
