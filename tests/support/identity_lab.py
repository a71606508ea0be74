"""The product's own build key of ``model=factory``, for a folder of user code, in a fresh process.

A server process imports torch once and forks for each request, so a case costs well under a second
and sees no module of the case before it.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import site
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

THREADS = 1
INPUTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Key of an artifact.

    Attributes:
        key: its digest; None where the model is unhashable, which is never a hit.
        why: every field that determines the key, one ``path: value`` a line.
    """

    key: str | None
    why: str


def identity_of(
    folder: Path,
    target: str,
    *,
    arguments: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    site: Path | None = None,
    conversion: str = "eager",
    stamps: Path | None = None,
    store: Path | None = None,
    server: int = 0,
    inputs: Sequence[str] = (),
) -> Identity:
    """The key of a conversion's artifact; of eager that of its reference outputs.

    Args:
        folder: the current directory, first in the import path.
        target: ``module:callable`` or ``file.py:callable``.
        arguments: keywords of the factory.
        env: environment variables to set.
        site: a site-packages directory, before the other ones.
        conversion: as after ``conversion=``.
        stamps: where identities are kept that two loads agreed on; each is loaded without it.
        store: where the reference is found or built; its key then stands for what was found.
        server: which process is forked; another one has other addresses and another hash seed.
        inputs: names of forward's arguments; found by a load of the model without them.
    """
    request = {
        **_process(folder, env, site),
        "target": target,
        "arguments": arguments or {},
        "conversion": conversion,
        "stamps": None if stamps is None else str(stamps),
        "store": None if store is None else str(store),
        "inputs": [*inputs],
    }
    return Identity(**_answered(request, server))


def command(
    folder: Path,
    words: Sequence[str],
    said: Path,
    *,
    env: dict[str, str] | None = None,
    site: Path | None = None,
    server: int = 0,
) -> int:
    """Exit code of the command line with these words, all that it prints in the file `said`.

    Args:
        folder, env, site, server: as of `identity_of`.
    """
    request = {**_process(folder, env, site), "words": [*words], "said": str(said)}
    return int(_answered(request, server)["code"])


def _process(folder: Path, env: dict[str, str] | None, site: Path | None) -> dict[str, Any]:
    return {
        "folder": str(Path(folder).resolve()),
        "env": env or {},
        "site": None if site is None else str(Path(site).resolve()),
    }


def _answered(request: Mapping[str, Any], server: int) -> dict[str, Any]:
    process = _server(server)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the identity server ended")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


@cache
def _server(number: int) -> subprocess.Popen[str]:
    del number  # one process for each
    tests = Path(__file__).resolve().parents[1]
    path = os.pathsep.join(filter(None, (str(tests), os.environ.get("PYTHONPATH", ""))))
    server = subprocess.Popen(
        [sys.executable, "-m", "support.identity_lab"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    atexit.register(server.kill)
    return server


def _serve() -> None:
    """Answer each line of standard input by a forked child's line."""
    import torch

    from benchorch.frameworks.identity.distributions import describe
    from benchorch.frameworks.identity.owners import FileOwners
    from benchorch.models.factory import FactoryModel  # noqa: F401  imported before forking
    from benchorch.trial import build  # noqa: F401

    for name in ("torch", "numpy"):  # what lists their files is parsed before forking, too
        describe(Distribution.from_name(name), (), is_loaded=True)
        FileOwners().of_module(name)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.get_freeze_count = lambda: 1  # a measurement would count them one by one
    os.fsync = lambda descriptor: None  # no test cuts the power
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what user code prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            setup = _setup(request["conversion"]) if "conversion" in request else None
            answer = _forked(lambda request=request, setup=setup: _answer(request, setup))
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _forked(work: Callable[[], Any]) -> Any:
    """What a forked child returns, as JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            answer = work()
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(answer))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the child process died"}


@cache
def _setup(conversion: str) -> Any:
    from benchorch.config.trial_setup import open_trial
    from support.conversions import spec_of

    return open_trial(spec_of(conversion))


def _answer(request: Mapping[str, Any], setup: Any) -> dict[str, Any]:
    from benchorch.models.factory import FactoryModel

    os.chdir(request["folder"])
    os.environ.update(request["env"])
    named = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    known = list(sys.path)
    if request["site"]:
        site.addsitedir(request["site"])
    added = [place for place in sys.path if place not in known]
    sys.path[:] = [request["folder"], *filter(None, named), *added, *known]
    if "words" in request:
        return _commanded(request["words"], request["said"])
    names = request["inputs"] or _forked(lambda: _input_names(request))
    if not isinstance(names, list):
        return dict(names)
    model = FactoryModel(
        factory=request["target"],
        arguments=request["arguments"],
        inputs={name: {"shape": ["batch_size", 4], "generator": "normal"} for name in names},
    )
    setup = replace(setup, model=model)
    if request["store"]:
        return asdict(_built(setup, request["store"]))
    return asdict(_identity(setup, request["stamps"]))


def _commanded(words: Sequence[str], said: str) -> dict[str, Any]:
    from benchorch.cli.main import main

    sys.argv = ["benchorch", *words]
    with Path(said).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        main()
    except SystemExit as end:
        return {"code": end.code or 0}
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _input_names(request: Mapping[str, Any]) -> list[str]:
    """The arguments that the module's forward requires; found in a process that ends then."""
    from benchorch.models.callables import resolve_callable
    from benchorch.models.seeding import seeded

    with seeded(0):
        module: Any = resolve_callable(request["target"])(**request["arguments"])
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return ["x"]
    required = [one for one in parameters if one.default is inspect.Parameter.empty]
    return [one.name for one in required if one.kind in plain] or ["x"]


def _built(setup: Any, root: str) -> Identity:
    from benchorch.domain.artifact import digest_of
    from benchorch.domain.session import Session
    from benchorch.stores.local import LocalStore
    from benchorch.trial.build import BuildJob
    from benchorch.trial.reference import read_reference

    with tempfile.TemporaryDirectory() as place:
        session = Session(plan_id="lab", directory=Path(place), store={}, rebuild="if_needed")
        job = BuildJob(
            setup=setup,
            name="lab",
            store=LocalStore(root=root),
            session=session,
            inputs=INPUTS,
            threads=THREADS,
        )
        built = job.build(lambda _: None)
    consulted = {name: dict(one) for name, one in read_reference(built.reference).consulted.items()}
    return Identity(key=digest_of([str(built.reference), consulted]), why=str(consulted))


def _identity(setup: Any, stamps: str | None) -> Identity:
    from benchorch.cli.commands.cache_explain import flatten
    from benchorch.trial.build_keys import Keys
    from benchorch.trial.identity_stamps import Stamps
    from benchorch.trial.live_module import loader

    with tempfile.TemporaryDirectory() as place:
        load = loader(setup, lambda _: None)
        kept = Stamps(folder=Path(stamps)) if stamps else None
        keys = Keys(setup, threads=THREADS, directory=Path(place), load=load, stamps=kept)
        count = len(setup.steps)
        key = keys.after(count) if count else keys.reference(INPUTS)
    fields = flatten(dict(key.fields))
    why = "\n".join(f"{name}: {value}" for name, value in sorted(fields.items()))
    never = any(name.startswith("model.unhashable") for name in fields)
    return Identity(key=None if never else key.digest, why=why)


if __name__ == "__main__":
    _serve()
