"""A user's own package: factories that work, and factories that fail in every way."""

import ctypes
import time
from pathlib import Path

import torch


class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.linear = torch.nn.Linear(4, width)

    def forward(self, x):
        return self.linear(x)


class Stubborn(Net):
    def forward(self, x):
        raise ValueError("forward cannot")


class Unexportable(Net):
    def forward(self, x):
        if torch.compiler.is_exporting():
            raise RuntimeError("cannot be exported")
        return super().forward(x)


def unexportable():
    return Unexportable()


def works(width=8):
    return Net(width)


def segfaults():
    ctypes.string_at(0)


def hoards():
    kept = []
    while True:
        kept.append(bytearray(50_000_000))


def sleeps():
    time.sleep(3600)


def raises():
    raise RuntimeError("no such weights today")


def returns_a_number():
    return 42


def refuses_inputs():
    return Stubborn()


def needs_a_package():
    import a_package_nobody_has

    return a_package_nobody_has


class Slow(Net):
    """Loads slowly, so that a test can kill it in mid-trial."""

    def __init__(self):
        super().__init__()
        time.sleep(1)


def slow():
    return Slow()


def held():
    """Loads once there is a file `go` beside this one, so that a test decides when."""
    while not Path(__file__).with_name("go").exists():
        time.sleep(0.1)
    return Net()
