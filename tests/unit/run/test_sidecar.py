"""The end of a sidecar process: what is waited for, and what ends the wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchorch.run.sidecar import Sidecar


@contextmanager
def running(source: str, *arguments: str) -> Iterator[Sidecar]:
    """A sidecar that runs this source."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    beside = Sidecar(process)
    try:
        yield beside
    finally:
        beside.process.kill()
        beside.process.communicate()


def test_an_interrupt_ends_the_wait_from_its_first_moment_on() -> None:
    with running("import time; time.sleep(600)") as beside:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert not beside.finish(complete=True, waiting=lambda: None)
        assert beside.process.wait(60) == -signal.SIGTERM
    assert beside.reason == "the wait for it was interrupted"
