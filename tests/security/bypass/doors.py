"""The command line over and over, without an interpreter for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVE = Path(__file__).with_name("serve.py")


@dataclass(frozen=True)
class Done:
    """The end of one command: its exit code (negative: a signal), its words, its CPU seconds."""

    code: int
    output: str
    cpu_s: float


class Doors:
    """Commands, one after another, each in a fork of one warm process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, folder: Path, words: Sequence[str], cpu_s: int = 60, **more: Mapping[str, Any]
    ) -> Done:
        """The command with these words in that folder; killed after `cpu_s`.

        `model=` is a model's node to load instead, as a trial of the recipe in `words` loads it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"cwd": str(folder), "words": list(words), "seconds": cpu_s, **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Done(**json.loads(self._process.stdout.readline()))


@contextmanager
def started(home: Path) -> Iterator[Doors]:
    """Commands whose state, settings and store lie in `home`."""
    places = {"XDG_STATE_HOME": home / "state", "XDG_CONFIG_HOME": home / "config"}
    places |= {"BENCHORCH_CACHE_DIR": home / "store", "HF_HOME": home / "hub"}
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    with subprocess.Popen(
        [sys.executable, str(SERVE)],
        env=environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Doors(process)
        process.stdin.close()  # type: ignore[union-attr]
