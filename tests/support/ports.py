"""Ports for servers that tests start."""

from __future__ import annotations

import os

from benchorch.cli.commands import ui


def free_port() -> int:
    """One below those that the kernel gives to connections, from this process's number on.

    Until its server binds it, minutes on a loaded machine, no other test is given the same.
    """
    return ui.free_port(20_000 + os.getpid() % 10_000)
