"""Runs benchorch's command line once for each line of standard input, in a fork of this process.

A line is `{"cwd", "words", "seconds"}`, with `model` a model's node to load instead,
as a trial of the recipe in `words` loads it. The answer is `{"code", "output", "cpu_s"}`.
A fork costs a hundredth of an interpreter that imports torch, and leaves nothing to the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
from typing import Any


def attempt(request: dict[str, Any]) -> None:
    """In the fork: a process whose words, folder and limit are the request's."""
    from benchorch.cli.main import main

    seconds = int(request["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    os.chdir(request["cwd"])
    sys.argv = ["benchorch", *request["words"]]
    sys.path[:] = [place for place in sys.path if "tests" not in place]
    if "model" in request:
        load(request["model"], request["words"])
    else:
        main()


def load(model: dict[str, Any], words: list[str]) -> None:
    """The model's module, made as a trial makes it."""
    from benchorch.config.components import make
    from benchorch.errors import BenchorchError
    from benchorch.interfaces.model import Model
    from benchorch.models import trust

    try:
        with trust.declared(words):
            made = make(model, Model, "model")
            made.load(0)  # type: ignore[attr-defined]
    except BenchorchError as error:
        print(f"refused: {error}")
        sys.exit(1)


def warm() -> None:
    """What planning imports and reads once, before the first fork."""
    from benchorch.cli.main import main

    sys.argv = ["benchorch", "plan", "model=mlp", "conversion=eager"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()


def served(request: dict[str, Any]) -> dict[str, Any]:
    """What became of the request; the code is negative for a signal, as `subprocess` has it."""
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        before = time.monotonic()
        child = os.fork()
        if not child:
            os.setsid()
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            code = 70
            try:
                attempt(request)
                code = 0
            except SystemExit as exit:
                code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                try:
                    sys.stdout.flush()
                    sys.stderr.flush()
                finally:
                    os._exit(code & 255)
        status, usage = waited(child, before + 6 * request["seconds"])
        output.seek(0)
        text = output.read().decode(errors="replace")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"code": os.waitstatus_to_exitcode(status), "output": text, "cpu_s": cpu_s}


def waited(child: int, deadline: float) -> tuple[int, resource.struct_rusage]:
    """The end of the child, which is killed at the deadline."""
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return status, usage
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(0.002)


if __name__ == "__main__":
    import torch

    import benchorch.cli.main  # noqa: F401

    torch.set_num_threads(1)
    warm()
    for line in sys.stdin:
        print(json.dumps(served(json.loads(line))), flush=True)
