"""A bucket, and scripts in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.s3 import bucket

__all__ = ["bucket"]


@pytest.fixture
def start(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs a script after its module's PROLOGUE; at the end every process is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", request.module.PROLOGUE + script, str(tmp_path)]
        pipe = subprocess.PIPE
        process = subprocess.Popen([*command, *arguments], stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
