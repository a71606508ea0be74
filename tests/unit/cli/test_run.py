"""How a command line ends: however its invocation does, and by which signal."""

import os
import signal
import sys
from pathlib import Path

import pytest

from benchorch.cli.run import _to_its_end
from benchorch.errors import ConfigError, ExecutorError, RecordError


class Invocation:
    """Notes how it was ended."""

    directory = Path("no-such-run")

    def __init__(self):
        self.ended = []

    def interrupt(self):
        self.ended.append("interrupted")

    def cut_short(self):
        self.ended.append("cut short")

    def abandon(self):
        self.ended.append("abandoned")

    def close(self, *, complete):
        self.ended.append(complete)
        return 0


def ended_by(work):
    invocation = Invocation()
    return _to_its_end(work, lambda: invocation), invocation.ended


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGTERM), 143),
        (lambda: sys.exit(signal.SIGTERM), 143),  # as Ray's handler does
        (lambda: os.kill(os.getpid(), signal.SIGINT), 130),
    ],
)
def test_a_signal_keeps_what_was_measured(work, code):
    before = signal.getsignal(signal.SIGTERM)
    assert ended_by(work) == (code, ["interrupted"])
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_signal_the_invocation_is_closed():
    assert ended_by(lambda: None) == (0, [True])


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (RecordError("the disk is full"), "abandoned"),
        (ExecutorError("no cluster responds"), "cut short"),
        (ConfigError(["the files are too large to ship"]), "cut short"),
    ],
)
def test_an_invocation_that_an_error_ends_is_ended(error, ended):
    def work():
        raise error

    invocation = Invocation()
    with pytest.raises(type(error)):
        _to_its_end(work, lambda: invocation)
    assert invocation.ended == [ended]


def test_a_second_signal_interrupts_the_end_and_does_not_kill():
    class Recording(Invocation):
        def interrupt(self):
            with pytest.raises(KeyboardInterrupt):  # as the wait for a tracker does
                os.kill(os.getpid(), signal.SIGTERM)
            super().interrupt()

    invocation = Recording()
    code = _to_its_end(lambda: os.kill(os.getpid(), signal.SIGTERM), lambda: invocation)
    assert (code, invocation.ended) == (143, ["interrupted"])
