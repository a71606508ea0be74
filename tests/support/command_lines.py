"""benchorch's command line over and over, each in a fork of one warm process.

A fork costs a tenth of an interpreter that imports what planning needs, and leaves nothing to the
next. The process reads a request from each line of its standard input; see `served`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Done:
    """The end of one command: its exit code (negative: a signal), its words, its CPU seconds."""

    code: int
    stdout: str
    stderr: str
    cpu_s: float

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class Commands:
    """Commands, one after another, each in a fork of one warm process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, words: Sequence[str], cpu_s: int = 60, **more: Any) -> Done:
        """The command with these words in that folder; killed after `cpu_s`.

        `environment=` is its environment, `terminal=` the path of the one it runs at, `model=` a
        model's node to load instead, as a trial of the recipe in `words` loads it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"cwd": str(folder), "words": list(words), "seconds": cpu_s, **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        try:
            return Done(**json.loads(self._process.stdout.readline()))
        except BaseException:  # the next command would read what this one has left unread
            self._process.kill()
            raise


@contextmanager
def started(
    home: Path, *packages: str, variables: Mapping[str, str] | None = None, before: str = ""
) -> Iterator[Commands]:
    """Commands whose state, settings and store lie in `home`; these packages are imported.

    The process runs the code `before` first of all.
    """
    places = {"XDG_STATE_HOME": home / "state", "XDG_CONFIG_HOME": home / "config"}
    places |= {"BENCHORCH_CACHE_DIR": home / "store", "HF_HOME": home / "hub"}
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    environment.update(variables or {})
    file = str(Path(__file__).resolve())
    code = f"{before}\nimport runpy, sys; runpy.run_path({file!r}, run_name='__main__')"
    with subprocess.Popen(
        [sys.executable, *(["-c", code] if before else [file]), *packages],
        env=environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Commands(process)
        process.stdin.close()  # type: ignore[union-attr]


def attempt(request: Mapping[str, Any]) -> NoReturn:
    """In the fork: a process whose words, folder, environment and limit are the request's."""
    from benchorch.cli.main import main

    seconds = int(request["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    os.chdir(request["cwd"])
    if "environment" in request:
        os.environ.clear()
        os.environ.update(request["environment"])
    sys.argv = ["benchorch", *request["words"]]
    try:
        if "model" in request:
            load(request["model"], request["words"])
        else:
            main()
    except SystemExit as error:
        end(error.code)
    end(None)


def end(code: object) -> NoReturn:
    """End the process as an interpreter does, less the taking apart of every package."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


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


def warm(packages: Sequence[str]) -> None:
    """What planning imports and reads once, before the first fork."""
    from benchorch.cli.main import main

    for package in packages:
        __import__(package)
    if "torch" in packages:
        sys.modules["torch"].set_num_threads(1)
    sys.argv = ["benchorch", "plan", "model=mlp", "conversion=eager"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    gc.collect()
    gc.freeze()  # else a fork's collections, the one at its end included, look at all of it ...
    gc.unfreeze = lambda: None  # ... and they would do so after a measurement
    gc.get_freeze_count = lambda: 1  # which would count them one by one
    os.fsync = lambda descriptor: None  # no test cuts the power


def served(request: Mapping[str, Any]) -> dict[str, Any]:
    """What became of the request as a `Done`'s fields.

    `request` has `cwd`, `words` and `seconds`; it may have `environment`, `terminal` and `model`.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        sys.stdout.flush()
        before = time.monotonic()
        child = os.fork()
        if not child:
            os.setsid()
            if "terminal" in request:
                at_terminal(request["terminal"])
            else:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(stdout.fileno(), 1)
                os.dup2(stderr.fileno(), 2)
            attempt(request)
        # Its seconds of CPU are the limit; those of a clock only end what hangs.
        status, usage = waited(child, before + max(540, 10 * request["seconds"]))
        texts = [read_from_start(file) for file in (stdout, stderr)]
    cpu_s = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "stdout": texts[0], "stderr": texts[1], "cpu_s": cpu_s}


def at_terminal(name: str) -> None:
    """All three streams are that terminal's, as an interpreter opens them."""
    terminal = os.open(name, os.O_RDWR)
    for number in range(3):
        os.dup2(terminal, number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, closefd=False)  # noqa: SIM115 - as long as the process
        for number, mode in enumerate("rww")
    )


def read_from_start(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


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
        time.sleep(0.005)


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [place for place in sys.path if place != here]  # no user's command sees it
    warm(sys.argv[1:])
    for line in sys.stdin:
        print(json.dumps(served(json.loads(line))), flush=True)
